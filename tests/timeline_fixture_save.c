#include "tests/timeline_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);"
    "CREATE TABLE device(id INTEGER PRIMARY KEY, name, kind, physical, profile, mem_bytes);"
    "CREATE TABLE stream(id INTEGER PRIMARY KEY, device, name, kind, sync);"
    "CREATE TABLE host(id INTEGER PRIMARY KEY, name);"
    "CREATE TABLE op(id INTEGER PRIMARY KEY, parent, name, kind, site, flops, bytes_read,"
    " bytes_written, dtype, shape);"
    "CREATE TABLE cmd(id INTEGER PRIMARY KEY, op, host, device, stream, seq, kind, name, event,"
    " site, status, enqueue_ns, enqueued_ns, ready_ns, start_ns, finish_ns, flops, bytes_read,"
    " bytes_written, dtype, ts_source);"
    "CREATE TABLE edge(src, dst, kind);"
    "CREATE TABLE sync(id INTEGER PRIMARY KEY, host, kind, target, begin_ns, end_ns, cmd);"
    "CREATE TABLE communicator(id INTEGER PRIMARY KEY, name);"
    "CREATE TABLE collective(id INTEGER PRIMARY KEY, communicator, seq, kind, bytes, dtype, root,"
    " peer, algorithm, protocol, emulated, modelled_ns);"
    "CREATE TABLE collective_member(collective, rank, cmd);"
    "CREATE TABLE counter(device, name, ts_ns, value);"
    "CREATE TABLE finding(id INTEGER PRIMARY KEY, kind, severity, cmd_a, cmd_b, buffer, message,"
    " fix);"
    "BEGIN;";

struct save {
    sqlite3 *db;
    sqlite3_stmt *insert;
    int column;
};

static void must(struct save *save, int result, int expected) {
    if (result != expected) {
        fprintf(stderr, "timeline_fixture: SQLite: %s\n", sqlite3_errmsg(save->db));
        abort();
    }
}

static void begin(struct save *save, const char *sql) {
    must(save, sqlite3_prepare_v2(save->db, sql, -1, &save->insert, NULL), SQLITE_OK);
}

static void end(struct save *save) {
    sqlite3_finalize(save->insert);
    save->insert = NULL;
}

/* These bind the next column; an absent value stays NULL. */
static void present_text(struct save *save, const char *value) {
    must(save, sqlite3_bind_text(save->insert, ++save->column, value, -1, SQLITE_STATIC),
         SQLITE_OK);
}

static void text(struct save *save, const char *value) {
    if (value[0] != '\0') {
        present_text(save, value);
    } else {
        save->column++;
    }
}

static void integer(struct save *save, int64_t value) {
    must(save, sqlite3_bind_int64(save->insert, ++save->column, value), SQLITE_OK);
}

static void time_ns(struct save *save, int64_t value) {
    if (value == ORR_TIME_NONE) {
        save->column++;
    } else {
        integer(save, value);
    }
}

/* A count or an id for which 0 means absent; what int64 can't hold is kept as text. */
static void count(struct save *save, uint64_t value) {
    if (value == 0) {
        save->column++;
    } else if (value <= INT64_MAX) {
        integer(save, (int64_t)value);
    } else {
        char digits[32];
        int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
        must(save,
             sqlite3_bind_text(save->insert, ++save->column, digits, length, SQLITE_TRANSIENT),
             SQLITE_OK);
    }
}

static void small_id(struct save *save, uint32_t value) {
    if (value == ORR_ID_NONE) {
        save->column++;
    } else {
        integer(save, value);
    }
}

static void dtype(struct save *save, enum orr_dtype value) {
    text(save, value == ORR_DTYPE_NONE ? "" : orr_dtype_name(value));
}

static void row(struct save *save) {
    must(save, sqlite3_step(save->insert), SQLITE_DONE);
    sqlite3_reset(save->insert);
    sqlite3_clear_bindings(save->insert);
    save->column = 0;
}

