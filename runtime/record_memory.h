/* Sinks that need no file: one keeps every record in memory, one throws them away.
 *
 * The first is for tests, for checks that run beside a program, and for measuring what a record
 * costs; the second for runs without a trace that must still go through the writer.
 *
 *     struct orr_record_memory *store;
 *     if (orr_record_memory_create(&memory, &store) != ORR_OK) ...
 *     run_something(orr_record_memory_sink(store));
 *     struct orr_record_cursor cursor = {0};
 *     const struct orr_record *record;
 *     while ((record = orr_record_memory_next(store, &cursor)) != NULL)
 *         if (record->kind == ORR_RECORD_COMMAND) use((const void *)record);
 *     orr_record_memory_destroy(&store);
 *
 * Caveat: records hold ids of names, and the names belong to the runtime that wrote the records.
 * Read texts before that runtime is destroyed.
 *
 * Threads: a store belongs to the thread that writes its records. */
#ifndef ORR_RUNTIME_RECORD_MEMORY_H
#define ORR_RUNTIME_RECORD_MEMORY_H

#include "runtime/memory.h"
#include "runtime/record.h"

struct orr_record_memory;

/* Position of the next record; all zero is the beginning. */
struct orr_record_cursor {
    const void *chunk;
    size_t word;
};

/* Creates an empty store, owned by the caller. `memory` is borrowed until destroy. */
enum orr_status orr_record_memory_create(const struct orr_memory *memory,
                                         struct orr_record_memory **out_store) ORR_MUST_CHECK;

/* Frees the store and its records, and nulls; accepts a NULL store. */
void orr_record_memory_destroy(struct orr_record_memory **store);

/* The door for a runtime, borrowed until destroy. Its `close` keeps the records and only notes the
 * status; flush and close return ORR_NO_MEMORY if records had to be dropped for lack of memory. */
struct orr_sink *orr_record_memory_sink(struct orr_record_memory *store);

/* The next record in the order of writing, or NULL at the end. Records stay where they are until
 * the store is destroyed, so a cursor at the end sees records that are written later. */
const struct orr_record *orr_record_memory_next(const struct orr_record_memory *store,
                                                struct orr_record_cursor *cursor);

/* Number of records of one kind; 0 counts all kinds. Walks all records. */
size_t orr_record_memory_count(const struct orr_record_memory *store, enum orr_record_kind kind);

/* Records dropped for lack of memory. */
size_t orr_record_memory_dropped(const struct orr_record_memory *store);

/* The text that `close` was called with, "" before that. Borrowed until destroy. */
const char *orr_record_memory_status(const struct orr_record_memory *store);

/* A sink that discards every record. Freed by its own `close`. `memory` is borrowed until then. */
enum orr_status orr_null_sink_create(const struct orr_memory *memory,
                                     struct orr_sink **out_sink) ORR_MUST_CHECK;

/* Number of records in `words` words written one after another. */
size_t orr_record_walk_count(const uint64_t *words, size_t word_count);

#endif
