/* What stands before the CUDA backend: messages of errors, the probe, loading of images, the
 * libraries' tables, and what a GPU is as a device spec. Over the fake devices where functions of
 * NVIDIA's are called. The command's part is in test_cuda_door.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cuda_gpu.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/probe.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/support.h"

/* A fake, opened with what the test asks for. */
struct door {
    struct orr_memory memory;
    struct orr_fake_cuda *fake;
    struct orr__cuda_api *api;
    struct orr_error error;
};

static void door_open(struct door *door, struct orr_fake_cuda_options options) {
    *door = (struct door){.memory = orr_memory_system()};
    assert_int_equal(orr_fake_cuda_open(&options, &door->memory, &door->fake, &door->error),
                     ORR_OK);
    door->api = orr_fake_cuda_api(door->fake);
}

static void door_close(struct door *door) {
    orr_fake_cuda_close(&door->fake);
}

/* The error is this one, and is forgotten. */
static void expect_error(struct door *door, enum orr_status got, enum orr_status status,
                         const char *text) {
    assert_string_equal(door->error.text, text);
    assert_int_equal(got, status);
    assert_int_equal(door->error.status, status);
    orr_error_clear(&door->error);
}

/* --- messages --- */

static void an_error_of_cuda_names_call_number_and_what_to_do(void **state) {
    (void)state;
    struct door d;
    door_open(&d, (struct orr_fake_cuda_options){0});
    assert_int_equal(orr__cuda_check(d.api, cudaSuccess, "cudaMalloc", &d.error), ORR_OK);
    expect_error(&d, orr__cuda_check(d.api, cudaErrorMemoryAllocation, "cudaMalloc", &d.error),
                 ORR_NO_MEMORY,
                 "cudaMalloc: error 2 (cudaErrorMemoryAllocation): out of memory; the GPU is full: "
                 "fewer or smaller logical devices on it, or see nvidia-smi for who uses it");
    expect_error(&d, orr__cuda_check(d.api, cudaErrorIllegalAddress, "cudaEventQuery", &d.error),
                 ORR_DEVICE_FAILED,
                 "cudaEventQuery: error 700 (cudaErrorIllegalAddress): an illegal memory access "
                 "was encountered; a kernel used memory that isn't its own; what the GPU held is "
                 "lost, and the process must be restarted");
    assert_int_equal(orr__cuda_check(d.api, cudaErrorNoDevice, "cudaSetDevice", NULL),
                     ORR_UNAVAILABLE);
    assert_int_equal(orr__cuda_check(d.api, cudaErrorNotReady, "cudaEventQuery", &d.error),
                     ORR_DEVICE_FAILED);
    assert_null(strchr(d.error.text, ';')); /* nothing to advise */
    door_close(&d);
}

static void errors_of_the_other_libraries_have_their_names(void **state) {
    (void)state;
    struct door d;
    door_open(&d, (struct orr_fake_cuda_options){0});
    assert_int_equal(orr__cublas_check(d.api, CUBLAS_STATUS_SUCCESS, "cublasGemmEx", &d.error),
                     ORR_OK);
    expect_error(&d,
                 orr__cublas_check(d.api, CUBLAS_STATUS_EXECUTION_FAILED, "cublasGemmEx", &d.error),
                 ORR_DEVICE_FAILED,
                 "cublasGemmEx: error 13 (CUBLAS_STATUS_EXECUTION_FAILED); what the GPU held is "
                 "lost, and the process must be restarted");
    assert_int_equal(orr__cublas_check(d.api, CUBLAS_STATUS_ALLOC_FAILED, "cublasCreate", &d.error),
                     ORR_NO_MEMORY);
    orr_error_clear(&d.error);
    assert_int_equal(orr__nccl_check(d.api, ncclSuccess, "ncclAllReduce", &d.error), ORR_OK);
    assert_int_equal(orr__cupti_check(d.api, CUPTI_SUCCESS, "cuptiFinalize", &d.error), ORR_OK);
    door_close(&d);
}

/* --- need --- */

struct loads {
    int count;
    enum orr_status status;
};

static enum orr_status count_load(struct orr__cuda_api *api, enum orr__cuda_library library,
                                  struct orr_error *error) {
    struct loads *loads = api->context;
    (void)library;
    loads->count++;
    return loads->status == ORR_OK ? ORR_OK : orr_error_set(error, loads->status, "not there");
}

