#include "bench/kineto_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { PID = 31337, TID = 31337, STREAM = 7, COMM_STREAM = 20, OPS_OF_STEP = 400 };

struct writer {
    FILE *file;
    struct kineto_text *made;
    int64_t host_ns, device_ns, comm_ns;
    uint64_t random, external_id, correlation, record, sequence;
    int64_t allocated;
};

static uint64_t draw(struct writer *w) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vfprintf(w->file, format, arguments);
    va_end(arguments);
    w->made->bytes += size > 0 ? (uint64_t)size : 0;
}

#define US        "%" PRId64 ".%03" PRId64
#define IN_US(ns) (ns) / 1000, (ns) % 1000

static void begin_event(struct writer *w) {
    put(w, w->made->events++ > 0 ? ",\n  {\n" : "\n  {\n");
}

/* The head of a slice, up to its args. */
static void begin_slice(struct writer *w, const char *category, const char *name, int pid, int tid,
                        int64_t begin_ns, int64_t duration_ns) {
    begin_event(w);
    put(w,
        "    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d,\n"
        "    \"ts\": " US ", \"dur\": " US ",\n    \"args\": {\n      ",
        category, name, pid, tid, IN_US(begin_ns), IN_US(duration_ns));
}

static void end_slice(struct writer *w) {
    put(w, "\n    }\n  }");
}

/* -- One operator ------------------------------------------------------------------------------ */

struct shape {
    const char *module, *outer, *op, *kernel, *dims, *strides, *types;
    int64_t duration_ns;
};

#define NEAR_GEMM                                                                                  \
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(" \
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"
#define NEAR_POINTWISE                                                                             \
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>" \
    ", at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, at::detail"  \
    "::Array<char*, 3>)"

static const struct shape shapes[] = {
    {"torch/nn/modules/linear.py(114): forward", "aten::linear", "aten::addmm", NEAR_GEMM,
     "[[4096], [2048, 4096], [4096, 4096], [], []]", "[[1], [4096, 1], [1, 4096], [], []]",
     "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"Scalar\"]", 212000},
    {"torch/nn/modules/activation.py(432): forward", "aten::silu", "aten::silu", NEAR_POINTWISE,
     "[[2048, 11008]]", "[[11008, 1]]", "[\"c10::BFloat16\"]", 18000},
    {"models/block.py(91): forward", "aten::add", "aten::add", NEAR_POINTWISE,
     "[[1, 2048, 4096], [1, 2048, 4096], []]", "[[8388608, 4096, 1], [8388608, 4096, 1], []]",
     "[\"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"]", 9000},
    {"models/attention.py(57): forward", "aten::matmul", "aten::bmm",
     "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
     "[[32, 2048, 128], [32, 128, 2048]]", "[[262144, 128, 1], [262144, 1, 128]]",
     "[\"c10::BFloat16\", \"c10::BFloat16\"]", 87000},
};

static int64_t frame(struct writer *w, const char *name, int64_t begin_ns, int64_t duration_ns) {
    begin_slice(w, "python_function", name, PID, TID, begin_ns, duration_ns);
    uint64_t id = w->sequence++;
    put(w, "\"Python parent id\": %" PRIu64 ", \"Python id\": %" PRIu64 ", \"Ev Idx\": %" PRIu64,
        id / 2, id, w->record++);
    end_slice(w);
    return begin_ns + duration_ns;
}

static void operator_slice(struct writer *w, const char *name, const struct shape *shape,
                           int64_t begin_ns, int64_t duration_ns) {
    begin_slice(w, "cpu_op", name, PID, TID, begin_ns, duration_ns);
    w->external_id++;
    put(w,
        "\"External id\": %" PRIu64 ",\"Record function id\": %" PRIu64
        ", \"Concrete Inputs\": [\"\", \"\"], \"Input type\": %s, \"Input Strides\": %s, "
        "\"Input Dims\": %s, \"Ev Idx\": %" PRIu64,
        w->external_id, w->external_id - 1, shape->types, shape->strides, shape->dims, w->record++);
    end_slice(w);
}