static void save_machine(struct save *save, const struct orr_timeline *t) {
    begin(save, "INSERT INTO meta VALUES(?,?)");
    for (size_t i = 0; i < t->meta_count; i++) {
        present_text(save, t->meta[i].key);
        present_text(save, t->meta[i].value);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO device VALUES(?,?,?,?,?,?)");
    for (size_t i = 0; i < t->device_count; i++) {
        integer(save, t->devices[i].id);
        text(save, t->devices[i].name);
        text(save, t->devices[i].kind);
        integer(save, t->devices[i].physical);
        text(save, t->devices[i].profile);
        count(save, t->devices[i].mem_bytes);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO stream VALUES(?,?,?,?,?)");
    for (size_t i = 0; i < t->stream_count; i++) {
        integer(save, t->streams[i].id);
        integer(save, t->streams[i].device);
        text(save, t->streams[i].name);
        text(save, orr_stream_kind_text(t->streams[i].kind));
        text(save, orr_stream_sync_text(t->streams[i].sync));
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO host VALUES(?,?)");
    for (size_t i = 0; i < t->host_count; i++) {
        integer(save, t->hosts[i].id);
        text(save, t->hosts[i].name);
        row(save);
    }
    end(save);
}

static void save_commands(struct save *save, const struct orr_timeline *t) {
    begin(save, "INSERT INTO op VALUES(?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < t->op_count; i++) {
        const struct orr_timeline_op *op = &t->ops[i];
        count(save, op->id);
        count(save, op->parent);
        text(save, op->name);
        text(save, op->kind);
        text(save, op->site);
        count(save, op->flops);
        count(save, op->bytes_read);
        count(save, op->bytes_written);
        dtype(save, op->dtype);
        text(save, op->shape);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO cmd VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < t->command_count; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        count(save, c->id);
        count(save, c->op);
        small_id(save, c->host);
        small_id(save, c->device);
        small_id(save, c->stream);
        count(save, c->seq);
        text(save, orr_command_kind_text(c->kind));
        text(save, c->name);
        text(save, c->event);
        text(save, c->site);
        text(save, orr_command_status_text(c->status));
        time_ns(save, c->enqueue_ns);
        time_ns(save, c->enqueued_ns);
        time_ns(save, c->ready_ns);
        time_ns(save, c->start_ns);
        time_ns(save, c->finish_ns);
        count(save, c->flops);
        count(save, c->bytes_read);
        count(save, c->bytes_written);
        dtype(save, c->dtype);
        text(save, c->ts_source);
        row(save);
    }
    end(save);
}

static void save_relations(struct save *save, const struct orr_timeline *t) {
    begin(save, "INSERT INTO edge VALUES(?,?,?)");
    for (size_t i = 0; i < t->edge_count; i++) {
        count(save, t->edges[i].src);
        count(save, t->edges[i].dst);
        text(save, orr_edge_kind_text(t->edges[i].kind));
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO sync VALUES(?,?,?,?,?,?,?)");
    for (size_t i = 0; i < t->sync_count; i++) {
        const struct orr_timeline_sync *sync = &t->syncs[i];
        count(save, sync->id);
        small_id(save, sync->host);
        text(save, orr_sync_kind_text(sync->kind));
        text(save, sync->target);
        time_ns(save, sync->begin_ns);
        time_ns(save, sync->end_ns);
        count(save, sync->cmd);
        row(save);
    }
    end(save);
}

static void save_collectives(struct save *save, const struct orr_timeline *t) {
    begin(save, "INSERT INTO communicator VALUES(?,?)");
    for (size_t i = 0; i < t->communicator_count; i++) {
        integer(save, t->communicators[i].id);
        text(save, t->communicators[i].name);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO collective VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < t->collective_count; i++) {
        const struct orr_timeline_collective *collective = &t->collectives[i];
        count(save, collective->id);
        integer(save, collective->communicator);
        integer(save, (int64_t)collective->seq);
        text(save, collective->kind);
        count(save, collective->bytes);
        dtype(save, collective->dtype);
        small_id(save, collective->root);
        small_id(save, collective->peer);
        text(save, collective->algorithm);
        text(save, collective->protocol);
        integer(save, collective->emulated);
        time_ns(save, collective->modelled_ns);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO collective_member VALUES(?,?,?)");
    for (size_t i = 0; i < t->collective_member_count; i++) {
        count(save, t->collective_members[i].collective);
        integer(save, t->collective_members[i].rank);
        count(save, t->collective_members[i].cmd);
        row(save);
    }
    end(save);
}

static void save_observations(struct save *save, const struct orr_timeline *t) {
    begin(save, "INSERT INTO counter VALUES(?,?,?,?)");
    for (size_t i = 0; i < t->counter_count; i++) {
        integer(save, t->counters[i].device);
        text(save, t->counters[i].name);
        integer(save, t->counters[i].ts_ns);
        must(save, sqlite3_bind_double(save->insert, ++save->column, t->counters[i].value),
             SQLITE_OK);
        row(save);
    }
    end(save);
    begin(save, "INSERT INTO finding VALUES(?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < t->finding_count; i++) {
        const struct orr_timeline_finding *finding = &t->findings[i];
        count(save, finding->id);
        text(save, finding->kind);
        text(save, finding->severity);
        count(save, finding->cmd_a);
        count(save, finding->cmd_b);
        count(save, finding->buffer);
        text(save, finding->message);
        text(save, finding->fix);
        row(save);
    }
    end(save);
}

void fixture_save(struct fixture *fixture, const char *path) {
    const struct orr_timeline *timeline = fixture_timeline(fixture);
    struct save save = {0};
    unlink(path);
    must(&save, sqlite3_open(path, &save.db), SQLITE_OK);
    must(&save, sqlite3_exec(save.db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", 0, 0, 0),
         SQLITE_OK);
    must(&save, sqlite3_exec(save.db, schema, NULL, NULL, NULL), SQLITE_OK);
    save_machine(&save, timeline);
    save_commands(&save, timeline);
    save_relations(&save, timeline);
    save_collectives(&save, timeline);
    save_observations(&save, timeline);
    must(&save, sqlite3_exec(save.db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(save.db);
}
