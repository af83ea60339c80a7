/* Chunks of records into transactions.
 *
 *     writer.cursor --> current chunk --refill--> ring --> drain: names, rows, COMMIT; BEGIN
 *
 * Between transactions a BEGIN IMMEDIATE stays open: it holds the lock that keeps other writers out
 * and lets readers in, and tells readers that the journal of a transaction in progress is not that
 * of a dead process. */
#include "trace/sqlite_sink.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "trace/ring.h"
#include "trace/sqlite_file.h"
#include "trace/sqlite_rows.h"

enum {
    CHUNK_BYTES_DEFAULT = 256 << 10, /* larger ones are 5 % faster, and lose more when killed */
    CHUNK_BYTES_MIN = 64 << 10,
    CHUNK_COUNT_DEFAULT = 16,
    CHUNK_COUNT_DROP = 128,
    FIRST_WORDS = 1024, /* of the first transaction; each may be twice the one before it */
    BUSY_MS_DEFAULT = 60000,
    SCRATCH_WORDS = 4096 /* dropped at a time while the ring is full */
};

struct sqlite_sink {
    struct orr_sink sink; /* first: the writer's address is the sink's */
    const struct orr_memory *memory;
    enum orr_sqlite_mode mode;
    struct orr_ring *ring;
    struct orr_ring_chunk *chunk;         /* the writer's; NULL while it is in `scratch` */
    size_t chunk_words;                   /* to be filled of the next chunk */
    uint64_t lost[ORR_RECORD_KIND_COUNT]; /* records that found the ring full; 0: all kinds */

    /* From here on the consumer's: the writer thread's, if there is one. */
    sqlite3 *db;
    struct orr__rows *rows;
    sqlite3_stmt *insert_text, *set_meta, *begin, *commit;
    uint32_t names_written;
    uint64_t dropped_written;
    uint64_t failed[ORR_RECORD_KIND_COUNT]; /* records that could not be written; 0: all kinds */
    bool broken;
    struct orr_error error; /* the first failure */

    bool threaded;
    pthread_t thread;
    char *path; /* for messages */
    uint64_t scratch[SCRATCH_WORDS];
};

static struct sqlite_sink *sink_of(struct orr_record_writer *writer) {
    return (struct sqlite_sink *)(void *)writer;
}

static void count_records(const uint64_t *words, size_t word_count, uint64_t *counts) {
    for (size_t word = 0; word < word_count;) {
        const struct orr_record *record = (const void *)(words + word);
        assert(record->kind > 0 && record->kind < ORR_RECORD_KIND_COUNT && record->words > 0);
        counts[record->kind]++;
        counts[0]++;
        word += record->words;
    }
}

/* -- The consumer's side ----------------------------------------------------------------------- */

static int step(sqlite3_stmt *statement) {
    sqlite3_step(statement);
    return sqlite3_reset(statement);
}