static void call(struct writer *w, const char *name, int64_t begin_ns, int64_t duration_ns) {
    begin_slice(w, "cuda_runtime", name, PID, TID, begin_ns, duration_ns);
    put(w, "\"External id\": %" PRIu64 ", \"cbid\": 211, \"correlation\": %" PRIu64, w->external_id,
        ++w->correlation);
    end_slice(w);
    w->made->calls++;
}

static void flow(struct writer *w, char ph, int pid, int tid, int64_t ts_ns) {
    begin_event(w);
    put(w,
        "    \"ph\": \"%c\", \"id\": %" PRIu64 ", \"pid\": %d, \"tid\": %d, \"ts\": " US
        ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"%s\n  }",
        ph, w->correlation, pid, tid, IN_US(ts_ns), ph == 'f' ? ", \"bp\": \"e\"" : "");
}

static void device_args(struct writer *w, int stream) {
    put(w,
        "\"External id\": %" PRIu64 ", \"queued\": 0, \"device\": 0, \"context\": 1,\n"
        "      \"stream\": %d, \"correlation\": %" PRIu64 ",\n      ",
        w->external_id, stream, w->correlation);
}

static int64_t *clock_of(struct writer *w, int stream) {
    return stream == STREAM ? &w->device_ns : &w->comm_ns;
}

/* Places work on a stream behind what is there, and behind its call. */
static int64_t place(struct writer *w, int stream, int64_t call_ns, int64_t duration_ns) {
    int64_t *clock_ns = clock_of(w, stream);
    int64_t begin_ns = *clock_ns > call_ns + 4000 ? *clock_ns + 900 : call_ns + 4000;
    *clock_ns = begin_ns + duration_ns;
    w->made->ops++;
    return begin_ns;
}

static void kernel(struct writer *w, const char *name, int stream, int64_t call_ns,
                   int64_t duration_ns, bool communicates) {
    int64_t begin_ns = place(w, stream, call_ns, duration_ns);
    begin_slice(w, "kernel", name, 0, stream, begin_ns, duration_ns);
    device_args(w, stream);
    put(w, "\"registers per thread\": 128, \"shared memory\": 49152,\n"
           "      \"blocks per SM\": 1.939394,\n      \"warps per SM\": 15.515152,\n"
           "      \"grid\": [256, 1, 1],\n      \"block\": [256, 1, 1],\n"
           "      \"est. achieved occupancy %%\": 24");
    if (communicates)
        put(w, ",\n      \"Collective name\": \"allreduce\", \"In msg nelems\": 4194304, "
               "\"Out msg nelems\": 4194304, \"Group size\": 8, \"dtype\": \"BFloat16\", "
               "\"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1, 2, 3, 4, 5, 6, "
               "7]\"");
    end_slice(w);
    flow(w, 'f', 0, stream, begin_ns);
}

static void copy(struct writer *w, int64_t call_ns) {
    int64_t begin_ns = place(w, STREAM, call_ns, 2100);
    begin_slice(w, "gpu_memset", "Memset (Device)", 0, STREAM, begin_ns, 2100);
    device_args(w, STREAM);
    put(w, "\"bytes\": 8192, \"memory bandwidth (GB/s)\": 3.900952");
    end_slice(w);
    flow(w, 'f', 0, STREAM, begin_ns);
}

static void memory_instant(struct writer *w) {
    int64_t bytes = (int64_t)(draw(w) % 512) * 512;
    w->allocated += w->allocated > 40000000000 ? -bytes : bytes;
    begin_event(w);
    put(w,
        "    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n"
        "    \"pid\": %d, \"tid\": %d,\n    \"ts\": " US ",\n    \"args\": {\n"
        "      \"Total Reserved\": 42949672960, \"Total Allocated\": %" PRId64
        ", \"Bytes\": %" PRId64 ", \"Addr\": 140228900257792, \"Device Id\": 0, \"Device Type\": "
        "1, \"Ev Idx\": %" PRIu64 "\n    }\n  }",
        PID, TID, IN_US(w->host_ns), w->allocated, bytes, w->record++);
}