static void a_library_is_loaded_when_it_is_needed_and_once(void **state) {
    (void)state;
    struct loads loads = {.status = ORR_UNAVAILABLE};
    struct orr__cuda_api api = {.load = count_load, .context = &loads};
    assert_int_equal(orr__cuda_need(&api, ORR__CUDA_NCCL, NULL), ORR_UNAVAILABLE);
    assert_false(api.loaded[ORR__CUDA_NCCL]);
    loads.status = ORR_OK;
    assert_int_equal(orr__cuda_need(&api, ORR__CUDA_NCCL, NULL), ORR_OK);
    assert_int_equal(orr__cuda_need(&api, ORR__CUDA_NCCL, NULL), ORR_OK);
    assert_int_equal(loads.count, 2);
}

static void a_library_that_is_not_installed_is_named(void **state) {
    (void)state;
    struct door d;
    door_open(&d,
              (struct orr_fake_cuda_options){.no_blas = true, .no_nccl = true, .no_cupti = true});
    static const enum orr__cuda_library missing[] = {ORR__CUDA_BLAS, ORR__CUDA_NCCL,
                                                     ORR__CUDA_CUPTI};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr__cuda_need(d.api, missing[i], &d.error), ORR_UNAVAILABLE);
        assert_non_null(strstr(d.error.text, orr__cuda_library_name(missing[i])));
        orr_error_clear(&d.error);
    }
    door_close(&d);
}

/* --- the real libraries' table --- */

static void open_library(struct memory_counting *memory, void *path) {
    struct orr__cuda_api *api;
    struct orr_error error = {0};
    enum orr_status status = orr__cuda_library_open(path, &memory->table, &api, &error);
    assert_true(status == ORR_UNAVAILABLE || status == ORR_NO_MEMORY);
    assert_null(api);
    assert_true(error.text[0] != '\0');
}

static void a_runtime_that_is_not_there_says_so_and_leaks_nothing(void **state) {
    (void)state;
    char none[] = "/nowhere/libcudart.so.13", other[] = "libc.so.6";
    assert_int_equal(fail_each_request(open_library, none), 2);
    assert_int_equal(fail_each_request(open_library, other), 2);
    struct orr_memory memory = orr_memory_system();
    struct orr__cuda_api *api;
    struct door d = {.api = NULL};
    expect_error(&d, orr__cuda_library_open(none, &memory, &api, &d.error), ORR_UNAVAILABLE,
                 "no CUDA runtime: /nowhere/libcudart.so.13: cannot open shared object file: No "
                 "such file or directory");
    expect_error(&d, orr__cuda_library_open(other, &memory, &api, &d.error), ORR_UNAVAILABLE,
                 "no CUDA runtime: libc.so.6: has no cudaGetDeviceCount, so it is no CUDA runtime "
                 "of version 13");
}

/* --- the probe --- */

static void expect_probe(struct orr_fake_cuda_options options, const char *text) {
    struct door d;
    struct orr_cuda_machine machine;
    uint32_t count = 7;
    door_open(&d, options);
    expect_error(&d, orr__cuda_probe_gpus(d.api, &count, &d.error), ORR_UNAVAILABLE, text);
    assert_int_equal(count, 0);
    door_close(&d);
    door_open(&d, options);
    expect_error(&d, orr__cuda_probe(d.api, &machine, &d.error), ORR_UNAVAILABLE, text);
    assert_int_equal(machine.gpu_count, 0);
    assert_int_equal(machine.runtime_version, CUDART_VERSION);
    assert_string_equal(machine.architectures, orr__cuda_architectures());
    door_close(&d);
}

static void the_probe_tells_why_there_is_no_gpu(void **state) {
    (void)state;
    expect_probe((struct orr_fake_cuda_options){.driver_version = -1},
                 "no NVIDIA driver found (libcuda.so.1 is not installed or cannot be loaded); CUDA "
                 "runtime 13.0");
    expect_probe((struct orr_fake_cuda_options){.driver_version = -2},
                 "libcuda.so.1 on the library path is the toolkit's link-time stub, not a driver");
    expect_probe((struct orr_fake_cuda_options){.driver_version = 12020},
                 "the NVIDIA driver supports CUDA 12.2 but this build needs 13.0");
    expect_probe(
        (struct orr_fake_cuda_options){.faults = "cudaGetDeviceCount:1:100"},
        "there is an NVIDIA driver, but no CUDA device is visible (CUDA_VISIBLE_DEVICES?)");
    expect_probe((struct orr_fake_cuda_options){.faults = "cudaGetDeviceCount:1:999"},
                 "cudaGetDeviceCount: error 999 (cudaErrorUnknown): unknown error; the kernel's "
                 "log (dmesg) may say more");
}

static void the_probe_describes_every_gpu(void **state) {
    (void)state;
    struct door d;
    struct orr_cuda_machine machine;
    door_open(&d, (struct orr_fake_cuda_options){.gpu_count = 3, .memory_bytes = 1 << 30});
    assert_int_equal(orr__cuda_probe(d.api, &machine, &d.error), ORR_OK);
    assert_int_equal(machine.gpu_count, 3);
    assert_int_equal(machine.driver_version, CUDART_VERSION);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(machine.gpus[i].name, "Fake CUDA device");
        assert_int_equal(machine.gpus[i].memory_bytes, 1 << 30);
        assert_true(machine.gpus[i].sm_count > 0 && machine.gpus[i].capability >= 80);
    }
    door_close(&d);
}

