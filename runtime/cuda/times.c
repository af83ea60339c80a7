#include "runtime/cuda/times.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/cuda/times_internal.h"

enum {
    /* CUPTI converts the GPU's clock to the host's by interpolation (cupti_activity.h, at
     * cuptiActivityRegisterTimestampCallback); an event's time may be 0.5 us off. */
    CUPTI_TOLERANCE_NS = 10000,
    EVENT_TOLERANCE_NS = 1000,
    /* Between the end of a command's last kernel and the event behind it. */
    CHECK_TOLERANCE_NS = 10000,
    MISSING_SHARE = 10 /* more than a tenth of the commands is worth a warning */
};

/* What was measured of a command. */
struct interval {
    int64_t start_ns; /* ORR_TIME_NONE: as early as it could */
    int64_t finish_ns;
    enum orr_ts_source source;
    int64_t tolerance_ns;
};

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void orr__cuda_times_failed(struct orr__cuda_times *times, const char *text) {
    if (times->counts.failed++ == 0)
        snprintf(times->reason, sizeof times->reason, "%s", text);
}

bool orr__cuda_times_worked(struct orr__cuda_times *times, cudaError_t code, const char *call) {
    struct orr_error error = {0};
    if (orr__cuda_check(times->api, code, call, &error) == ORR_OK)
        return true;
    orr__cuda_times_failed(times, error.text);
    (void)times->api->rt.cudaGetLastError(); /* else who asks next takes it for its own */
    return false;
}

/* --- open and close --- */

/* CUPTI if it can be had. */
static enum orr_status choose(struct orr__cuda_times *times, enum orr_cuda_timestamps wanted,
                              struct orr_error *error) {
    if (wanted == ORR_CUDA_TIMESTAMPS_HOST || wanted == ORR_CUDA_TIMESTAMPS_EVENTS) {
        times->source = wanted == ORR_CUDA_TIMESTAMPS_HOST ? ORR_TS_HOST : ORR_TS_EVENT;
        return ORR_OK;
    }
    struct orr_error reason = {0};
    enum orr_status status = orr__cuda_cupti_open(times, &times->cupti, &reason);
    times->source = status == ORR_OK ? ORR_TS_CUPTI : ORR_TS_EVENT;
    if (status == ORR_UNAVAILABLE && wanted == ORR_CUDA_TIMESTAMPS_AUTO) {
        snprintf(times->reason, sizeof times->reason, "%s", reason.text);
        return ORR_OK;
    }
    return status == ORR_OK ? ORR_OK : orr_error_set(error, status, "%s", reason.text);
}

enum orr_status orr__cuda_times_open(struct orr__cuda_api *api, enum orr_cuda_timestamps wanted,
                                     const struct orr_memory *memory,
                                     struct orr__cuda_times **out_times, struct orr_error *error) {
    *out_times = NULL;
    struct orr__cuda_times *times = orr_memory_alloc(memory, sizeof *times);
    if (!times)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a GPU's clock");
    times->api = api;
    times->memory = memory;
    times->base_ns = api->now(api);
    times->both = wanted == ORR_CUDA_TIMESTAMPS_BOTH;
    enum orr_status status = choose(times, wanted, error);
    if (status != ORR_OK)
        orr__cuda_times_close(&times);
    *out_times = times;
    return status;
}

void orr__cuda_times_close(struct orr__cuda_times **handle) {
    struct orr__cuda_times *times = *handle;
    if (!times)
        return;
    orr__cuda_cupti_close(&times->cupti);
    orr__cuda_clocks_close(times);
    orr_memory_free(times->memory, times);
    *handle = NULL;
}

enum orr_ts_source orr__cuda_times_source(const struct orr__cuda_times *times) {
    return times->source;
}

const char *orr__cuda_times_reason(const struct orr__cuda_times *times) {
    return times->reason;
}

const struct orr__cuda_times_counts *orr__cuda_times_counts(const struct orr__cuda_times *times) {
    return &times->counts;
}

