/* What the tests of trace/ share: memory that fails on request, folders, random records, SQL.
 *
 *     struct trace_memory memory;
 *     trace_memory_init(&memory, 7);         // the 7th allocation fails
 *     ... use &memory.table ...
 *     assert_int_equal(memory.live, 0);      // nothing leaked
 *
 * Threads: one, except that a trace's writer thread may run meanwhile. */
#ifndef ORR_TESTS_TRACE_SUPPORT_H
#define ORR_TESTS_TRACE_SUPPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/names.h"
#include "runtime/record.h"
#include "runtime/record_memory.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline.h"

struct trace_memory {
    struct orr_memory table;
    size_t requests; /* allocations and growths asked for so far */
    size_t fail_at;  /* this one fails (and those after it); 0: none */
    size_t live;     /* blocks not freed */
};

void trace_memory_init(struct trace_memory *memory, size_t fail_at);

/* What most cases start from: memory that is checked for leaks, names, a folder of its own. */
struct trace_fixture {
    struct trace_memory memory;
    struct orr_names *names;
    struct orr_error error;
    char folder[PATH_MAX], path[PATH_MAX]; /* path: FOLDER/run.db, not there yet */
};

int trace_set_up(void **state);
int trace_tear_down(void **state);

/* These fail the test with the error's text when they can't do what they say. */
struct orr_sink *trace_open_sink(struct trace_fixture *f, const char *path,
                                 enum orr_sqlite_mode mode);
void trace_close_sink(struct trace_fixture *f, struct orr_sink *sink);
struct orr_timeline *trace_read(struct trace_fixture *f, const char *path);

/* Is there a file PATH followed by SUFFIX? */
bool trace_exists(const char *path, const char *suffix);

/* xorshift64*; *state is not 0. */
uint64_t trace_random(uint64_t *state);

/* The seed of this process's random tests: ORR_TEST_SEED, or 1. Prints it once. */
uint64_t trace_seed(void);

/* A new folder, and its end with all files in it. `path` has PATH_MAX bytes. */
void trace_folder_create(char *path);
void trace_folder_remove(const char *path);

/* "FOLDER/NAME" in a buffer of PATH_MAX bytes. */
const char *trace_path(char *buffer, const char *folder, const char *name);

/* Writes records of every kind, `commands` commands among them, in an order and with values drawn
 * from `seed`; extreme values are frequent. Ids are dense. */
void trace_write_random(struct orr_sink *sink, struct orr_names *names, uint64_t seed,
                        uint64_t commands);

/* Pushes every record of a store into a sink. */
void trace_copy(const struct orr_record_memory *store, struct orr_sink *sink);

/* Writes commands `first` to `last` with plain values: kernel "work" on stream id % 4. */
void trace_write_commands(struct orr_sink *sink, uint64_t first, uint64_t last);

/* The whole file; freed by the caller. Fails the test when it can't be read. */
unsigned char *trace_read_file(const char *path, size_t *out_size);
void trace_write_file(const char *path, const void *bytes, size_t size);

/* Result of a query with one integer, or one text (freed by the caller). Fails the test on
 * errors. */
int64_t trace_query_int(const char *path, const char *sql);
char *trace_query_text(const char *path, const char *sql);

/* Runs SQL that changes a database. */
void trace_execute(const char *path, const char *sql);

#endif