/* Each call of the probe failing in turn is an error that names the call. */
static void a_probe_whose_nth_call_fails_says_which(void **state) {
    (void)state;
    static const char *const calls[] = {"cudaRuntimeGetVersion:1",  "cudaDriverGetVersion:1",
                                        "cudaGetDeviceCount:1",     "cudaGetDeviceProperties:2",
                                        "cudaDeviceGetAttribute:1", "cudaDeviceGetAttribute:9"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct door d;
        struct orr_cuda_machine machine;
        char plan[64], name[64];
        snprintf(plan, sizeof plan, "%s:3", calls[i]);
        snprintf(name, sizeof name, "%.*s: error 3 (", (int)strcspn(calls[i], ":"), calls[i]);
        door_open(&d, (struct orr_fake_cuda_options){.gpu_count = 2, .faults = plan});
        assert_int_not_equal(orr__cuda_probe(d.api, &machine, &d.error), ORR_OK);
        assert_int_equal(strncmp(d.error.text, name, strlen(name)), 0);
        door_close(&d);
    }
}

static void settings_of_the_driver_are_the_users_if_there_are_any(void **state) {
    (void)state;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    unsetenv("CUDA_MODULE_LOADING");
    orr__cuda_set_environment();
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
    assert_string_equal(getenv("CUDA_MODULE_LOADING"), "EAGER");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    orr__cuda_set_environment();
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

static void count_note(void *context, const char *key, const char *value) {
    int *count = context;
    assert_string_equal(value, strcmp(key, "cuda_device_max_connections") == 0 ? "32" : "13.0");
    (*count)++;
}

static void a_trace_is_told_versions_and_settings(void **state) {
    (void)state;
    struct door d;
    int count = 0;
    door_open(&d, (struct orr_fake_cuda_options){0});
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    orr__cuda_probe_notes(d.api, count_note, &count);
    assert_int_equal(count, 3);
    door_close(&d);
}

/* --- images --- */

static void images_are_loaded_and_every_kernel_is_found(void **state) {
    (void)state;
    struct door d;
    struct orr__cuda_images images;
    door_open(&d, (struct orr_fake_cuda_options){.gpu_count = 2});
    assert_int_equal(orr__cuda_images_load(d.api, 1, &images, &d.error), ORR_OK);
    for (int kernel = 0; kernel < ORR__K_COUNT; kernel++)
        assert_non_null(images.code.functions[kernel]);
    assert_int_equal(orr_fake_cuda_census(d.fake).libraries, ORR__FAMILY_COUNT);
    orr__cuda_images_unload(d.api, &images);
    orr__cuda_images_unload(d.api, &images); /* nothing is left to unload */
    assert_int_equal(orr_fake_cuda_census(d.fake).libraries, 0);
    door_close(&d);
}

static void expect_images(const char *faults, enum orr_status status, const char *text) {
    struct door d;
    struct orr__cuda_images images;
    door_open(&d, (struct orr_fake_cuda_options){.faults = faults});
    enum orr_status got = orr__cuda_images_load(d.api, 0, &images, &d.error);
    if (strncmp(d.error.text, text, strlen(text)) != 0)
        assert_string_equal(d.error.text, text);
    assert_int_equal(got, status);
    assert_int_equal(orr_fake_cuda_census(d.fake).libraries, 0);
    assert_null(images.libraries[0]);
    door_close(&d);
}

static void images_without_code_for_the_gpu_name_it(void **state) {
    (void)state;
    expect_images("cudaLibraryLoadData:2:209", ORR_UNAVAILABLE,
                  "no code for GPU 0, of compute capability ");
    expect_images("cudaLibraryGetKernel:3:209", ORR_UNAVAILABLE,
                  "no code for GPU 0, of compute capability ");
    expect_images("cudaLibraryGetKernel:1:500", ORR_DEVICE_FAILED,
                  "cudaLibraryGetKernel: error 500 (cudaErrorSymbolNotFound): the image ");
    expect_images("cudaLibraryLoadData:1:2", ORR_NO_MEMORY, "cudaLibraryLoadData: error 2 (");
    expect_images("cudaSetDevice:1:101", ORR_UNAVAILABLE, "cudaSetDevice: error 101 (");
}

/* --- a GPU as a device --- */

static void a_gpu_is_known_by_its_name(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *machine;
    } names[] = {{"NVIDIA H200", "h200"},
                 {"NVIDIA H200 NVL", NULL},
                 {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                 {"NVIDIA H100 PCIe", NULL},
                 {"NVIDIA A100-SXM4-80GB", "a100-sxm"},
                 {"NVIDIA A100-PCIE-40GB", NULL},
                 {"NVIDIA B200", "b200"},
                 {"NVIDIA GB200", NULL},
                 {"NVIDIA L4", "l4"},
                 {"NVIDIA L40S", NULL},
                 {"Fake CUDA device", NULL}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *machine = orr_cuda_gpu_machine(names[i].gpu);
        if (names[i].machine)
            assert_string_equal(machine, names[i].machine);
        else
            assert_null(machine);
    }
}

static void logical_devices_share_their_gpus_memory(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_cuda_gpu gpu = {.name = "NVIDIA H200",
                               .capability = 90,
                               .sm_count = 132,
                               .memory_bytes = UINT64_C(64) << 30,
                               .copy_engines = 3};
    struct orr_device_spec whole, quarter;
    assert_int_equal(orr_cuda_gpu_spec(&gpu, 5, 1, &memory, &whole, NULL), ORR_OK);
    assert_int_equal(orr_cuda_gpu_spec(&gpu, 5, 4, &memory, &quarter, NULL), ORR_OK);
    assert_string_equal(whole.name, "NVIDIA H200");
    assert_int_equal(whole.memory_bytes, UINT64_C(60) << 30);
    assert_int_equal(quarter.memory_bytes, UINT64_C(15) << 30);
    assert_int_equal(whole.hosted_by, 6);
    assert_int_equal(whole.copy_engines, 3);
    assert_int_equal(whole.peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16], UINT64_C(989000000000000));
}