int64_t orr__cuda_times_now(const struct orr__cuda_times *times) {
    return times->api->now(times->api) - times->base_ns;
}

unsigned orr__cuda_times_event_flags(const struct orr__cuda_times *times) {
    return times->source == ORR_TS_HOST ? cudaEventDisableTiming : cudaEventDefault;
}

/* --- commands --- */

static bool uses_events(const struct orr__cuda_times *times) {
    return times->source == ORR_TS_EVENT || times->both;
}

/* Events are what CUPTI's times fall back to, too: where nothing precedes a command in its stream
 * only its end is known then. */
void orr__cuda_times_begin(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp,
                           uint32_t gpu, cudaStream_t stream, bool busy) {
    *stamp = (struct orr__cuda_stamp){.gpu = gpu + 1};
    if (times->source == ORR_TS_HOST)
        return;
    stamp->origin = orr__cuda_clock_origin(times, gpu);
    if (stamp->origin > 0 && !busy && uses_events(times))
        stamp->began = orr__cuda_clock_record(times, gpu, stream);
    if (times->cupti)
        stamp->ticket = orr__cuda_cupti_begin(times->cupti, 1);
}

void orr__cuda_times_end(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp) {
    if (stamp->ticket > 0)
        orr__cuda_cupti_end(times->cupti, stamp->ticket);
}

void orr__cuda_times_replayed(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp,
                              uint32_t gpu) {
    *stamp = (struct orr__cuda_stamp){.gpu = gpu + 1};
    if (times->source != ORR_TS_HOST)
        stamp->origin = orr__cuda_clock_origin(times, gpu);
}

void orr__cuda_times_begin_group(struct orr__cuda_times *times,
                                 struct orr__cuda_stamp *const *stamps, const uint32_t *gpus,
                                 uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        *stamps[i] = (struct orr__cuda_stamp){.gpu = gpus[i] + 1, .arrives = true};
        if (times->source != ORR_TS_HOST)
            stamps[i]->origin = orr__cuda_clock_origin(times, gpus[i]);
    }
    uint64_t ticket = times->cupti && count > 0 ? orr__cuda_cupti_begin(times->cupti, count) : 0;
    for (uint32_t i = 0; i < count; i++)
        stamps[i]->ticket = ticket;
}

void orr__cuda_times_end_group(struct orr__cuda_times *times, struct orr__cuda_stamp *const *stamps,
                               uint32_t count) {
    if (count > 0)
        orr__cuda_times_end(times, stamps[0]);
}

void orr__cuda_times_discard(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp) {
    if (stamp->ticket > 0)
        orr__cuda_cupti_release(times->cupti, stamp->ticket);
    if (stamp->began)
        orr__cuda_clock_give(times, stamp->gpu - 1, stamp->began);
    *stamp = (struct orr__cuda_stamp){0};
}

void orr__cuda_times_flush(struct orr__cuda_times *times) {
    if (times->cupti)
        orr__cuda_cupti_flush(times->cupti);
}

/* --- times of a command --- */

static bool read_events(struct orr__cuda_times *times, const struct orr__cuda_stamp *stamp,
                        cudaEvent_t done, struct interval *out) {
    uint32_t gpu = stamp->gpu - 1;
    *out = (struct interval){.start_ns = ORR_TIME_NONE,
                             .source = ORR_TS_EVENT,
                             .tolerance_ns = EVENT_TOLERANCE_NS + times->counts.clock_error_ns};
    if (stamp->origin == 0 || !done ||
        !orr__cuda_clock_read(times, gpu, stamp->origin, done, &out->finish_ns))
        return false;
    if (stamp->began &&
        !orr__cuda_clock_read(times, gpu, stamp->origin, stamp->began, &out->start_ns))
        out->start_ns = ORR_TIME_NONE;
    return true;
}

static bool near(int64_t a, int64_t b, int64_t tolerance_ns) {
    return a - b <= tolerance_ns && b - a <= tolerance_ns;
}

