/* Our own Perfetto export: the timeline stands in its metadata, packed (trace/timeline_pack.h), so
 * that nothing is lost; the events are for other readers and are not looked at. */
#include <string.h>

#include "trace/base64.h"
#include "trace/import/formats.h"
#include "trace/perfetto_internal.h"
#include "trace/timeline_pack.h"

bool orr__is_export(const char *text, size_t size) {
    static const char start[] = ORR__PERFETTO_START "\"" ORR__PERFETTO_MARK_KEY "\":\"";
    return size >= sizeof start - 1 && memcmp(text, start, sizeof start - 1) == 0;
}

struct reading {
    const char *name;
    const struct orr_memory *memory;
    struct orr_error *error;
    enum orr_status status;
    unsigned char *pack;
    size_t size;
    bool found, broken;
};

/* Reads the metadata; again from the start if it is asked to. */
static void read_metadata(struct reading *reading, struct orr__json_cursor *cursor) {
    struct orr__json_value value;
    struct orr__json_text key;
    orr_memory_free(reading->memory, reading->pack);
    reading->pack = NULL;
    reading->found = reading->broken = false;
    if (!orr__json_value(cursor, &value) || value.kind != ORR__JSON_OBJECT)
        return;
    while (orr__json_member(cursor, &key, &value)) {
        if (!orr__json_is(key, ORR__PERFETTO_TIMELINE_KEY) || value.kind != ORR__JSON_STRING) {
            orr__json_skip(cursor, &value);
            continue;
        }
        orr_memory_free(reading->memory, reading->pack);
        reading->pack = orr_memory_alloc(reading->memory, value.text.length / 4 * 3 + 3);
        if (!reading->pack) {
            reading->status = ORR_NO_MEMORY;
            return;
        }
        reading->found = true;
        reading->broken =
            !orr__base64_decode(value.text.at, value.text.length, reading->pack, &reading->size);
    }
}

/* The first member "metadata", which comes before all events. */
static void find_pack(struct reading *reading, struct orr__json_document *document) {
    struct orr__json_piece piece;
    while (reading->status == ORR_OK && orr__json_document_next(document, &piece)) {
        if (piece.kind == ORR__JSON_EVENT)
            return;
        if (!orr__json_is(piece.key, "metadata"))
            continue;
        do {
            read_metadata(reading, &piece.cursor);
        } while (orr__json_document_again(document, &piece));
        if (piece.good)
            return;
        reading->found = false;
    }
}

static enum orr_status judge(const struct reading *reading, struct orr__json_document *document) {
    enum orr_status status = orr__json_document_status(document, reading->error);
    if (status != ORR_OK)
        return status;
    if (reading->status != ORR_OK)
        return orr_error_set(reading->error, reading->status, "%s: out of memory", reading->name);
    if (!reading->found)
        return orr_error_set(reading->error, ORR_INVALID,
                             "%s: an export of Orrery that does not carry its timeline (metadata "
                             "\"" ORR__PERFETTO_TIMELINE_KEY "\"), because it was cut, or was too "
                             "large; give the database it was made from",
                             reading->name);
    if (reading->broken)
        return orr_error_set(reading->error, ORR_INVALID,
                             "%s: metadata \"" ORR__PERFETTO_TIMELINE_KEY
                             "\": expected a timeline in base64",
                             reading->name);
    return ORR_OK;
}

enum orr_status orr__read_export(struct orr__json_document *document, const char *name,
                                 const struct orr_import_options *options,
                                 const struct orr_memory *memory,
                                 struct orr_timeline **out_timeline, struct orr_error *error) {
    struct reading reading = {.name = name, .memory = memory, .error = error};
    struct orr_error inner = {0};
    (void)options; /* nothing is repaired */
    *out_timeline = NULL;
    find_pack(&reading, document);
    enum orr_status status = judge(&reading, document);
    if (status == ORR_OK) {
        status = orr__timeline_unpack(reading.pack, reading.size, memory, out_timeline, &inner);
        if (status != ORR_OK)
            orr_error_set(error, status,
                          "%s: metadata \"" ORR__PERFETTO_TIMELINE_KEY "\": damaged: %s", name,
                          inner.text);
    }
    orr_memory_free(memory, reading.pack);
    return status;
}
