/* Step 3: a slow producer, an event, and a consumer in another stream. With the wait the numbers
 * must be right every time; without it they must be wrong, which shows that the check can see it,
 * and the hazard check must say so of this very run. */
#include <string.h>

#include "hazards/monitor.h"
#include "runtime/buffer.h"
#include "tests/device/check.h"

enum { ROUNDS = 200, ROUNDS_QUICK = 5, UPLOADS = 4, SLOW_BYTES = 1 << 20, BYTES = 4096 };

struct pipeline {
    struct orr_stream *produce, *consume;
    struct orr_buffer *source, *between, *result, *pinned, *numbers;
    struct orr_event *event;
};

static bool make(struct check_run *run, struct pipeline *p) {
    memset(p, 0, sizeof *p);
    p->produce = orr_device_stream(run->runtime, 0, ORR_STREAM_COMPUTE);
    p->consume = orr_device_stream(run->runtime, 0, ORR_STREAM_COMMUNICATE);
    return p->produce && p->consume &&
           orr_buffer_alloc(p->produce, SLOW_BYTES, "source", &p->source) == ORR_OK &&
           orr_buffer_alloc(p->produce, BYTES, "between", &p->between) == ORR_OK &&
           orr_buffer_alloc(p->consume, BYTES, "result", &p->result) == ORR_OK &&
           orr_buffer_alloc_host(run->runtime, BYTES, "pinned", &p->pinned) == ORR_OK &&
           orr_buffer_alloc_host(run->runtime, SLOW_BYTES, "numbers", &p->numbers) == ORR_OK &&
           orr_event_create(run->runtime, "produced", &p->event) == ORR_OK &&
           orr_buffer_record_stream(p->between, p->consume) == ORR_OK &&
           orr_stream_fill(p->produce, p->numbers, 0, SLOW_BYTES, 7) == ORR_OK;
}

static bool launch(struct orr_stream *stream, const char *name, struct orr_buffer *from,
                   uint64_t from_bytes, struct orr_buffer *to) {
    const struct orr_range ranges[2] = {{from, 0, from_bytes, ORR_ACCESS_READ},
                                        {to, 0, BYTES, ORR_ACCESS_WRITE}};
    const struct orr_kernel kernel = {.name = name,
                                      .dtype = ORR_DTYPE_F32,
                                      .accesses = ranges,
                                      .access_count = 2,
                                      .submit_ns = -1,
                                      .service_ns = -1};
    return orr_stream_kernel(stream, &kernel, NULL) == ORR_OK;
}

/* The producer's operand arrives more than once, so that it is late also on a machine on which
 * kernels take no time. */
static bool hold_up(struct pipeline *p) {
    bool good = true;
    for (int i = 0; good && i < UPLOADS; i++)
        good = orr_stream_copy(p->produce, p->source, 0, p->numbers, 0, SLOW_BYTES) == ORR_OK;
    return good;
}

/* One round, from a state in which everything is done. The host's digest of what arrives. */
static bool play(struct check_run *run, struct pipeline *p, bool waits, uint64_t *out_digest) {
    unsigned char bytes[BYTES];
    bool good = orr_stream_fill(p->produce, p->between, 0, BYTES, 0) == ORR_OK &&
                orr_device_sync(run->runtime, 0) == ORR_OK && hold_up(p) &&
                launch(p->produce, "produce", p->source, SLOW_BYTES, p->between) &&
                orr_event_record(p->event, p->produce) == ORR_OK &&
                (!waits || orr_stream_wait(p->consume, p->event) == ORR_OK) &&
                launch(p->consume, "consume", p->between, BYTES, p->result) &&
                orr_stream_copy(p->consume, p->pinned, 0, p->result, 0, BYTES) == ORR_OK &&
                orr_device_sync(run->runtime, 0) == ORR_OK &&
                orr_buffer_read(p->pinned, 0, bytes, BYTES, -1) == ORR_OK;
    *out_digest = 0;
    for (size_t i = 0; good && i < BYTES; i++)
        *out_digest = (*out_digest ^ bytes[i]) * 0x100000001b3u;
    return good;
}

struct seen {
    int right;
    size_t findings;
};

/* Plays rounds on a machine; the first digest is asked for, or compared with. */
static bool play_rounds(struct check *check, bool on_cpu, bool waits, int rounds,
                        uint64_t *expected, struct seen *out_seen) {
    struct check_run run;
    struct pipeline p;
    struct orr_monitor *monitor = NULL;
    *out_seen = (struct seen){0};
    if (orr_monitor_create(&check->memory, NULL, &monitor) != ORR_OK) {
        check_say(check, "order", CHECK_FAIL, "out of host memory");
        return false;
    }
    bool good = check_run_open(check, &run, 1, on_cpu, ORR_CUDA_TIMESTAMPS_AUTO,
                               orr_monitor_observer(monitor));
    if (!good) {
        orr_monitor_destroy(&monitor);
        return false;
    }
    good = make(&run, &p);
    for (int i = 0; good && i < rounds; i++) {
        uint64_t digest;
        good = play(&run, &p, waits, &digest);
        if (on_cpu)
            *expected = digest;
        out_seen->right += good && digest == *expected;
    }
    if (!good)
        check_say(check, "order", CHECK_FAIL, "%s", orr_runtime_error(run.runtime)->text);
    out_seen->findings = orr_monitor_finding_count(monitor);
    check_run_close(&run);
    orr_monitor_destroy(&monitor);
    return good;
}

void check_order(struct check *check) {
    int rounds = check->quick ? ROUNDS_QUICK : ROUNDS;
    uint64_t expected = 0;
    struct seen with, without, cpu;
    if (!play_rounds(check, true, true, 1, &expected, &cpu) ||
        !play_rounds(check, false, true, rounds, &expected, &with) ||
        !play_rounds(check, false, false, rounds, &expected, &without))
        return;
    bool fooled = check->fake && without.right > 0 && without.findings > 0;
    bool order = with.right == rounds && with.findings == 0;
    bool control = without.right == 0 && without.findings > 0;
    check_say(check, "order", order ? CHECK_PASS : CHECK_FAIL,
              "with the wait %d of %d right; findings: %zu", with.right, rounds, with.findings);
    check_say(check, "order negative control",
              fooled    ? CHECK_SKIP
              : control ? CHECK_PASS
                        : CHECK_FAIL,
              "without it %d of %d right; findings: %zu%s", without.right, rounds, without.findings,
              fooled ? "; a fake device's time means nothing" : "");
}
