#include "runtime/record.h"

/* Texts are those of the lists in the header; a value outside of an enum (a damaged trace) is
 * "unknown", so that messages can be printed without a check at every call. */

static const char *text_at(const char *const *texts, unsigned count, unsigned index) {
    return index < count ? texts[index] : "unknown";
}

#define TEXT(name, text) text,

const char *orr_command_kind_text(enum orr_command_kind kind) {
    static const char *const texts[] = {ORR_COMMAND_KIND_LIST(TEXT)};
    return text_at(texts, ORR_COMMAND_KIND_COUNT, (unsigned)kind);
}

const char *orr_command_status_text(enum orr_command_status status) {
    static const char *const texts[] = {ORR_COMMAND_STATUS_LIST(TEXT)};
    return text_at(texts, ORR_COMMAND_STATUS_COUNT, (unsigned)status);
}

const char *orr_edge_kind_text(enum orr_edge_kind kind) {
    static const char *const texts[] = {ORR_EDGE_KIND_LIST(TEXT)};
    return text_at(texts, ORR_EDGE_KIND_COUNT, (unsigned)kind);
}

const char *orr_sync_kind_text(enum orr_sync_kind kind) {
    static const char *const texts[] = {ORR_SYNC_KIND_LIST(TEXT)};
    return text_at(texts, ORR_SYNC_KIND_COUNT, (unsigned)kind);
}

const char *orr_stream_kind_text(enum orr_stream_kind kind) {
    static const char *const texts[] = {ORR_STREAM_KIND_LIST(TEXT)};
    return text_at(texts, ORR_STREAM_KIND_COUNT, (unsigned)kind);
}

const char *orr_role_text(enum orr_role role) {
    static const char *const texts[] = {ORR_ROLE_LIST(TEXT)};
    return text_at(texts, ORR_ROLE_COUNT, (unsigned)role);
}

const char *orr_ts_source_text(enum orr_ts_source source) {
    static const char *const texts[] = {ORR_TS_SOURCE_LIST(TEXT)};
    return text_at(texts, ORR_TS_SOURCE_COUNT, (unsigned)source);
}

const char *orr_stream_sync_text(enum orr_stream_sync sync) {
    static const char *const texts[] = {"nb", "bl", "ptds", "legacy"};
    return text_at(texts, ORR_STREAM_LEGACY + 1, (unsigned)sync);
}

int64_t orr_record_ready_ns(int64_t enqueued_ns, int64_t before_ns, int64_t awaited_ns,
                            int64_t start_ns) {
    /* ORR_TIME_NONE is less than any time. */
    int64_t ready_ns = enqueued_ns > before_ns ? enqueued_ns : before_ns;
    ready_ns = awaited_ns > ready_ns ? awaited_ns : ready_ns;
    return ready_ns < start_ns ? ready_ns : start_ns;
}
