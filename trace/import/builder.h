/* Internal to trace/: what importers of other tools' traces have in common. They append what they
 * read, in any order; finishing links, numbers and sorts it into a timeline.
 *
 *     struct orr__builder *builder;
 *     status = orr__builder_create(memory, "kineto", &builder);
 *     uint32_t device = orr__builder_device(builder, 0);
 *     uint32_t stream = orr__builder_stream(builder, device, 0, 0, 7);
 *     struct orr_timeline_command *c = orr__builder_command(builder);
 *     if (c) { c->stream = stream; c->name = orr__builder_text(builder, name, length); ... }
 *     ...
 *     status = orr__builder_finish(&builder, &timeline);
 *
 * Failure is sticky: when memory is out, texts are "", items NULL, and finish says ORR_NO_MEMORY,
 * so that nothing between needs to be checked but items.
 *
 * Streams and hosts are numbered again when finished, so that results do not depend on the order of
 * a file. Until then the numbers that these functions return are the builder's.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_BUILDER_H
#define ORR_TRACE_IMPORT_BUILDER_H

#include "trace/timeline.h"

struct orr__builder;

/* `format` is static: "kineto", "nsys". ORR_NO_MEMORY. */
enum orr_status orr__builder_create(const struct orr_memory *memory, const char *format,
                                    struct orr__builder **out_builder) ORR_MUST_CHECK;
/* Drops all; accepts NULL, nulls. */
void orr__builder_destroy(struct orr__builder **builder);

/* Out of memory? */
bool orr__builder_failed(const struct orr__builder *builder);

/* The timeline's own words: meta is added with orr__builder_meta, numbers are set here. */
struct orr_timeline_source *orr__builder_source(struct orr__builder *builder);

/* The text, stored once: equal texts have equal pointers. "" without memory. */
const char *orr__builder_text(struct orr__builder *builder, const char *text, size_t length);

/* meta key = value; the last one counts. */
void orr__builder_meta(struct orr__builder *builder, const char *key, const char *value);

/* Device with the source's number, made at first use (named "device N" until someone names it), and
 * returned for filling in; its id is the number, below ORR__BUILDER_DEVICES (what is beyond is no
 * device's number, and the importer's business). The pointer is good until the next device. */
enum { ORR__BUILDER_DEVICES = 1 << 16 };
struct orr_timeline_device *orr__builder_device(struct orr__builder *builder, uint32_t number);

/* Stream of a device, made at first use. Streams of a device are numbered by (process, context,
 * number). Its name is "stream NUMBER". */
uint32_t orr__builder_stream(struct orr__builder *builder, uint32_t device, uint64_t process,
                             uint64_t context, int64_t number);

/* Thread, made at first use: label is "pid/tid" or the source's number. */
uint32_t orr__builder_host(struct orr__builder *builder, uint64_t process, const char *label,
                           size_t length);
/* A name for people; the last one counts. */
void orr__builder_name_host(struct orr__builder *builder, uint32_t host, const char *name);

/* A new item at the end of an array, with its id set and all else absent, good until the next one
 * of its kind; NULL without memory. Of a command set kind, name, device, stream (the builder's),
 * start_ns, finish_ns, correlation and what else is known; call, host and the times of the enqueue
 * are set when linked. Bad stamps are kept as they are. */
struct orr_timeline_command *orr__builder_command(struct orr__builder *builder);
struct orr_timeline_call *orr__builder_call(struct orr__builder *builder);
struct orr_timeline_sync *orr__builder_sync(struct orr__builder *builder);
struct orr_timeline_overhead *orr__builder_overhead(struct orr__builder *builder);
struct orr_timeline_slice *orr__builder_slice(struct orr__builder *builder);
struct orr_timeline_counter *orr__builder_counter(struct orr__builder *builder);
struct orr_timeline_communicator *orr__builder_communicator(struct orr__builder *builder);
struct orr_timeline_member *orr__builder_member(struct orr__builder *builder);
struct orr_timeline_collective *orr__builder_collective(struct orr__builder *builder);
struct orr_timeline_collective_member *orr__builder_collective_member(struct orr__builder *builder);

/* The call a sync record belongs to, by correlation: sync->call, host and, where the call is known,
 * begin and end are set from it when linked. Called after the sync is filled in. */
void orr__builder_link_sync(struct orr__builder *builder, uint64_t process, uint64_t correlation);

/* "stream waits for the record": at is the begin of the call with the wait's correlation, else
 * ts_ns; the record's time the begin of the call with record_correlation; no such call, or
 * ORR_CORRELATION_NONE: not resolved. source may be ORR_ID_NONE. */
struct orr__wait {
    uint64_t process, correlation, record_correlation;
    uint32_t stream, source; /* the builder's */
    int64_t ts_ns;
};
void orr__builder_wait(struct orr__builder *builder, const struct orr__wait *wait);

/* A finding about the import: kind "import_...", severity "note", "warning" or "error", one line;
 * offset and count go into the text by the caller. */
void orr__builder_finding(struct orr__builder *builder, const char *kind, const char *severity,
                          const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Links commands to calls by (process, correlation), resolves waits and syncs, numbers streams and
 * hosts. The builder is gone afterwards, on failure too: ORR_NO_MEMORY. */
enum orr_status orr__builder_finish(struct orr__builder **builder,
                                    struct orr_timeline **out_timeline) ORR_MUST_CHECK;

#endif