static void launch(struct writer *w, uint64_t number) {
    const struct shape *shape = &shapes[draw(w) % (sizeof shapes / sizeof *shapes)];
    int64_t begin_ns = w->host_ns, call_ns = begin_ns + 21000;
    int64_t end_ns = begin_ns + 40000 + (int64_t)(draw(w) % 3000);
    frame(w, shape->module, begin_ns, end_ns - begin_ns);
    frame(w, "<built-in method of type object>", begin_ns + 2000, end_ns - begin_ns - 3000);
    operator_slice(w, shape->outer, shape, begin_ns + 3000, end_ns - begin_ns - 5000);
    operator_slice(w, "aten::t", shape, begin_ns + 4000, 3000);
    operator_slice(w, "aten::empty", shape, begin_ns + 8000, 4000);
    if (number % 2 == 0)
        memory_instant(w);
    operator_slice(w, shape->op, shape, begin_ns + 14000, end_ns - begin_ns - 17000);
    if (number % 3 == 0) {
        call(w, "cudaStreamIsCapturing", begin_ns + 16000, 700);
        flow(w, 'f', PID, TID, begin_ns + 16000);
    }
    if (number % 16 == 15) {
        call(w, "cudaMemsetAsync", call_ns - 4000, 2500);
        flow(w, 's', PID, TID, call_ns - 4000);
        copy(w, call_ns - 4000);
    }
    call(w, "cudaLaunchKernel", call_ns, 4200 + (int64_t)(draw(w) % 900));
    flow(w, 's', PID, TID, call_ns);
    kernel(w, shape->kernel, STREAM, call_ns, shape->duration_ns + (int64_t)(draw(w) % 4000),
           false);
    if (number % 64 == 63) {
        call(w, "cudaLaunchKernelExC", call_ns + 6000, 6200);
        flow(w, 's', PID, TID, call_ns + 6000);
        kernel(w, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
               COMM_STREAM, call_ns + 6000, 310000, true);
    }
    w->host_ns = end_ns + 1500;
}

static void step(struct writer *w, uint64_t number) {
    int64_t begin_ns = w->host_ns;
    for (uint64_t i = 0; i < OPS_OF_STEP; i++)
        launch(w, i);
    int64_t sync_ns = w->host_ns, end_ns = w->device_ns > sync_ns ? w->device_ns : sync_ns;
    call(w, "cudaDeviceSynchronize", sync_ns, end_ns - sync_ns + 3000);
    w->host_ns = end_ns + 9000;
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%" PRIu64, number);
    begin_slice(w, "user_annotation", name, PID, TID, begin_ns, w->host_ns - begin_ns);
    put(w, "\"External id\": %" PRIu64 ", \"Ev Idx\": %" PRIu64, ++w->external_id, w->record++);
    end_slice(w);
}

bool kineto_text_write(FILE *file, uint64_t bytes_min, struct kineto_text *out_made) {
    *out_made = (struct kineto_text){0};
    struct writer w = {
        .file = file, .made = out_made, .host_ns = 4458676500000000, .random = 88172645463325252u};
    put(&w, "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, "
            "\"name\": \"made-up GPU\", \"totalGlobalMem\": 85899345920, \"numSms\": 132\n    }\n"
            "  ],\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 8},"
            "\n  \"record_shapes\": 1,\n  \"baseTimeNanoseconds\": 1711964646000000000,\n"
            "  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": [");
    for (uint64_t number = 1; out_made->bytes < bytes_min; number++)
        step(&w, number);
    put(&w, "\n  ],\n  \"traceName\": \"made.json\"\n}\n");
    return fflush(file) == 0 && !ferror(file);
}
