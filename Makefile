# Orrery's only makefile. `make help` lists the targets; README.md explains them.
#
# Every variant lives in build/<variant>/ and can be built beside the others: release (the
# default), debug, asan (address and undefined behaviour), tsan, coverage. `make VARIANT=debug`
# builds one of them.
#
#   make V=1              show the commands
#   make WERROR=0         let warnings be warnings (the default with compilers not tested here)
#   make CC=clang         another compiler; a changed compiler or flag rebuilds everything
#   make CFLAGS=-march=native LDFLAGS=...   are added to ours
#
# Sources are found by wildcard: a new .c file in one of LIB_DIRS, cli/, tests/test_*.c,
# tests/fuzz_*.c or bench/bench_*.c needs no edit here.

VERSION := 0.1.0
SOVERSION := 0

VARIANT ?= release
# All output goes under here; `make BUILD_ROOT=/tmp/mine` builds elsewhere.
BUILD_ROOT ?= build
BUILD := $(BUILD_ROOT)/$(VARIANT)
PREFIX ?= /usr/local
DESTDIR ?=

ifeq ($(origin CC),default)
CC := cc
endif
AR ?= ar
PKG_CONFIG ?= pkg-config

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# ------------------------------------------------------------------------------------------------
# Flags

# No fused multiply-add and no -ffast-math, in any variant: a number or a simulated time must not
# depend on the compiler's mood, nor differ between two builds.
FLOAT_FLAGS := -ffp-contract=off -fno-fast-math

WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes

# Warnings are errors with the two compilers that are tested (gcc 12, clang 14), so that a newer
# compiler's new warning does not stop somebody's build. `make test` says WERROR=1 in any case.
TESTED_COMPILERS := gcc-12 clang-14
CC_ID := $(shell $(CC) -dM -E -x c /dev/null 2>/dev/null | awk '\
	/define __clang_major__ /{c=$$3} /define __GNUC__ /{g=$$3} \
	END{print c ? "clang-" c : "gcc-" g}')
ifneq ($(filter $(CC_ID),$(TESTED_COMPILERS)),)
WERROR ?= 1
else
WERROR ?= 0
endif
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif

VARIANTS := release debug asan tsan coverage
variant_cflags_release := -O2 -g
variant_cflags_debug := -O0 -g3
variant_cflags_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all
variant_ldflags_asan := -fsanitize=address,undefined
variant_cflags_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
variant_ldflags_tsan := -fsanitize=thread
variant_cflags_coverage := -O0 -g --coverage
variant_ldflags_coverage := --coverage
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(VARIANTS))
endif

# Libraries: by pkg-config. Their headers are system headers, so that their warnings are not ours.
PACKAGES := sqlite3 lua5.4 openblas zlib yajl
# The command alone needs these (orrery view serves a file), and so what is linked with its files.
COMMAND_PACKAGES := libmicrohttpd
TEST_PACKAGES := cmocka
pkg = $(shell $(PKG_CONFIG) $(1) 2>/dev/null)
PACKAGE_CFLAGS := $(patsubst -I%,-isystem %,$(call pkg,--cflags $(PACKAGES)))
PACKAGE_LIBS := $(call pkg,--libs $(PACKAGES))
COMMAND_CFLAGS := $(patsubst -I%,-isystem %,$(call pkg,--cflags $(COMMAND_PACKAGES)))
COMMAND_LIBS := $(call pkg,--libs $(COMMAND_PACKAGES))
TEST_CFLAGS := $(patsubst -I%,-isystem %,$(call pkg,--cflags $(TEST_PACKAGES)))
TEST_LIBS := $(call pkg,--libs $(TEST_PACKAGES))