/* Whether the other source says the same, within what both may be off. */
static void compare(struct orr__cuda_times *times, const struct orr__cuda_stamp *stamp,
                    cudaEvent_t done, const struct interval *measured) {
    struct interval other;
    if (!read_events(times, stamp, done, &other))
        return;
    int64_t tolerance_ns = CHECK_TOLERANCE_NS + other.tolerance_ns;
    bool agree =
        near(measured->finish_ns, other.finish_ns, tolerance_ns) &&
        (other.start_ns == ORR_TIME_NONE || near(measured->start_ns, other.start_ns, tolerance_ns));
    times->counts.checked++;
    times->counts.disagreements += agree ? 0 : 1;
}

static bool read_cupti(struct orr__cuda_times *times, const struct orr__cuda_stamp *stamp,
                       cudaEvent_t done, int64_t observed_ns, bool must, struct interval *out) {
    *out = (struct interval){.source = ORR_TS_CUPTI, .tolerance_ns = CUPTI_TOLERANCE_NS};
    if (!orr__cuda_cupti_read(times->cupti, stamp->ticket, observed_ns, must, &out->start_ns,
                              &out->finish_ns)) {
        times->counts.missing += must ? 1 : 0;
        return false;
    }
    if (times->both)
        compare(times, stamp, done, out);
    if (stamp->arrives)
        out->start_ns = ORR_TIME_NONE;
    return true;
}

/* The best that there is of what ran on a GPU. */
static enum orr_status measure(struct orr__cuda_times *times, const struct orr__cuda_stamp *stamp,
                               cudaEvent_t done, int64_t observed_ns, bool must,
                               struct interval *out) {
    if (stamp->ticket > 0) {
        if (read_cupti(times, stamp, done, observed_ns, must, out))
            return ORR_OK;
        if (!must)
            return ORR_NOT_READY;
    }
    if (times->source == ORR_TS_HOST || !read_events(times, stamp, done, out))
        *out = (struct interval){
            .start_ns = ORR_TIME_NONE, .finish_ns = observed_ns, .source = ORR_TS_HOST};
    return ORR_OK;
}

/* As early as it could: when the call had returned and all before it was done. Of a wait, what it
 * waits for ends it. */
static void derive(const struct orr__cuda_bounds *bounds, bool is_wait, struct interval *out) {
    int64_t start_ns = later(bounds->enqueued_ns, bounds->before_ns);
    if (!is_wait)
        start_ns = later(start_ns, bounds->awaited_ns);
    *out = (struct interval){.start_ns = start_ns,
                             .finish_ns = later(start_ns, bounds->awaited_ns),
                             .source = ORR_TS_DERIVED};
}

/* Moves a time into [low, high]; how far it was off. */
static int64_t clamp(int64_t *time_ns, int64_t low_ns, int64_t high_ns) {
    int64_t moved_ns = earlier(later(*time_ns, low_ns), high_ns);
    int64_t off_ns = moved_ns - *time_ns;
    *time_ns = moved_ns;
    return off_ns < 0 ? -off_ns : off_ns;
}

/* What the host knows holds. */
static void settle(struct orr__cuda_times *times, const struct orr__cuda_bounds *bounds,
                   bool is_wait, struct interval *interval) {
    int64_t low_ns = later(bounds->enqueue_ns, bounds->before_ns);
    if (!is_wait)
        low_ns = later(low_ns, bounds->awaited_ns);
    int64_t high_ns = later(low_ns, bounds->observed_ns);
    int64_t off_ns = 0;
    if (interval->start_ns == ORR_TIME_NONE)
        interval->start_ns = later(low_ns, earlier(bounds->enqueued_ns, interval->finish_ns));
    else
        off_ns = clamp(&interval->start_ns, low_ns, high_ns);
    off_ns = later(off_ns, clamp(&interval->finish_ns, interval->start_ns, high_ns));
    if (interval->source == ORR_TS_DERIVED || off_ns == 0)
        return;
    times->counts.clamped++;
    times->counts.inversions += off_ns > interval->tolerance_ns ? 1 : 0;
}