static int write_meta(struct sqlite_sink *sink, const char *key, const char *value) {
    sqlite3_bind_text(sink->set_meta, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(sink->set_meta, 2, value, -1, SQLITE_STATIC);
    int code = step(sink->set_meta);
    sqlite3_clear_bindings(sink->set_meta);
    return code;
}

static int write_meta_count(struct sqlite_sink *sink, const char *key, uint64_t count) {
    char value[24];
    snprintf(value, sizeof value, "%llu", (unsigned long long)count);
    return write_meta(sink, key, value);
}

static int write_names(struct sqlite_sink *sink, uint32_t count) {
    int code = SQLITE_OK;
    uint32_t id = sink->names_written > 0 ? sink->names_written : 1; /* 0 is the absent text */
    for (; id < count && code == SQLITE_OK; id++) {
        const char *text = orr_names_text(sink->sink.names, id);
        sqlite3_bind_int64(sink->insert_text, 1, id);
        sqlite3_bind_text(sink->insert_text, 2, text, -1, SQLITE_STATIC);
        code = step(sink->insert_text);
    }
    sqlite3_clear_bindings(sink->insert_text);
    return code;
}

static int write_chunk(struct sqlite_sink *sink, const struct orr_ring_chunk *chunk) {
    int code = sqlite3_get_autocommit(sink->db) ? step(sink->begin) : SQLITE_OK;
    if (code == SQLITE_OK)
        code = write_names(sink, chunk->names_count);
    if (code == SQLITE_OK)
        code = orr__rows_insert(sink->rows, sink->sink.names, chunk->words, chunk->used);
    if (code == SQLITE_OK && chunk->dropped != sink->dropped_written)
        code = write_meta_count(sink, "dropped", chunk->dropped);
    if (code == SQLITE_OK)
        code = step(sink->commit);
    return code;
}

/* The first failure ends the trace: what was committed stays, what comes is counted. */
static void break_trace(struct sqlite_sink *sink, int code) {
    sink->broken = true;
    orr__sqlite_error(&sink->error, sink->db, code, sink->path, "cannot write the trace");
    if (!sqlite3_get_autocommit(sink->db))
        sqlite3_exec(sink->db, "ROLLBACK", NULL, NULL, NULL);
}

static void drain(struct sqlite_sink *sink, const struct orr_ring_chunk *chunk) {
    int code = SQLITE_OK;
    if (!sink->broken && (chunk->used > 0 || chunk->dropped != sink->dropped_written)) {
        code = write_chunk(sink, chunk);
        if (code == SQLITE_OK) {
            sink->names_written = chunk->names_count;
            sink->dropped_written = chunk->dropped;
            code = step(sink->begin);
        } else {
            break_trace(sink, code);
        }
    }
    if (sink->broken)
        count_records(chunk->words, chunk->used, sink->failed);
    else if (code != SQLITE_OK) /* this chunk is safe, the next one has no transaction */
        break_trace(sink, code);
}

static void *run_thread(void *context) {
    struct sqlite_sink *sink = context;
    while (orr_ring_wait_readable(sink->ring)) {
        drain(sink, orr_ring_readable(sink->ring));
        orr_ring_release(sink->ring);
    }
    return NULL;
}

/* -- The producer's side ----------------------------------------------------------------------- */

/* Hands over what has been written since the last time. */
static void hand_over(struct sqlite_sink *sink) {
    struct orr_record_writer *writer = &sink->sink.writer;
    if (!sink->chunk) {
        count_records(sink->scratch, (size_t)(writer->cursor - sink->scratch), sink->lost);
        writer->cursor = sink->scratch;
        return;
    }
    sink->chunk->used = (size_t)(writer->cursor - sink->chunk->words);
    sink->chunk->names_count = sink->sink.names ? orr_names_count(sink->sink.names) : 0;
    sink->chunk->dropped = sink->lost[0];
    orr_ring_publish(sink->ring);
    if (!sink->threaded) {
        drain(sink, orr_ring_readable(sink->ring));
        orr_ring_release(sink->ring);
    }
}

/* The first chunks are filled in part only, so that a run which is killed early, or hangs, leaves
 * more than an empty trace. */
static void take_chunk(struct sqlite_sink *sink) {
    struct orr_record_writer *writer = &sink->sink.writer;
    sink->chunk = orr_ring_writable(sink->ring);
    if (!sink->chunk) {
        writer->cursor = sink->scratch;
        writer->limit = sink->scratch + SCRATCH_WORDS;
        return;
    }
    size_t words =
        sink->chunk_words < sink->chunk->capacity ? sink->chunk_words : sink->chunk->capacity;
    writer->cursor = sink->chunk->words;
    writer->limit = sink->chunk->words + words;
}

static void refill(struct orr_record_writer *writer, size_t words) {
    struct sqlite_sink *sink = sink_of(writer);
    assert(words <= FIRST_WORDS);
    (void)words;
    hand_over(sink);
    if (sink->mode == ORR_SQLITE_WAIT)
        orr_ring_wait_writable(sink->ring);
    if (sink->chunk && sink->chunk_words < sink->chunk->capacity)
        sink->chunk_words *= 2;
    take_chunk(sink);
}

/* Everything written so far is committed afterwards, or the trace is broken. */
static void settle(struct sqlite_sink *sink) {
    if (!sink->chunk) { /* in scratch: nothing to hand over yet but the count */
        hand_over(sink);
        orr_ring_wait_released(sink->ring);
        take_chunk(sink);
    }
    hand_over(sink);
    if (sink->threaded)
        orr_ring_wait_released(sink->ring);
    take_chunk(sink);
}

static enum orr_status report(const struct sqlite_sink *sink, struct orr_error *error) {
    if (!sink->broken)
        return ORR_OK;
    return orr_error_set(error, sink->error.status, "%s", sink->error.text);
}

static enum orr_status flush(struct orr_sink *base, struct orr_error *error) {
    struct sqlite_sink *sink = sink_of(&base->writer);
    settle(sink);
    return report(sink, error);
}

static void stop_thread(struct sqlite_sink *sink) {
    if (!sink->threaded)
        return;
    orr_ring_stop(sink->ring);
    pthread_join(sink->thread, NULL);
    sink->threaded = false;
}

/* Meta 'dropped', and how it splits by kind of record. */
static int write_dropped(struct sqlite_sink *sink) {
    static const char *const keys[ORR_RECORD_KIND_COUNT] = {
        [0] = "dropped",
        [ORR_RECORD_META] = "dropped_meta",
        [ORR_RECORD_DEVICE] = "dropped_device",
        [ORR_RECORD_PEAK] = "dropped_device_peak",
        [ORR_RECORD_STREAM] = "dropped_stream",
        [ORR_RECORD_HOST] = "dropped_host",
        [ORR_RECORD_OP] = "dropped_op",
        [ORR_RECORD_COMMAND] = "dropped_cmd",
        [ORR_RECORD_EDGE] = "dropped_edge",
        [ORR_RECORD_SYNC] = "dropped_sync",
        [ORR_RECORD_BUFFER] = "dropped_buffer",
        [ORR_RECORD_BUFFER_FREE] = "dropped_buffer_free",
        [ORR_RECORD_BUFFER_ROLE] = "dropped_buffer_role",
        [ORR_RECORD_ACCESS] = "dropped_access",
        [ORR_RECORD_COMMUNICATOR] = "dropped_communicator",
        [ORR_RECORD_MEMBER] = "dropped_communicator_member",
        [ORR_RECORD_COLLECTIVE] = "dropped_collective",
        [ORR_RECORD_COLLECTIVE_MEMBER] = "dropped_collective_member",
        [ORR_RECORD_COUNTER] = "dropped_counter",
        [ORR_RECORD_FINDING] = "dropped_finding",
    };
    int code = SQLITE_OK;
    for (int kind = 0; kind < ORR_RECORD_KIND_COUNT && code == SQLITE_OK; kind++) {
        uint64_t count = sink->lost[kind] + sink->failed[kind];
        if (count > 0)
            code = write_meta_count(sink, keys[kind], count);
    }
    return code;
}

/* The last transaction. In a broken trace it is worth a try, too: the disk may have room for it. */
static int write_end(struct sqlite_sink *sink, const char *status) {
    int code = sqlite3_get_autocommit(sink->db) ? step(sink->begin) : SQLITE_OK;
    if (code == SQLITE_OK)
        code = write_dropped(sink);
    if (code == SQLITE_OK)
        code = write_meta(sink, "status", status);
    if (code == SQLITE_OK)
        code = step(sink->commit);
    if (code == SQLITE_OK)
        code = sqlite3_exec(sink->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    return code;
}

static void destroy(struct sqlite_sink *sink) {
    const struct orr_memory *memory = sink->memory;
    stop_thread(sink);
    orr_ring_destroy(&sink->ring);
    orr__rows_destroy(&sink->rows);
    sqlite3_finalize(sink->insert_text);
    sqlite3_finalize(sink->set_meta);
    sqlite3_finalize(sink->begin);
    sqlite3_finalize(sink->commit);
    sqlite3_close(sink->db);
    orr_memory_free(memory, sink->path);
    orr_memory_free(memory, sink);
}

static enum orr_status close_sink(struct orr_sink *base, const char *status,
                                  struct orr_error *error) {
    struct sqlite_sink *sink = sink_of(&base->writer);
    settle(sink);
    stop_thread(sink);
    int code = write_end(sink, status);
    if (code != SQLITE_OK && !sink->broken)
        break_trace(sink, code);
    enum orr_status result = report(sink, error);
    destroy(sink);
    return result;
}

/* -- Opening ----------------------------------------------------------------------------------- */

/* Signals are for the threads of the program, not for this one. */
static enum orr_status start_thread(struct sqlite_sink *sink, struct orr_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&sink->thread, NULL, run_thread, sink);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sink->threaded = failure == 0;
    if (failure == 0)
        return ORR_OK;
    return orr_error_set(error, ORR_NO_MEMORY, "%s: cannot start the thread that writes the trace",
                         sink->path);
}

static enum orr_status prepare(struct sqlite_sink *sink, struct orr_error *error) {
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {
        {&sink->insert_text, "INSERT INTO text VALUES (?, ?)"},
        {&sink->set_meta, "INSERT OR REPLACE INTO meta VALUES (?, ?)"},
        {&sink->begin, "BEGIN IMMEDIATE"},
        {&sink->commit, "COMMIT"},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        int code = sqlite3_prepare_v3(sink->db, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      statements[i].statement, NULL);
        if (code != SQLITE_OK)
            return orr__sqlite_error(error, sink->db, code, sink->path, "cannot create the trace");
    }
    int code = step(sink->begin);
    if (code != SQLITE_OK)
        return orr__sqlite_error(error, sink->db, code, sink->path, "cannot create the trace");
    return ORR_OK;
}

static enum orr_status set_up(struct sqlite_sink *sink, const char *path,
                              const struct orr_sqlite_options *options, struct orr_error *error) {
    size_t chunk_bytes = options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES_DEFAULT;
    size_t chunk_words =
        (chunk_bytes > CHUNK_BYTES_MIN ? chunk_bytes : CHUNK_BYTES_MIN) / sizeof(uint64_t);
    size_t chunk_count = options->chunk_count;
    if (chunk_count == 0)
        chunk_count = sink->mode == ORR_SQLITE_DROP ? CHUNK_COUNT_DROP : CHUNK_COUNT_DEFAULT;
    if (sink->mode == ORR_SQLITE_INLINE)
        chunk_count = 1;
    sink->path = orr_memory_text(sink->memory, path, strlen(path));
    if (!sink->path ||
        orr_ring_create(sink->memory, chunk_count, chunk_words, &sink->ring) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "%s: no memory for a trace", path);
    take_chunk(sink);
    enum orr_status status =
        orr__sqlite_create(path, options->vfs,
                           options->busy_ms ? options->busy_ms : BUSY_MS_DEFAULT, &sink->db, error);
    if (status == ORR_OK)
        status = orr__rows_create(sink->memory, sink->db, chunk_words, &sink->rows, error);
    if (status == ORR_OK)
        status = prepare(sink, error);
    if (status == ORR_OK && sink->mode != ORR_SQLITE_INLINE)
        status = start_thread(sink, error);
    return status;
}

enum orr_status orr_sqlite_sink_open(const char *path, const struct orr_sqlite_options *options,
                                     const struct orr_memory *memory, struct orr_sink **out_sink,
                                     struct orr_error *error) {
    static const struct orr_sqlite_options defaults = {0};
    *out_sink = NULL;
    struct sqlite_sink *sink = orr_memory_alloc(memory, sizeof *sink);
    if (!sink)
        return orr_error_set(error, ORR_NO_MEMORY, "%s: no memory for a trace", path);
    if (!options)
        options = &defaults;
    sink->memory = memory;
    sink->mode = options->mode;
    sink->chunk_words = FIRST_WORDS;
    sink->sink = (struct orr_sink){.writer.refill = refill, .flush = flush, .close = close_sink};
    enum orr_status status = set_up(sink, path, options, error);
    if (status == ORR_OK) {
        *out_sink = &sink->sink;
        return ORR_OK;
    }
    bool created = sink->db != NULL;
    destroy(sink);
    if (created)
        orr__sqlite_remove(path);
    return status;
}
