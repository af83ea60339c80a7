/* Step 5: one program with each source of timestamps. Whatever the source, no command may start
 * before it was enqueued, and a stream's commands may not overlap; how often the runtime had to
 * move a time to keep that is told. */
#include <string.h>

#include "runtime/runtime_internal.h"
#include "tests/device/check.h"

enum { KERNELS = 500, KERNELS_QUICK = 20, BYTES = 1 << 16, STREAMS_MAX = 64 };

static bool play(struct check_run *run, int kernels) {
    struct orr_stream *stream = orr_device_stream(run->runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *a = NULL, *b = NULL;
    bool good = stream && orr_buffer_alloc(stream, BYTES, "a", &a) == ORR_OK &&
                orr_buffer_alloc(stream, BYTES, "b", &b) == ORR_OK &&
                orr_stream_fill(stream, a, 0, BYTES, 1) == ORR_OK;
    for (int i = 0; good && i < kernels; i++)
        good = orr_stream_copy(stream, i % 2 ? a : b, 0, i % 2 ? b : a, 0, BYTES) == ORR_OK;
    return good && orr_runtime_finish(run->runtime) == ORR_OK;
}

struct counted {
    int commands, early, overlapping;
};

static struct counted count_violations(const struct check_run *run) {
    struct counted counted = {0};
    int64_t last_ns[STREAMS_MAX] = {0};
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(run->store, &cursor)) != NULL) {
        const struct orr_record_command *command = (const void *)record;
        if (record->kind != ORR_RECORD_COMMAND || command->stream >= STREAMS_MAX)
            continue;
        counted.commands++;
        counted.early +=
            command->start_ns < command->enqueue_ns || command->finish_ns < command->start_ns;
        counted.overlapping += command->start_ns < last_ns[command->stream];
        last_ns[command->stream] = command->finish_ns;
    }
    return counted;
}

struct telling {
    struct check *check;
    const char *mode;
};

static void tell(void *context, const char *key, const char *value) {
    const struct telling *telling = context;
    check_say(telling->check, telling->mode, CHECK_NOTE, "%s: %s", key, value);
}

static void check_mode(struct check *check, const char *mode, enum orr_cuda_timestamps which) {
    struct check_run run;
    if (!check_run_open(check, &run, 1, false, which, NULL))
        return;
    if (!play(&run, check->quick ? KERNELS_QUICK : KERNELS)) {
        check_say(check, mode, CHECK_FAIL, "%s", orr_runtime_error(run.runtime)->text);
    } else {
        struct counted counted = count_violations(&run);
        run.runtime->verbs->notes(run.runtime->backend, tell, &(struct telling){check, mode});
        check_say(check, mode, counted.early + counted.overlapping ? CHECK_FAIL : CHECK_PASS,
                  "%d commands: %d early, %d overlapping", counted.commands, counted.early,
                  counted.overlapping);
    }
    check_run_close(&run);
}

void check_clocks(struct check *check) {
    check_mode(check, "times of the host", ORR_CUDA_TIMESTAMPS_HOST);
    check_mode(check, "times of events", ORR_CUDA_TIMESTAMPS_EVENTS);
    check_mode(check, "times of CUPTI", ORR_CUDA_TIMESTAMPS_CUPTI);
    check_mode(check, "CUPTI against events", ORR_CUDA_TIMESTAMPS_BOTH);
}