enum orr_status orr__cuda_times_resolve(struct orr__cuda_times *times,
                                        struct orr__cuda_stamp *stamp, cudaEvent_t done,
                                        const struct orr__cuda_bounds *bounds, bool must,
                                        struct orr_record_command *record,
                                        enum orr_ts_source *out_source) {
    bool is_wait = record->header.a == ORR_COMMAND_WAIT;
    struct interval interval;
    if (stamp->on_host)
        interval = (struct interval){.start_ns = stamp->host_start_ns,
                                     .finish_ns = stamp->host_finish_ns,
                                     .source = ORR_TS_HOST};
    else if (stamp->gpu == 0)
        derive(bounds, is_wait, &interval);
    else if (measure(times, stamp, done, bounds->observed_ns, must, &interval) != ORR_OK)
        return ORR_NOT_READY;
    orr__cuda_times_discard(times, stamp);
    settle(times, bounds, is_wait, &interval);
    times->counts.sources[interval.source]++;
    record->start_ns = interval.start_ns;
    record->finish_ns = interval.finish_ns;
    *out_source = interval.source;
    return ORR_OK;
}

/* --- what to say of it --- */

static void note_count(orr_backend_note note, void *context, const char *key, uint64_t count) {
    char text[32];
    if (count == 0)
        return;
    snprintf(text, sizeof text, "%" PRIu64, count);
    note(context, key, text);
}

static uint64_t commands_of(const struct orr__cuda_times_counts *counts) {
    return counts->sources[ORR_TS_CUPTI] + counts->sources[ORR_TS_EVENT] +
           counts->sources[ORR_TS_HOST];
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* A run that was to be measured by CUPTI and was not, in a part that matters. */
static void warn(const struct orr__cuda_times *times, orr_backend_note note, void *context) {
    const struct orr__cuda_times_counts *counts = &times->counts;
    char text[2 * ORR_ERROR_TEXT_MAX];
    int used = 0;
    if (counts->missing > 0 &&
        (counts->dropped > 0 || counts->missing * MISSING_SHARE > commands_of(counts)))
        used = snprintf(text, sizeof text,
                        "times of %" PRIu64 " of %" PRIu64
                        " device commands are those of events, because CUPTI had not handed over "
                        "their records in time",
                        counts->missing, commands_of(counts));
    if (counts->dropped > 0)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s%" PRIu64 " record%s dropped by CUPTI", used > 0 ? "; " : "",
                         counts->dropped, plural(counts->dropped));
    if (counts->failed > 0)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s%" PRIu64 " call%s for times failed, first %s", used > 0 ? "; " : "",
                         counts->failed, plural(counts->failed), times->reason);
    if (used > 0)
        note(context, "timestamps_warning", text);
}

void orr__cuda_times_notes(const struct orr__cuda_times *times, orr_backend_note note,
                           void *context) {
    const struct orr__cuda_times_counts *counts = &times->counts;
    note(context, "timestamps", orr_ts_source_text(times->source));
    if (counts->failed == 0 && times->reason[0])
        note(context, "timestamps_reason", times->reason);
    warn(times, note, context);
    note_count(note, context, "timestamps_dropped", counts->dropped);
    note_count(note, context, "timestamps_missing", counts->missing);
    note_count(note, context, "timestamps_late", counts->late);
    note_count(note, context, "timestamps_clamped", counts->clamped);
    note_count(note, context, "timestamps_inversions", counts->inversions);
    note_count(note, context, "timestamps_checked", counts->checked);
    note_count(note, context, "timestamps_disagreements", counts->disagreements);
    note_count(note, context, "timestamps_clock_error_ns", (uint64_t)counts->clock_error_ns);
    note_count(note, context, "timestamps_overhead_ns", (uint64_t)counts->overhead_ns);
}
