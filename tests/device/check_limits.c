/* Step 8: what is refused, and how: more memory than there is, and NCCL with two ranks on one
 * GPU. */
#include <string.h>

#include "runtime/buffer.h"
#include "tests/device/check.h"

static void check_memory(struct check *check) {
    struct check_run run;
    struct orr_buffer *buffer = NULL;
    if (!check_run_open(check, &run, 1, false, ORR_CUDA_TIMESTAMPS_HOST, NULL))
        return;
    struct orr_stream *stream = orr_device_stream(run.runtime, 0, ORR_STREAM_COMPUTE);
    enum orr_status status =
        stream ? orr_buffer_alloc(stream, run.specs[0].memory_bytes + 1, "too much", &buffer)
               : ORR_NO_MEMORY;
    const char *text = orr_runtime_error(run.runtime)->text;
    bool right = status == ORR_DEVICE_MEMORY && strstr(text, "out of memory");
    check_say(check, "out of memory", right ? CHECK_PASS : CHECK_FAIL, "%s", text);
    check_run_close(&run);
}

/* NCCL refuses two ranks on one GPU with code 5, and so do we, before it is asked. */
static void check_nccl(struct check *check) {
    struct orr_error error = {0};
    if (orr__cuda_need(check->api, ORR__CUDA_NCCL, &error) != ORR_OK) {
        check_say(check, "NCCL", CHECK_SKIP, "%s", error.text);
        return;
    }
    int version = 0, same[2] = {0, 0};
    ncclComm_t communicators[2] = {NULL, NULL};
    (void)check->api->nccl.ncclGetVersion(&version);
    ncclResult_t code = check->api->nccl.ncclCommInitAll(communicators, 2, same);
    check_say(check, "NCCL", code == ncclInvalidUsage ? CHECK_PASS : CHECK_NOTE,
              "version %d: two ranks on one GPU give code %d", version, (int)code);
    for (int i = 0; code == ncclSuccess && i < 2; i++)
        (void)check->api->nccl.ncclCommDestroy(communicators[i]);
}

void check_limits(struct check *check) {
    check_memory(check);
    check_nccl(check);
}
