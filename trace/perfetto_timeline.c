/* The timeline itself, in the file's metadata: what trace/import/export.c reads back. */
#include "trace/base64.h"
#include "trace/perfetto_internal.h"
#include "trace/queue_depth.h"
#include "trace/timeline_pack.h"

enum { PIECE_BYTES = 3 << 12 }; /* of a pack, encoded at a time */

/* The timeline without the counters that were worked out for this export (of commands, so that
 * whoever reads them back can do it again). */
static enum orr_status without_depths(const struct orr__export *export,
                                      struct orr_timeline *out_timeline) {
    const struct orr_timeline *timeline = export->timeline;
    *out_timeline = *timeline;
    enum orr_status status = orr__export_alloc(
        export, &out_timeline->counters, timeline->counter_count + 1, sizeof *timeline->counters);
    if (status != ORR_OK) {
        return status;
    }
    out_timeline->counter_count = 0;
    for (size_t i = 0; i < timeline->counter_count; i++) {
        if (strcmp(timeline->counters[i].name, ORR_QUEUE_DEPTH_NAME) != 0) {
            out_timeline->counters[out_timeline->counter_count++] = timeline->counters[i];
        }
    }
    return ORR_OK;
}

static void write_base64(struct orr_json_writer *writer, const unsigned char *bytes, size_t size,
                         char *text) {
    for (size_t at = 0; at < size; at += PIECE_BYTES) {
        size_t piece = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        orr_json_bytes(writer, text, orr__base64_encode(bytes + at, piece, text));
    }
}

enum orr_status orr__perfetto_timeline(struct orr__export *export, struct orr_json_writer *writer) {
    struct orr_timeline timeline;
    unsigned char *bytes = NULL;
    char *text = NULL;
    size_t size = 0;
    enum orr_status status = without_depths(export, &timeline);
    if (status != ORR_OK) {
        return status;
    }
    if (orr__timeline_pack(&timeline, export->memory, &bytes, &size) != ORR_OK) {
        status = orr_error_set(export->error, ORR_NO_MEMORY, "%s: out of memory", export->path);
    }
    if (status == ORR_OK && size <= ORR__PERFETTO_PACK_MAX) {
        status = orr__export_alloc(export, &text, PIECE_BYTES / 3 * 4, 1);
        if (status == ORR_OK) {
            ORR_JSON_LITERAL(writer, ",\"" ORR__PERFETTO_TIMELINE_KEY "\":\"");
            write_base64(writer, bytes, size, text);
            ORR_JSON_LITERAL(writer, "\"");
        }
    }
    orr_memory_free(export->memory, text);
    orr_memory_free(export->memory, bytes);
    orr_memory_free(export->memory, timeline.counters);
    return status;
}
