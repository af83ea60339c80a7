/* Step 4: spinning kernels in 1 to 32 streams. They occupy one thread each, so that all of them fit
 * on a GPU at once: what the wall clock shows is whether streams run side by side. */
#include "runtime/cuda/queue.h"
#include "tests/device/check.h"

enum { STREAMS_MAX = 32, SPIN_NS = 2000000 };

struct lanes {
    struct orr__cuda_images images;
    struct orr__cuda_queue queues[STREAMS_MAX];
    int count;
};

static enum orr_status make(struct check *check, struct lanes *lanes, struct orr_error *error) {
    struct orr__cuda_api *api = check->api;
    enum orr_status status = orr__cuda_images_load(api, 0, &lanes->images, error);
    while (status == ORR_OK && lanes->count < STREAMS_MAX) {
        struct orr__cuda_queue *queue = &lanes->queues[lanes->count];
        *queue = (struct orr__cuda_queue){
            .api = api, .code = &lanes->images.code, .memory = &check->memory, .sm_count = 1};
        cudaError_t code =
            api->rt.cudaStreamCreateWithPriority(&queue->stream, cudaStreamNonBlocking, 0);
        status = orr__cuda_check(api, code, "cudaStreamCreateWithPriority", error);
        lanes->count += status == ORR_OK;
    }
    return status;
}

static void destroy(struct check *check, struct lanes *lanes) {
    for (int i = 0; i < lanes->count; i++)
        (void)check->api->rt.cudaStreamDestroy(lanes->queues[i].stream);
    orr__cuda_images_unload(check->api, &lanes->images);
}

static enum orr_status spin_all(struct check *check, struct lanes *lanes, int streams,
                                int64_t *out_ns, struct orr_error *error) {
    const struct orr__k_spin spin = {.ns = SPIN_NS};
    enum orr_status status = ORR_OK;
    int64_t begin_ns = check->api->now(check->api);
    for (int i = 0; status == ORR_OK && i < streams; i++)
        status = orr__cuda_launch(&lanes->queues[i], ORR__K_spin, 1, 32, 0, &spin, error);
    if (status == ORR_OK)
        status = orr__cuda_check(check->api, check->api->rt.cudaDeviceSynchronize(),
                                 "cudaDeviceSynchronize", error);
    *out_ns = check->api->now(check->api) - begin_ns;
    return status;
}

void check_overlap(struct check *check) {
    static struct lanes lanes;
    struct orr_error error = {0};
    if (check->fake) {
        check_say(check, "overlap", CHECK_SKIP, "a fake device takes no time");
        return;
    }
    lanes = (struct lanes){0};
    enum orr_status status = make(check, &lanes, &error);
    int64_t ns = 0;
    if (status == ORR_OK) /* a cold start */
        status = spin_all(check, &lanes, 1, &ns, &error);
    bool beside = true;
    for (int streams = 1; status == ORR_OK && streams <= STREAMS_MAX; streams *= 2) {
        char name[48];
        status = spin_all(check, &lanes, streams, &ns, &error);
        snprintf(name, sizeof name, "wall of %d streams of 2 ms", streams);
        check_figure(check, name, (double)ns / 1e6, "ms");
        beside =
            beside && (streams == 1 || streams > 16 || ns < (int64_t)streams * SPIN_NS * 3 / 4);
    }
    destroy(check, &lanes);
    if (status != ORR_OK)
        check_say(check, "overlap", CHECK_FAIL, "%s", error.text);
    else
        check_say(check, "overlap", beside ? CHECK_PASS : CHECK_FAIL,
                  "up to 16 streams take less than 3/4 of one after the other");
}
