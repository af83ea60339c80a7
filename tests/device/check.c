#include "tests/device/check.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cpu/cpu.h"

/* On disk before the next step begins: it may be the one that hangs. */
static void write_line(struct check *check, const char *line) {
    fputs(line, stdout);
    fflush(stdout);
    if (!check->results)
        return;
    fputs(line, check->results);
    fflush(check->results);
    (void)!fsync(fileno(check->results));
}

/* As RFC 4180 has it, but on one line: in quotes if need be. */
static void quote(const char *text, size_t size, char *out) {
    bool needed = strpbrk(text, ",\"") != NULL;
    size_t used = 0;
    if (needed)
        out[used++] = '"';
    for (; *text && used + 4 < size; text++) {
        if (*text == '"')
            out[used++] = '"';
        out[used++] = *text == '\n' || *text == '\r' ? ' ' : *text;
    }
    if (needed)
        out[used++] = '"';
    out[used] = '\0';
}

void check_say(struct check *check, const char *name, enum check_verdict verdict,
               const char *format, ...) {
    static const char *const texts[] = {"pass", "fail", "skip", "note"};
    char text[1024], quoted[1280], line[1408];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    quote(text, sizeof quoted, quoted);
    snprintf(line, sizeof line, "check,%d,%s,%s,%s\n", check->step, name, texts[verdict], quoted);
    write_line(check, line);
    check->passed += verdict == CHECK_PASS;
    check->failed += verdict == CHECK_FAIL;
    check->skipped += verdict == CHECK_SKIP;
}

void check_figure(struct check *check, const char *name, double value, const char *unit) {
    char line[256];
    snprintf(line, sizeof line, "figure,%d,%s,%.6g,%s\n", check->step, name, value, unit);
    write_line(check, line);
}

/* What orr__cuda_open needs besides a backend's options comes with them. */
static enum orr_status open_over_table(const struct orr_backend_config *config,
                                       struct orr_backend **out_backend, struct orr_error *error) {
    const struct check_run *run = config->options;
    struct orr_backend_config own = *config;
    own.options = &run->options;
    return orr__cuda_open(run->api, &own, out_backend, error);
}

static struct orr_device_spec spec_of(const struct check *check, uint32_t devices) {
    uint64_t bytes = check->machine.gpu_count > 0 ? check->machine.gpus[0].memory_bytes : 0;
    struct orr_device_spec spec = {.kind = "gpu",
                                   .memory_bytes = bytes > 0 ? bytes / 10 * 8 / devices : 1 << 30,
                                   .bandwidth = 1000000000000,
                                   .peer_bandwidth = 100000000000,
                                   .host_bandwidth = 10000000000};
    spec.peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 10000000000000;
    snprintf(spec.name, sizeof spec.name, "checked");
    return spec;
}

bool check_run_open(struct check *check, struct check_run *run, uint32_t devices, bool on_cpu,
                    enum orr_cuda_timestamps timestamps, struct orr_observer *observer) {
    memset(run, 0, sizeof *run);
    run->options.timestamps = timestamps;
    run->api = on_cpu ? NULL : check->api;
    for (uint32_t i = 0; i < devices; i++)
        run->specs[i] = spec_of(check, devices);
    if (orr_record_memory_create(&check->memory, &run->store) != ORR_OK) {
        check_say(check, "open", CHECK_FAIL, "out of host memory");
        return false;
    }
    const struct orr_runtime_config config = {.memory = &check->memory,
                                              .open = on_cpu ? orr_cpu_open : open_over_table,
                                              .options = on_cpu ? NULL : run,
                                              .specs = run->specs,
                                              .device_count = devices,
                                              .sink = orr_record_memory_sink(run->store),
                                              .seed = check->seed,
                                              .observer = observer};
    if (orr_runtime_create(&config, &run->runtime, &run->error) == ORR_OK)
        return true;
    check_say(check, "open", CHECK_FAIL, "%s", run->error.text);
    orr_record_memory_destroy(&run->store);
    return false;
}

void check_run_close(struct check_run *run) {
    orr_runtime_destroy(&run->runtime);
    orr_record_memory_destroy(&run->store);
}

const char *check_point_kind_text(enum check_point_kind kind) {
    static const char *const texts[] = {"device copy", "upload", "download", "gemm", "kernel"};
    return texts[kind];
}