# -fPIC for all: the static and the shared library are made of the same objects.
ALL_CPPFLAGS := -I. -I$(BUILD)/gen -D_GNU_SOURCE $(PACKAGE_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS := -std=c11 $(variant_cflags_$(VARIANT)) $(FLOAT_FLAGS) -fPIC -pthread $(WARNINGS) \
	$(CFLAGS)
ALL_LDFLAGS := -pthread $(variant_ldflags_$(VARIANT)) $(LDFLAGS)
LIBS := $(PACKAGE_LIBS) -lpthread -ldl -lm

# ------------------------------------------------------------------------------------------------
# CUDA: the plugin orrery-cuda.so, and the fake devices that test it without a GPU
#
#   make CUDA=auto   built if NVIDIA's toolkit is there: $CUDA_PATH, nvcc's folder, /usr/local/cuda
#   make CUDA=1      an error if it is not;   CUDA=0 never
#   make ARCHES='80 90'   machine code for these, and PTX of the last one; by default for those of
#                         80, 90 and 100 that the compiler knows
#   make CUDA_ROUTE=object  kernels as nvcc's objects instead of embedded images, should a driver
#                         not take those (runtime/cuda/object/images.c)

CUDA ?= auto
CUDA_ROUTE ?= image
CUDA_NVCC := $(shell command -v nvcc 2>/dev/null)
CUDA_HOME := $(firstword $(CUDA_PATH) $(if $(CUDA_NVCC),$(patsubst %/bin/nvcc,%,$(shell \
	readlink -f '$(CUDA_NVCC)'))) /usr/local/cuda)
CUDA_THERE := $(and $(wildcard $(CUDA_HOME)/bin/nvcc),$(wildcard \
	$(CUDA_HOME)/include/cuda_runtime_api.h),$(wildcard $(CUDA_HOME)/include/nccl.h),yes)
CUDA_FOUND := $(if $(filter-out 0,$(CUDA)),$(CUDA_THERE))
WITHOUT_CUDA := $(if $(filter 0,$(CUDA)),CUDA=0 leaves GPUs out,there is no CUDA toolkit in \
	$(CUDA_HOME))
ifeq ($(CUDA)$(CUDA_THERE),1)
$(error CUDA=1, but there is no toolkit with nvcc, its headers and nccl.h in $(CUDA_HOME))
endif
ifeq ($(CUDA_FOUND),yes)
ifeq ($(origin ARCHES),undefined)
ARCHES := $(filter 80 90 100,$(patsubst sm_%,%,$(shell $(CUDA_HOME)/bin/nvcc --list-gpu-code)))
endif
CUDA_CPPFLAGS := -isystem $(CUDA_HOME)/include -isystem $(CUDA_HOME)/extras/CUPTI/include
CUDA_DIRS := runtime/cuda runtime/cuda/kernels sim/fake_devices/cuda
endif

# ------------------------------------------------------------------------------------------------
# Sources

LIB_DIRS := runtime runtime/cpu sim sim/fake_devices trace hazards analyzer scenarios
LIB_DIRS := $(sort $(LIB_DIRS) $(patsubst %/,%,$(wildcard runtime/*/ sim/*/ hazards/*/ \
	trace/*/ analyzer/*/)))
# The CUDA backend is a plugin and no part of the library: see "CUDA" below.
LIB_DIRS := $(filter-out runtime/cuda,$(LIB_DIRS))
LIB_SOURCES := $(sort $(wildcard $(addsuffix /*.c,$(LIB_DIRS))))
CLI_SOURCES := $(sort $(wildcard cli/*.c))
TEST_SOURCES := $(sort $(filter-out $(if $(CUDA_FOUND),,tests/test_cuda%),\
	$(wildcard tests/test_*.c)))
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz_*.c))
# What tests share: any other .c file in tests/ (support.c, conformance.c); fuzzer.c is the
# fuzzers' main.
TEST_SHARED_SOURCES := $(filter-out tests/fuzzer.c tests/test_% $(FUZZ_SOURCES) \
	$(if $(CUDA_FOUND),,tests/cuda%),$(sort $(wildcard tests/*.c)))
BENCH_SOURCES := $(sort $(filter-out $(if $(CUDA_FOUND),,bench/bench_cuda%),\
	$(wildcard bench/bench_*.c)))
BENCH_SHARED_SOURCES := $(filter-out bench/bench_%,$(sort $(wildcard bench/*.c)))
HEADERS := $(sort $(filter-out $(if $(CUDA_FOUND),,tests/cuda%),\
	$(wildcard *.h $(addsuffix /*.h,$(LIB_DIRS) $(CUDA_DIRS) cli tests bench))))
# Installed: the library's headers without the private twins.
PUBLIC_HEADERS := $(filter-out %_internal.h %_private.h,\
	$(sort $(wildcard *.h $(addsuffix /*.h,$(LIB_DIRS)) runtime/cuda/plugin.h)))

# Files compiled into the library as C arrays: <path> becomes $(BUILD)/gen/<path>.h, which holds
#     static const char orr_embed_<path with _ for other characters>[] = "...";
# (a string: a NUL follows the text), and each folder gets $(BUILD)/gen/<folder>/embed.h, which
# includes those and lists them in a macro:
#     #define ORR_EMBED_<FOLDER>(X) X("name without suffix", array) ...
# So #include "trace/schema.sql.h", or "scenarios/library/embed.h" for all modules.
EMBED := $(sort $(wildcard trace/*.sql scenarios/library/*.lua scenarios/library/*/*.lua \
	sim/fake_devices/*.lua $(foreach kind,sql html css js txt,\
	analyzer/*.$(kind) analyzer/*/*.$(kind))))
EMBED_DIRS := $(sort scenarios/library sim/fake_devices $(patsubst %/,%,$(dir $(EMBED))))
GEN := $(EMBED:%=$(BUILD)/gen/%.h) $(EMBED_DIRS:%=$(BUILD)/gen/%/embed.h)

# Test binaries that use more than one thread; `make tsan` runs these. A pattern may hold one %.
THREADED := test_cpu% test_conformance% test_ring% test_timeline% test_sink% test_thread% \
	test_pool% test_explore test_schedule test_trace% test_live% test_interleave% test_cuda_fake% \
	test_cuda_conformance test_cuda_runtime test_cuda_times
TSAN_TESTS := $(filter $(THREADED),$(TEST_SOURCES:tests/%.c=%))
TSAN_BINARIES := $(TSAN_TESTS:%=$(BUILD)/tests/%)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJECTS := $(call objects,$(LIB_SOURCES))
CLI_OBJECTS := $(call objects,$(CLI_SOURCES))
TEST_SHARED_OBJECTS := $(call objects,$(TEST_SHARED_SOURCES) \
	$(filter-out cli/main.c,$(CLI_SOURCES)))
BENCH_SHARED_OBJECTS := $(call objects,$(BENCH_SHARED_SOURCES))

# The backend, and the fakes, are archives: the plugin and the tests link what they need.
CUDA_SOURCES := $(if $(CUDA_FOUND),$(sort $(wildcard runtime/cuda/*.c)))
FAKE_SOURCES := $(if $(CUDA_FOUND),$(sort $(wildcard sim/fake_devices/cuda/*.c)))
KERNELS := $(if $(CUDA_FOUND),$(sort $(wildcard runtime/cuda/kernels/*.cu)))
CUDA_OBJECTS := $(call objects,$(CUDA_SOURCES))
EMULATED_OBJECTS := $(KERNELS:%.cu=$(BUILD)/obj/%.emulated.o)
FAKE_OBJECTS := $(call objects,$(FAKE_SOURCES)) $(EMULATED_OBJECTS)
# Machine code is the same for all variants.
IMAGES := $(KERNELS:runtime/cuda/kernels/%.cu=$(BUILD_ROOT)/cuda/%.fatbin)
IMAGE_OBJECTS := $(IMAGES:.fatbin=.image.o)
# nvcc's objects, for the other route.
KERNEL_OBJECTS := $(IMAGES:.fatbin=.object.o)
PLUGIN := $(if $(CUDA_FOUND),$(BUILD)/orrery-cuda.so)
ifeq ($(filter image object,$(CUDA_ROUTE)),)
$(error CUDA_ROUTE=$(CUDA_ROUTE) is not one of: image object)
endif
plugin_objects_image = $(CUDA_OBJECTS) $(IMAGE_OBJECTS)
plugin_objects_object = $(filter-out %/images.o,$(CUDA_OBJECTS)) $(KERNEL_OBJECTS) \
	$(BUILD)/obj/runtime/cuda/object/images.o
plugin_libs_object = -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcudart
PLUGIN_OBJECTS = $(plugin_objects_$(CUDA_ROUTE))
CUDA_ARCHIVE := $(if $(CUDA_FOUND),$(BUILD)/libcuda_backend.a)
FAKE_ARCHIVE := $(if $(CUDA_FOUND),$(BUILD)/libfake_cuda.a)
# What checks a GPU: tests/device, as a program of its own that needs nothing of the machine but
# the C library and NVIDIA's.
DEVICE_SOURCES := $(if $(CUDA_FOUND),$(sort $(wildcard tests/device/*.c)))
DEVICE_OBJECTS := $(call objects,$(DEVICE_SOURCES))
DEVICE_CHECK := $(if $(CUDA_FOUND),$(BUILD)/device-check/orrery-device-check)
# The fakes under the real libraries' names, for LD_LIBRARY_PATH.
FAKE_LIBRARY := $(if $(CUDA_FOUND),$(BUILD)/fake/libcudart.so.13)

ALL_OBJECTS := $(sort $(CUDA_OBJECTS) $(FAKE_OBJECTS) $(DEVICE_OBJECTS) \
	$(call objects,$(LIB_SOURCES) \
	$(CLI_SOURCES) $(TEST_SOURCES) $(FUZZ_SOURCES) \
	$(TEST_SHARED_SOURCES) $(wildcard tests/fuzzer.c) $(BENCH_SOURCES) $(BENCH_SHARED_SOURCES)))

COMMAND := $(if $(CLI_SOURCES),$(BUILD)/orrery)
STATIC := $(BUILD)/liborrery.a
SHARED := $(BUILD)/liborrery.so
TESTS := $(TEST_SOURCES:tests/%.c=$(BUILD)/tests/%)
FUZZERS := $(FUZZ_SOURCES:tests/%.c=$(BUILD)/tests/%)
BENCHES := $(BENCH_SOURCES:bench/%.c=$(BUILD)/bench/%)

# What the benchmarks are compared with is built where its library is installed; else they say so.
ifneq ($(filter bench benches peers,$(MAKECMDGOALS)),)
peer = $(if $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes),$(BUILD)/bench/peers/$(2))
PEERS := $(call peer,simgrid,simgrid_kernels) $(call peer,starpu-1.3,starpu_tasks)
endif

# ------------------------------------------------------------------------------------------------
# How things are printed and stamped

COMMA := ,

Q := $(if $(V),,@)
# $(call run,WORD,subject,command): one short line, or the command itself with V=1.
run = $(if $(V),$(3),@printf '  %-6s %s\n' '$(1)' '$(2)'; $(3))

quoted = '$(subst ','\'',$(strip $(1)))'
# A stamp is rewritten only when its text changes; what depends on it is then out of date.
define stamp
$(1): FORCE
	@mkdir -p $$(@D); printf '%s\n' $$(call quoted,$(2)) | cmp -s - $$@ || \
		printf '%s\n' $$(call quoted,$(2)) >$$@
endef

.PHONY: FORCE
FORCE:

COMPILER := $(shell $(CC) --version 2>/dev/null | head -n 1)
$(eval $(call stamp,$(BUILD)/flags,$(CC) [$(COMPILER)] $(ALL_CPPFLAGS) $(ALL_CFLAGS) \
	$(ALL_LDFLAGS) $(LIBS) $(TEST_CFLAGS) $(TEST_LIBS)))
$(eval $(call stamp,$(BUILD)/objects,$(LIB_OBJECTS) / $(CLI_OBJECTS) / \
	$(TEST_SHARED_OBJECTS) / $(BENCH_SHARED_OBJECTS)))
$(eval $(call stamp,$(BUILD)/embedded,$(EMBED)))

# Goals that compile nothing themselves work without the libraries; any other stops here with
# advice.
LIGHT_GOALS := setup test demo clean help format print-%
ifneq ($(filter-out $(LIGHT_GOALS),$(or $(MAKECMDGOALS),all)),)
found = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes)
MISSING := $(strip $(foreach p,$(PACKAGES) $(COMMAND_PACKAGES),$(if $(call found,$(p)),,$(p))))
ifneq ($(MISSING),)
$(error pkg-config does not find: $(MISSING). Run scripts/setup, which installs what is missing)
endif
endif

# ------------------------------------------------------------------------------------------------
# Building

.PHONY: all cuda lib tests benches peers fuzzers gen
all: $(COMMAND) $(STATIC) $(SHARED) $(BUILD)/orrery.pc $(PLUGIN) ## command and libraries
	$(if $(CUDA_FOUND)$(filter 0,$(CUDA)),,@echo \
		'no CUDA toolkit: built without GPUs ($(CUDA_HOME))')
cuda: $(PLUGIN) $(FAKE_LIBRARY) ## the plugin for GPUs, and the fake devices
	$(if $(CUDA_FOUND),@:,@echo 'nothing to build: $(WITHOUT_CUDA)')
lib: $(STATIC) $(SHARED)
tests: $(TESTS)
benches: $(BENCHES) $(PEERS)
peers: $(PEERS)
fuzzers: $(FUZZERS)
gen: $(GEN)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(GEN)
	@mkdir -p $(@D)
	$(call run,CC,$<,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(OBJECT_FLAGS) -MMD -MP -c $< -o $@)

$(call objects,$(CLI_SOURCES)): OBJECT_FLAGS = $(COMMAND_CFLAGS)
$(call objects,$(TEST_SOURCES) $(TEST_SHARED_SOURCES)): OBJECT_FLAGS = $(TEST_CFLAGS)
$(call objects,$(filter tests/cuda% tests/test_cuda%,$(TEST_SOURCES) $(TEST_SHARED_SOURCES))): \
	OBJECT_FLAGS = $(TEST_CFLAGS) $(CUDA_CPPFLAGS)
$(CUDA_OBJECTS) $(FAKE_OBJECTS) $(DEVICE_OBJECTS): OBJECT_FLAGS = $(CUDA_CPPFLAGS)
$(BUILD)/obj/runtime/cuda/images_check.o: OBJECT_FLAGS = $(CUDA_CPPFLAGS) \
	-DORR__CUDA_ARCHITECTURES='"$(strip $(ARCHES))"'
$(BUILD)/obj/runtime/cuda/images_check.o: $(BUILD_ROOT)/cuda/flags
$(BUILD)/obj/runtime/cuda/object/images.o: OBJECT_FLAGS = $(CUDA_CPPFLAGS)

$(STATIC): $(LIB_OBJECTS) $(BUILD)/objects
	@rm -f $@
	$(call run,AR,$@,$(AR) rcs $@ $(LIB_OBJECTS))

# The shared library exports orr_*, not orr__* (internal across files).
$(BUILD)/liborrery.map:
	@mkdir -p $(@D); printf '{\n  global: orr_[!_]*;\n  local: *;\n};\n' >$@

SHARED_LDFLAGS := -Wl,-soname,liborrery.so.$(SOVERSION) -Wl,--version-script=$(BUILD)/liborrery.map
$(SHARED): $(LIB_OBJECTS) $(BUILD)/objects $(BUILD)/liborrery.map
	$(call run,LD,$@,$(CC) -shared $(ALL_LDFLAGS) $(SHARED_LDFLAGS) $(LIB_OBJECTS) $(LIBS) -o $@)

$(BUILD)/orrery: $(CLI_OBJECTS) $(STATIC) $(BUILD)/objects
	$(call run,LD,$@,$(CC) $(ALL_LDFLAGS) $(CLI_OBJECTS) $(STATIC) $(COMMAND_LIBS) \
		$(LIBS) -o $@)

# Shared test code and the command's files without main(), as an archive: each test links what it
# calls.
$(BUILD)/libtests.a: $(TEST_SHARED_OBJECTS) $(BUILD)/objects
	@rm -f $@
	$(call run,AR,$@,$(AR) rcs $@ $(TEST_SHARED_OBJECTS))

# Archives that need each other.
GROUP := -Wl,--start-group
GROUP_END := -Wl,--end-group

$(TESTS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libtests.a $(STATIC)
	@mkdir -p $(@D)
	$(call run,LD,$@,$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(GROUP) $(filter %.a,$^) $(GROUP_END) \
		$(TEST_LIBS) $(COMMAND_LIBS) $(LIBS) -o $@)

$(filter $(BUILD)/tests/test_cuda%,$(TESTS)): $(CUDA_ARCHIVE) $(FAKE_ARCHIVE)

# --- CUDA ---

gencode = $(foreach a,$(ARCHES),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(lastword $(ARCHES)),code=compute_$(lastword $(ARCHES))
NVCC_FLAGS := -std=c++17 -O3 -I. -Iruntime/cuda/kernels/gpu -Werror all-warnings -Xptxas -v \
	-Xfatbin=-compress-all
# Families whose numbers are the CPU's bit for bit, where no function of libm is in them.
NVCC_EXACT := -fmad=false
NVCC_FLAGS_pointwise := $(NVCC_EXACT)
NVCC_FLAGS_source := $(NVCC_EXACT)
NVCC_FLAGS_synthetic := $(NVCC_EXACT)
$(eval $(call stamp,$(BUILD_ROOT)/cuda/flags,$(CUDA_HOME) $(NVCC_FLAGS) $(NVCC_EXACT) $(gencode)))

# ptxas' report (registers, spills) is kept beside the image; a test reads it.
$(IMAGES): $(BUILD_ROOT)/cuda/%.fatbin: runtime/cuda/kernels/%.cu $(BUILD_ROOT)/cuda/flags
	@mkdir -p $(@D)
	$(call run,NVCC,$<,$(CUDA_HOME)/bin/nvcc -fatbin $(NVCC_FLAGS) $(NVCC_FLAGS_$*) \
		$(gencode) -MD -MP -MF \
		$(@:.fatbin=.d) -MT $@ $< -o $@ >$(@:.fatbin=.ptxas) 2>&1 || \
		{ cat $(@:.fatbin=.ptxas); exit 1; })
-include $(IMAGES:.fatbin=.d)

# Without the guards and tables for which C++ code would need its library: gcc links these.
$(KERNEL_OBJECTS): $(BUILD_ROOT)/cuda/%.object.o: runtime/cuda/kernels/%.cu $(BUILD_ROOT)/cuda/flags
	@mkdir -p $(@D)
	$(call run,NVCC,$@,$(CUDA_HOME)/bin/nvcc -c $(filter-out -Xptxas -v,$(NVCC_FLAGS)) \
		$(NVCC_FLAGS_$*) $(gencode) -Xcompiler -fPIC$(COMMA)-fno-threadsafe-statics \
		-Xcompiler -fno-exceptions$(COMMA)-fno-rtti -MD -MP -MF $(@:.o=.d) -MT $@ $< -o $@)
-include $(KERNEL_OBJECTS:.o=.d)

# orr__cuda_image_<family> and orr__cuda_image_<family>_end.
$(IMAGE_OBJECTS): $(BUILD_ROOT)/cuda/%.image.o: $(BUILD_ROOT)/cuda/%.fatbin runtime/cuda/image.S
	$(call run,AS,$@,$(CC) -c -DFAMILY=$* -DFILE='"$<"' -x assembler-with-cpp runtime/cuda/image.S \
		-o $@)

$(EMULATED_OBJECTS): $(BUILD)/obj/%.emulated.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call run,CC,$<,$(CC) -x c -Isim/fake_devices/cuda/emulated $(ALL_CPPFLAGS) $(ALL_CFLAGS) \
		-MMD -MP -c $< -o $@)

$(BUILD)/cuda_objects: FORCE
$(eval $(call stamp,$(BUILD)/cuda_objects,$(PLUGIN_OBJECTS) $(IMAGE_OBJECTS) / $(FAKE_OBJECTS)))
$(CUDA_ARCHIVE): $(CUDA_OBJECTS) $(IMAGE_OBJECTS) $(BUILD)/cuda_objects
	@rm -f $@
	$(call run,AR,$@,$(AR) rcs $@ $(CUDA_OBJECTS) $(IMAGE_OBJECTS))

$(FAKE_ARCHIVE): $(FAKE_OBJECTS) $(BUILD)/cuda_objects
	@rm -f $@
	$(call run,AR,$@,$(AR) rcs $@ $(FAKE_OBJECTS))

PLUGIN_LDFLAGS := -Wl,--as-needed $(if $(variant_ldflags_$(VARIANT)),,-Wl,-z,defs) \
	-Wl,--version-script=runtime/cuda/plugin.map
FAKE_LDFLAGS := -Wl,-soname,libcudart.so.13 -Wl,-z,nodelete \
	-Wl,--version-script=sim/fake_devices/cuda/libcudart.map

# Only orr_backend_get is exported; what it needs of the library is linked in.
$(BUILD)/orrery-cuda.so: $(PLUGIN_OBJECTS) $(STATIC) runtime/cuda/plugin.map \
		$(BUILD)/cuda_objects
	$(call run,LD,$@,$(CC) -shared $(ALL_LDFLAGS) $(PLUGIN_LDFLAGS) $(PLUGIN_OBJECTS) \
		$(STATIC) $(plugin_libs_$(CUDA_ROUTE)) -ldl -lm -o $@)

$(BUILD)/fake/libcudart.so.13: $(FAKE_OBJECTS) $(STATIC) sim/fake_devices/cuda/libcudart.map
	@mkdir -p $(@D)
	$(call run,LD,$@,$(CC) -shared $(ALL_LDFLAGS) $(FAKE_LDFLAGS) $(FAKE_OBJECTS) $(STATIC) \
		$(LIBS) -o $@)
	$(Q)cd $(@D) && for l in libcublas.so.13 libcublasLt.so.13 libnccl.so.2 libcupti.so.13; do \
		ln -sf libcudart.so.13 $$l || exit 1; done

# The steps, without main(), for the test that runs them over the fake devices.
$(BUILD)/libdevice_check.a: $(filter-out %/main.o,$(DEVICE_OBJECTS))
	@rm -f $@
	$(call run,AR,$@,$(AR) rcs $@ $^)
$(BUILD)/tests/test_cuda_device_check: $(BUILD)/libdevice_check.a

# OpenBLAS is linked in where there is an archive of it.
STATIC_BLAS := $(wildcard \
	$(shell $(PKG_CONFIG) --variable=libdir openblas 2>/dev/null)/libopenblas.a)
$(BUILD)/device-check/orrery-device-check: $(DEVICE_OBJECTS) $(CUDA_ARCHIVE) $(STATIC) \
		$(call objects,$(wildcard tests/random_*.c))
	@mkdir -p $(@D)
	$(call run,LD,$@,$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(GROUP) $(filter %.a,$^) \
		$(GROUP_END) $(or $(STATIC_BLAS),$(call pkg,--libs openblas)) -lpthread -ldl -lm -o $@)

.PHONY: device-check
device-check: $(DEVICE_CHECK) ## checks the backend on this machine's GPU; skipped without one
	$(if $(CUDA_FOUND),@scripts/device-check $(DEVICE_CHECK) || [ $$? = 77 ],@echo \
		'skipped: $(WITHOUT_CUDA)')

# tests/fuzz_*.c define LLVMFuzzerTestOneInput; tests/fuzzer.c brings main(), so any compiler will
# do.
$(FUZZERS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/obj/tests/fuzzer.o \
		$(BUILD)/libtests.a $(STATIC)
	@mkdir -p $(@D)
	$(call run,LD,$@,$(CC) $(ALL_LDFLAGS) $^ $(COMMAND_LIBS) $(LIBS) -o $@)

$(BENCHES): $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BENCH_SHARED_OBJECTS) $(STATIC) \
		$(BUILD)/objects
	@mkdir -p $(@D)
	$(call run,LD,$@,$(CC) $(ALL_LDFLAGS) $< $(BENCH_SHARED_OBJECTS) $(STATIC) $(LIBS) -o $@)

peer_flags = $(patsubst -I%,-isystem %,$(call pkg,--cflags $(1))) $(call pkg,--libs $(1))
$(BUILD)/bench/peers/simgrid_kernels: bench/peers/simgrid_kernels.cpp
	@mkdir -p $(@D)
	$(call run,PEER,$@,$(CXX) -std=c++17 -O2 $< -o $@ $(call peer_flags,simgrid))

$(BUILD)/bench/peers/starpu_tasks: bench/peers/starpu_tasks.c
	@mkdir -p $(@D)
	$(call run,PEER,$@,$(CC) -std=gnu11 -O2 $< -o $@ $(call peer_flags,starpu-1.3))

$(EMBED:%=$(BUILD)/gen/%.h): $(BUILD)/gen/%.h: % scripts/embed
	@mkdir -p $(@D)
	$(call run,GEN,$@,scripts/embed file $< >$@)

$(EMBED_DIRS:%=$(BUILD)/gen/%/embed.h): $(BUILD)/gen/%/embed.h: $(BUILD)/embedded scripts/embed
	@mkdir -p $(@D)
	$(call run,GEN,$@,scripts/embed folder $* $(EMBED) >$@)

-include $(ALL_OBJECTS:.o=.d)

# ------------------------------------------------------------------------------------------------
# Installing

define PC
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: orrery
Description: asynchronous multi-device tensor runtime with a simulator and a trace analyzer
Version: $(VERSION)
Requires.private: $(PACKAGES)
Libs: -L$${libdir} -lorrery
Libs.private: -lpthread -ldl -lm
Cflags: -I$${includedir}/orrery
endef
export PC

$(eval $(call stamp,$(BUILD)/prefix,$(PREFIX) $(VERSION)))
$(BUILD)/orrery.pc: $(BUILD)/prefix Makefile
	@printf '%s\n' "$$PC" >$@

SHARE := $(DESTDIR)$(PREFIX)/share/orrery
INCLUDE := $(DESTDIR)$(PREFIX)/include/orrery
LIBDIR := $(DESTDIR)$(PREFIX)/lib
# Scenarios with their folders, but not the C sources of scenarios/.
SCENARIO_FILES := $(sort $(wildcard $(foreach d,scenarios scenarios/* scenarios/*/*,\
	$(d)/*.lua $(d)/*.md $(d)/*.csv $(d)/*.jsonl)))

.PHONY: install uninstall
install: all ## into $(DESTDIR)$(PREFIX): command, libraries, headers, orrery.pc, scenarios
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(LIBDIR)/pkgconfig
	$(Q)$(if $(COMMAND),install -m 755 $(COMMAND) $(DESTDIR)$(PREFIX)/bin/orrery)
	$(Q)install -m 644 $(STATIC) $(LIBDIR)/liborrery.a
	$(Q)install -m 755 $(SHARED) $(LIBDIR)/liborrery.so.$(VERSION)
	$(Q)$(if $(PLUGIN),install -D -m 755 $(PLUGIN) $(LIBDIR)/orrery/orrery-cuda.so)
	$(Q)ln -sf liborrery.so.$(VERSION) $(LIBDIR)/liborrery.so.$(SOVERSION)
	$(Q)ln -sf liborrery.so.$(SOVERSION) $(LIBDIR)/liborrery.so
	$(Q)install -m 644 $(BUILD)/orrery.pc $(LIBDIR)/pkgconfig/orrery.pc
	$(Q)for f in $(PUBLIC_HEADERS); do install -D -m 644 "$$f" "$(INCLUDE)/$$f" || exit 1; done
	$(Q)for f in $(SCENARIO_FILES); do install -D -m 644 "$$f" "$(SHARE)/$$f" || exit 1; done
	@echo "installed in $(DESTDIR)$(PREFIX)"

uninstall: ## removes what install put there
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/orrery $(LIBDIR)/liborrery.a $(LIBDIR)/liborrery.so \
		$(LIBDIR)/liborrery.so.$(SOVERSION) $(LIBDIR)/liborrery.so.$(VERSION) \
		$(LIBDIR)/pkgconfig/orrery.pc
	$(Q)rm -rf $(INCLUDE) $(SHARE) $(LIBDIR)/orrery

# ------------------------------------------------------------------------------------------------
# Testing

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export JOBS BUILD_ROOT

.PHONY: setup test check-tests asan tsan headers tidy golden bench coverage fuzz soak format demo
setup: ## installs what is missing (scripts/setup)
	@scripts/setup

test: ## everything that CI runs; the last line is "N passed, N failed"
	@scripts/setup
	+@MAKE='$(MAKE)' tests/all.sh

check-tests: $(TESTS) $(COMMAND) ## only the test binaries, in one variant
	@tests/run.sh $(VARIANT) $(TESTS)

asan: ## the test binaries under AddressSanitizer and UndefinedBehaviorSanitizer
	+@$(MAKE) --no-print-directory VARIANT=asan check-tests

tsan: ## the threaded test binaries under ThreadSanitizer
	+@$(MAKE) --no-print-directory VARIANT=tsan check-threads

.PHONY: check-threads
check-threads: $(TSAN_BINARIES) $(COMMAND)
	@tests/run.sh $(VARIANT) $(TSAN_BINARIES)

# Each header alone, twice (include guards), with this variant's warnings as errors.
HEADER_STAMPS := $(HEADERS:%=$(BUILD)/headers/%.ok)
headers: $(HEADER_STAMPS) ## every header compiles alone
$(HEADER_STAMPS): $(BUILD)/headers/%.ok: % $(BUILD)/flags | $(GEN)
	@mkdir -p $(@D)
	@rm -f $@
	$(call run,HDR,$<,printf '#include "%s"\n#include "%s"\n' $< $< | $(CC) $(ALL_CPPFLAGS) \
		$(TEST_CFLAGS) $(CUDA_CPPFLAGS) $(ALL_CFLAGS) -Werror -fsyntax-only \
		-MMD -MP -MF $(@:.ok=.d) -MT $@ -x c - \
		&& touch $@)
-include $(HEADER_STAMPS:.ok=.d)

tidy: $(STATIC) ## the rules of the house, as a test (tests/tidy)
	@tests/tidy/run.sh

golden: $(COMMAND) ## every scenario twice, against its transcript (tests/golden)
	@tests/golden/run.sh

bench: $(BENCHES) $(PEERS) ## every benchmark, and a table of the aims; QUICK=1 for a short run
	$(Q)BENCH_QUICK=$(QUICK) scripts/bench $(BUILD)/bench

# Fuzzers: RUNS inputs each, from SEED on. A crash prints the input and the seed that made it.
SEED ?= 1
RUNS ?= 200000
fuzz: ## every fuzzer under the sanitizers for RUNS inputs
	+@$(MAKE) --no-print-directory VARIANT=asan fuzzers
	$(Q)for f in $(FUZZ_SOURCES:tests/%.c=$(BUILD_ROOT)/asan/tests/%); do \
		printf '%s\n' "$$f"; $$f -runs=$(RUNS) -seed=$(SEED) || exit 1; done

MINUTES ?= 10
soak: ## tests and fuzzers with new seeds for MINUTES
	+@$(MAKE) --no-print-directory VARIANT=asan tests fuzzers all
	@tests/soak.sh $(MINUTES) $(SEED)

coverage: ## line coverage of the tests, per file
	+@$(MAKE) --no-print-directory VARIANT=coverage check-tests
	@tests/coverage.sh $(BUILD_ROOT)/coverage $(LIB_SOURCES) $(CLI_SOURCES)

format: ## clang-format -i on every C file
	$(Q)clang-format -i $(LIB_SOURCES) $(CLI_SOURCES) $(HEADERS) $(wildcard tests/*.c bench/*.c)

DEMO_SCENARIO := scenarios/demo/eight_gpus.lua
DEMO_DEVICES := sim:h100*8
demo: ## eight simulated GPUs: run, analyze, export
	@scripts/setup
	+@$(MAKE) --no-print-directory VARIANT=release all
	$(BUILD_ROOT)/release/orrery run $(DEMO_SCENARIO) --devices '$(DEMO_DEVICES)' -o run.db
	$(BUILD_ROOT)/release/orrery analyze run.db
	$(BUILD_ROOT)/release/orrery export run.db -o run.json
	@echo
	@echo "run.db is a SQLite file:  sqlite3 run.db 'select * from v_timing limit 10'"
	@echo "run.json is a timeline:   open https://ui.perfetto.dev and choose \"Open trace file\""

# ------------------------------------------------------------------------------------------------

.PHONY: clean help
clean: ## removes build/
	$(Q)rm -rf $(BUILD_ROOT)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile
	@echo "variables: VARIANT=release|debug|asan|tsan|coverage CC CFLAGS LDFLAGS WERROR V JOBS"
	@echo "           CUDA=auto|1|0 ARCHES='80 90 100' PREFIX DESTDIR BUILD_ROOT"
	@echo "           for fuzz and soak SEED RUNS MINUTES"

# For scripts: make -s print-HEADERS
print-%:
	@echo $($*)