static void an_unknown_gpu_is_what_its_attributes_tell(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_cuda_gpu gpu = {.name = "A GPU",
                               .capability = 80,
                               .sm_count = 108,
                               .clock_khz = 1410000,
                               .memory_bytes = UINT64_C(80) << 30,
                               .bandwidth = UINT64_C(2039000000000)};
    struct orr_device_spec spec;
    assert_int_equal(orr_cuda_gpu_spec(&gpu, 0, 1, &memory, &spec, NULL), ORR_OK);
    assert_int_equal(spec.bandwidth, UINT64_C(2039000000000));
    /* An A100's: 19.5, 9.7 and 312 TFLOP/s. */
    assert_int_equal(spec.peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] / 100000000000, 194);
    assert_int_equal(spec.peak[ORR_UNIT_VECTOR][ORR_DTYPE_F64] / 100000000000, 97);
    assert_int_equal(spec.peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] / 1000000000000, 311);
    gpu.capability = 120; /* not in the table: nothing is made up */
    assert_int_equal(orr_cuda_gpu_spec(&gpu, 0, 1, &memory, &spec, NULL), ORR_OK);
    assert_int_equal(orr_device_spec_peak(&spec, ORR_UNIT_MATRIX, ORR_DTYPE_BF16), 0);
}

static void spec_with_memory(struct memory_counting *memory, void *context) {
    struct orr_cuda_gpu gpu = {.name = "NVIDIA H200", .memory_bytes = 1 << 30};
    struct orr_device_spec spec;
    struct orr_error error = {0};
    (void)context;
    enum orr_status status = orr_cuda_gpu_spec(&gpu, 0, 1, &memory->table, &spec, &error);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
}

static void a_spec_without_memory_is_an_error(void **state) {
    (void)state;
    assert_true(fail_each_request(spec_with_memory, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_cuda_names_call_number_and_what_to_do),
        cmocka_unit_test(errors_of_the_other_libraries_have_their_names),
        cmocka_unit_test(a_library_is_loaded_when_it_is_needed_and_once),
        cmocka_unit_test(a_library_that_is_not_installed_is_named),
        cmocka_unit_test(a_runtime_that_is_not_there_says_so_and_leaks_nothing),
        cmocka_unit_test(the_probe_tells_why_there_is_no_gpu),
        cmocka_unit_test(the_probe_describes_every_gpu),
        cmocka_unit_test(a_probe_whose_nth_call_fails_says_which),
        cmocka_unit_test(settings_of_the_driver_are_the_users_if_there_are_any),
        cmocka_unit_test(a_trace_is_told_versions_and_settings),
        cmocka_unit_test(images_are_loaded_and_every_kernel_is_found),
        cmocka_unit_test(images_without_code_for_the_gpu_name_it),
        cmocka_unit_test(a_gpu_is_known_by_its_name),
        cmocka_unit_test(logical_devices_share_their_gpus_memory),
        cmocka_unit_test(an_unknown_gpu_is_what_its_attributes_tell),
        cmocka_unit_test(a_spec_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
