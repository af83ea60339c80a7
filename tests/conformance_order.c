/* Conformance: what is ordered and what is not (contract points 1 to 3; races.md rules 1, 6, 8 to
 * 12, 14 and 15 as far as the seam can show them). */
#include "tests/conformance.h"

#include <string.h>

/* ---- one stream --------------------------------------------------------------------------- */

static void a_stream_runs_its_commands_in_order(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    uint64_t expected = 0;
    struct orr_point last = {0};
    for (int64_t i = 0; i < 300; i++) {
        struct job *job = conformance_job(f, JOB_MIX);
        job->value = i;
        conformance_writes(job, memory, cells, 0);
        last = conformance_submit(f, s, job, NULL, 0);
        expected = expected * 3 + (uint64_t)i; /* modulo 2^64, in which 3 has an inverse */
    }
    conformance_wait(f, last);
    check(f, (uint64_t)cells[0] == expected);
    conformance_close(f);
}

static void a_command_starts_after_the_finish_of_the_one_before(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point points[64];
    for (int i = 0; i < 64; i++)
        points[i] = i % 3 == 2 ? conformance_kind(f, s, ORR_COMMAND_MARKER, NULL, 0)
                               : conformance_quick(f, s, NULL, 0);
    conformance_wait(f, points[63]);
    for (int i = 1; i < 64; i++)
        check(f, conformance_record(f, points[i])->start_ns >=
                     conformance_record(f, points[i - 1])->finish_ns);
    conformance_close(f);
}

static void sequence_numbers_count_from_one_in_each_stream(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[2] = {conformance_stream(f, 0), conformance_stream(f, 1)};
    struct orr_point last[2] = {{0}, {0}};
    for (uint64_t i = 1; i <= 20; i++) {
        for (int k = 0; k < 2; k++) {
            last[k] = conformance_kind(f, s[k], ORR_COMMAND_MARKER, NULL, 0);
            check(f, last[k].stream == s[k] && last[k].seq == i);
        }
    }
    conformance_wait(f, last[0]);
    conformance_wait(f, last[1]);
    check(f, conformance_record(f, last[1])->seq == 20);
    conformance_close(f);
}

static void a_long_stream_wraps_around_its_queue_many_times(struct fixture *f) {
    f->depth = 8;
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    uint64_t expected = 0;
    for (int64_t i = 0; i < 1000; i++) {
        struct job *job = conformance_job(f, JOB_MIX);
        job->value = i;
        conformance_writes(job, memory, cells, 1);
        struct orr_point point;
        while (conformance_try_submit(f, s, job, NULL, 0, &point) == ORR_FULL)
            conformance_wait(f, point);
        check(f, f->outcomes[job->id].submitted);
        expected = expected * 3 + (uint64_t)i;
    }
    conformance_wait(f, (struct orr_point){.stream = s, .seq = 1000});
    check(f, (uint64_t)cells[1] == expected);
    conformance_close(f);
}

/* ---- several streams ---------------------------------------------------------------------- */

static void streams_are_not_ordered_without_a_wait(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, a, NULL, 0);
    struct orr_point quick = conformance_quick(f, b, NULL, 0);
    conformance_wait(f, quick);
    check(f, conformance_query(f, slow) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, slow);
    check(f, conformance_record(f, quick)->finish_ns <= conformance_record(f, slow)->finish_ns);
    conformance_close(f);
}

/* Device `to` copies what device `from` writes slowly. */
static void produce_and_consume(struct fixture *f, uint32_t from, uint32_t to) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, from), b = conformance_stream(f, to), memory, other;
    int64_t *cells = conformance_cells(f, from, &memory);
    int64_t *result = conformance_cells(f, to, &other);
    struct job *produce = conformance_job(f, JOB_STORE), *consume = conformance_job(f, JOB_COPY);
    produce->slow = true;
    produce->value = 7;
    conformance_writes(produce, memory, cells, 3);
    conformance_reads(consume, memory, cells, 3);
    conformance_writes(consume, other, result, 0);
    struct orr_point produced = conformance_submit(f, a, produce, NULL, 0);
    struct orr_point consumed = conformance_submit(f, b, consume, &produced, 1);
    check(f, conformance_query(f, consumed) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, consumed);
    check(f, result[0] == 7);
    check(f, conformance_query(f, produced) == ORR_OK);
    check(f,
          conformance_record(f, consumed)->start_ns >= conformance_record(f, produced)->finish_ns);
    conformance_close(f);
}

static void a_wait_orders_a_consumer_after_its_producer(struct fixture *f) {
    produce_and_consume(f, 0, 0);
}

static void a_wait_orders_across_devices(struct fixture *f) {
    produce_and_consume(f, 1, 0);
}

static void a_wait_command_orders_all_later_work_of_its_stream(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    struct orr_point before = conformance_quick(f, b, NULL, 0);
    struct job *produce = conformance_job(f, JOB_STORE);
    produce->slow = true;
    produce->value = 11;
    conformance_writes(produce, memory, cells, 0);
    conformance_submit(f, a, produce, NULL, 0);
    struct orr_point recorded = conformance_kind(f, a, ORR_COMMAND_RECORD, NULL, 0);
    struct orr_point waited = conformance_kind(f, b, ORR_COMMAND_WAIT, &recorded, 1);
    struct orr_point last = {0};
    for (uint32_t i = 1; i <= 3; i++) {
        struct job *consume = conformance_job(f, JOB_COPY);
        conformance_reads(consume, memory, cells, 0);
        conformance_writes(consume, memory, cells, i);
        last = conformance_submit(f, b, consume, NULL, 0);
    }
    conformance_wait(f, before); /* what was enqueued before the wait is not held */
    check(f, conformance_query(f, waited) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, last);
    check(f, cells[1] == 11 && cells[2] == 11 && cells[3] == 11);
    int64_t recorded_ns = conformance_record(f, recorded)->finish_ns;
    check(f, conformance_record(f, waited)->finish_ns >= recorded_ns);
    check(f, conformance_record(f, last)->start_ns >= recorded_ns);
    conformance_close(f);
}

static void a_chain_of_ten_over_ten_streams_keeps_its_order(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    struct orr_point points[10];
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t s = conformance_stream(f, i % 2);
        struct job *job = conformance_job(f, i == 0 ? JOB_STORE : JOB_COPY);
        job->slow = i == 0;
        job->value = 42;
        if (i > 0)
            conformance_reads(job, memory, cells, i - 1);
        conformance_writes(job, memory, cells, i);
        points[i] = conformance_submit(f, s, job, i > 0 ? &points[i - 1] : NULL, i > 0);
    }
    check(f, conformance_query(f, points[9]) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, points[9]);
    check(f, cells[9] == 42);
    for (uint32_t i = 0; i < 10; i++)
        check(f, conformance_query(f, points[i]) == ORR_OK);
    for (uint32_t i = 1; i < 10; i++)
        check(f, conformance_record(f, points[i])->start_ns >=
                     conformance_record(f, points[i - 1])->finish_ns);
    conformance_close(f);
}

static void a_chain_that_jumps_to_and_fro_between_streams_ends(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[4], memory;
    for (uint32_t i = 0; i < 4; i++)
        s[i] = conformance_stream(f, i % 2);
    int64_t *cells = conformance_cells(f, ORR_ID_NONE, &memory);
    uint64_t expected = 0;
    struct orr_point last = {0};
    for (int64_t i = 0; i < 400; i++) {
        struct job *job = conformance_job(f, JOB_MIX);
        job->value = i;
        conformance_writes(job, memory, cells, 0);
        last = conformance_submit(f, s[i % 4], job, &last, i > 0);
        expected = expected * 3 + (uint64_t)i;
    }
    conformance_wait(f, last);
    check(f, (uint64_t)cells[0] == expected);
    conformance_close(f);
}

static void a_diamond_joins_both_branches(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1),
             c = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    struct job *top = conformance_job(f, JOB_STORE), *left = conformance_job(f, JOB_COPY),
               *right = conformance_job(f, JOB_COPY), *bottom = conformance_job(f, JOB_CHECK);
    top->value = 5;
    top->slow = right->slow = true;
    conformance_writes(top, memory, cells, 0);
    conformance_reads(left, memory, cells, 0);
    conformance_writes(left, memory, cells, 1);
    conformance_reads(right, memory, cells, 0);
    conformance_writes(right, memory, cells, 2);
    conformance_reads(bottom, memory, cells, 2);
    struct orr_point up = conformance_submit(f, a, top, NULL, 0), sides[2];
    sides[0] = conformance_submit(f, b, left, &up, 1);
    sides[1] = conformance_submit(f, c, right, &up, 1);
    struct orr_point down = conformance_submit(f, a, bottom, sides, 2);
    check(f, conformance_query(f, down) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, down);
    check(f, cells[1] == 5 && cells[2] == 5 && bottom->seen == 5);
    for (int i = 0; i < 2; i++) {
        int64_t side_ns = conformance_record(f, sides[i])->finish_ns;
        check(f, conformance_record(f, down)->start_ns >= side_ns);
        check(f, conformance_record(f, sides[i])->start_ns >= conformance_record(f, up)->finish_ns);
    }
    conformance_close(f);
}

static void a_command_may_wait_for_a_hundred_points(struct fixture *f) {
    conformance_open(f, 2);
    struct orr_point waits[100];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t s = conformance_stream(f, i % 2);
        for (int k = 0; k < 10; k++)
            waits[count++] =
                k == 9 ? conformance_slow(f, s, NULL, 0) : conformance_quick(f, s, NULL, 0);
    }
    uint32_t s = conformance_stream(f, 0);
    struct orr_point joined = conformance_quick(f, s, waits, count);
    check(f, conformance_query(f, joined) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, joined);
    for (uint32_t i = 0; i < count; i++) {
        check(f, conformance_query(f, waits[i]) == ORR_OK);
        check(f, conformance_record(f, joined)->start_ns >=
                     conformance_record(f, waits[i])->finish_ns);
    }
    conformance_close(f);
}

static void many_streams_may_wait_for_one_point(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0);
    struct orr_point produced = conformance_slow(f, a, NULL, 0), consumed[12];
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t s = conformance_stream(f, i % 2);
        consumed[i] = conformance_quick(f, s, &produced, 1);
    }
    conformance_open_gate(f);
    for (uint32_t i = 0; i < 12; i++) {
        conformance_wait(f, consumed[i]);
        check(f, conformance_record(f, consumed[i])->start_ns >=
                     conformance_record(f, produced)->finish_ns);
    }
    conformance_close(f);
}

/* ---- events are points -------------------------------------------------------------------- */

static void an_earlier_point_does_not_include_later_work(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    conformance_quick(f, a, NULL, 0);
    struct orr_point event = conformance_kind(f, a, ORR_COMMAND_RECORD, NULL, 0);
    struct orr_point later = conformance_slow(f, a, NULL, 0);
    struct orr_point consumed = conformance_quick(f, b, &event, 1);
    conformance_wait(f, consumed); /* would hang here if `event` meant the slow one too */
    check(f, conformance_query(f, later) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_close(f);
}

static void recording_again_leaves_earlier_waits_alone(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0),
             c = conformance_stream(f, 0);
    struct orr_point event = conformance_kind(f, a, ORR_COMMAND_RECORD, NULL, 0);
    struct orr_point first = event;
    struct orr_point early = conformance_quick(f, b, &event, 1);
    conformance_slow(f, a, NULL, 0);
    event = conformance_kind(f, a, ORR_COMMAND_RECORD, NULL, 0); /* the event moves on */
    struct orr_point late = conformance_quick(f, c, &event, 1);
    struct orr_point again = conformance_quick(f, b, &first, 1); /* the old point still counts */
    conformance_wait(f, early);
    conformance_wait(f, again);
    check(f, conformance_query(f, late) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, late);
    check(f, conformance_record(f, late)->start_ns >= conformance_record(f, event)->finish_ns);
    conformance_close(f);
}

static void a_point_of_nothing_is_always_reached(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, a, NULL, 0);
    struct orr_point nothing = {.stream = a, .seq = 0};
    check(f, conformance_query(f, nothing) == ORR_OK);
    conformance_wait(f, nothing);
    conformance_wait(f, conformance_quick(f, b, &nothing, 1));
    check(f, conformance_query(f, slow) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_close(f);
}

static void waiting_for_what_has_retired_changes_nothing(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point early = conformance_quick(f, a, NULL, 0);
    conformance_wait(f, early);
    conformance_slow(f, a, NULL, 0);
    struct orr_point waits[3] = {early, early, early};
    conformance_wait(f, conformance_quick(f, b, waits, 3));
    conformance_open_gate(f);
    conformance_close(f);
}

static void a_stream_may_wait_for_itself(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0);
    struct orr_point last = conformance_slow(f, a, NULL, 0);
    for (int i = 0; i < 5; i++) {
        struct orr_point waits[2] = {last, last};
        last = conformance_quick(f, a, waits, 2);
    }
    conformance_open_gate(f);
    conformance_wait(f, last);
    conformance_close(f);
}

static void points_of_a_destroyed_stream_stay_valid(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point event = conformance_slow(f, a, NULL, 0);
    struct orr_point before = conformance_quick(f, b, &event, 1);
    f->verbs->stream_destroy(f->backend, a);
    struct orr_point after = conformance_quick(f, b, &event, 1);
    check(f, conformance_query(f, event) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, before);
    conformance_wait(f, after);
    check(f, conformance_query(f, event) == ORR_OK);
    check(f, conformance_status(f, event) == ORR_COMMAND_STATUS_OK);
    check(f, conformance_stream(f, 0) == 2); /* the id is not given out again */
    conformance_close(f);
}

/* ---- the host ----------------------------------------------------------------------------- */

static void what_the_host_did_before_an_enqueue_is_seen(struct fixture *f) {
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    for (int64_t i = 1; i <= 50; i++) {
        struct job *job = conformance_job(f, JOB_CHECK);
        cells[0] = i; /* nothing is in flight */
        conformance_define(f, memory, 0, sizeof *cells);
        conformance_reads(job, memory, cells, 0);
        conformance_wait(f, conformance_submit(f, s, job, NULL, 0));
        check(f, job->seen == i);
    }
    conformance_close(f);
}

static void later_enqueues_inherit_what_the_host_has_waited_for(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 1), memory;
    int64_t *cells = conformance_cells(f, 0, &memory);
    for (int64_t i = 1; i <= 50; i++) {
        struct job *produce = conformance_job(f, JOB_STORE);
        struct job *consume = conformance_job(f, JOB_CHECK);
        produce->value = i;
        conformance_writes(produce, memory, cells, 0);
        conformance_reads(consume, memory, cells, 0);
        struct orr_point produced = conformance_submit(f, a, produce, NULL, 0);
        conformance_wait(f, produced);
        struct orr_point consumed = conformance_submit(f, b, consume, NULL, 0);
        conformance_wait(f, consumed);
        check(f, consume->seen == i);
        check(f, conformance_record(f, consumed)->start_ns >=
                     conformance_record(f, produced)->finish_ns);
    }
    conformance_close(f);
}

static void the_streams_of_one_device_do_not_wait_for_another_device(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t here[2] = {conformance_stream(f, 0), conformance_stream(f, 0)};
    uint32_t there = conformance_stream(f, 1);
    struct orr_point slow = conformance_slow(f, there, NULL, 0), points[2];
    for (int i = 0; i < 2; i++)
        points[i] = conformance_quick(f, here[i], NULL, 0);
    check(f, f->verbs->wait(f->backend, 0, points, 2, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error) ==
                 ORR_OK);
    check(f, conformance_query(f, slow) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_close(f);
}

/* ---- full queues -------------------------------------------------------------------------- */

/* Submits quick commands behind a slow one until the queue is full. */
static uint64_t fill_queue(struct fixture *f, uint32_t s, struct orr_point *out_room) {
    conformance_slow(f, s, NULL, 0);
    for (uint64_t accepted = 1; accepted < 100000; accepted++) {
        struct job *job = conformance_job(f, JOB_NOTHING);
        struct orr_point point;
        enum orr_status status = conformance_try_submit(f, s, job, NULL, 0, &point);
        if (status == ORR_FULL) {
            *out_room = point;
            return accepted;
        }
        check(f, status == ORR_OK && point.seq == accepted + 1);
    }
    conformance_fail(f, __FILE__, __LINE__, "the queue never gets full");
}

static void a_full_queue_gives_the_point_that_makes_room(struct fixture *f) {
    f->depth = 4;
    conformance_open(f, 1);
    uint32_t s = conformance_stream(f, 0);
    struct orr_point room;
    uint64_t accepted = fill_queue(f, s, &room);
    check(f, accepted >= 4 && accepted <= 5);
    check(f, room.stream == s && room.seq >= 1 && room.seq <= accepted);
    check(f, conformance_query(f, room) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, room);
    struct orr_point next = conformance_quick(f, s, NULL, 0);
    check(f, next.seq == accepted + 1); /* the refused one left no gap */
    conformance_wait(f, next);
    conformance_close(f);
}

static void a_full_queue_does_not_hold_other_streams(struct fixture *f) {
    f->depth = 4;
    conformance_open(f, 1);
    uint32_t a = conformance_stream(f, 0), b = conformance_stream(f, 0);
    struct orr_point room;
    fill_queue(f, a, &room);
    for (int i = 0; i < 20; i++)
        conformance_wait(f, conformance_quick(f, b, NULL, 0));
    check(f, conformance_query(f, room) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_close(f);
}

/* ---- random programs ---------------------------------------------------------------------- */

enum { RANDOM_STREAMS = 6, RANDOM_CELLS = 5, RANDOM_JOBS = 400 };

/* Who touched a cell last: the next writer waits for all of them, a reader for the writer. */
struct cell_history {
    struct orr_point writer, readers[RANDOM_STREAMS];
};

static uint32_t waits_for_cell(const struct cell_history *cell, bool writes,
                               struct orr_point *waits) {
    uint32_t count = 0;
    if (cell->writer.seq)
        waits[count++] = cell->writer;
    for (uint32_t i = 0; writes && i < RANDOM_STREAMS; i++)
        if (cell->readers[i].seq)
            waits[count++] = cell->readers[i];
    return count;
}

static void check_starts(struct fixture *f, struct orr_point point, const struct orr_point *waits,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        check(f,
              conformance_record(f, point)->start_ns >= conformance_record(f, waits[i])->finish_ns);
}

/* Jobs that mix or copy cells, each with the waits that its operands need: the result is that of
 * the same jobs one after another, whatever the threads do. */
static void a_random_program_with_its_waits_gives_the_sequential_result(struct fixture *f) {
    conformance_open(f, 3);
    uint32_t s[RANDOM_STREAMS], memory;
    for (uint32_t i = 0; i < RANDOM_STREAMS; i++)
        s[i] = conformance_stream(f, i % 3);
    int64_t *cells = conformance_cells(f, ORR_ID_NONE, &memory), model[RANDOM_CELLS] = {0};
    struct cell_history history[RANDOM_CELLS] = {{.writer = {0}}};
    static struct orr_point points[RANDOM_JOBS], waits[RANDOM_JOBS][2 * RANDOM_STREAMS + 2];
    static uint32_t counts[RANDOM_JOBS];
    for (uint32_t i = 0; i < RANDOM_JOBS; i++) {
        uint32_t k = conformance_draw(f, RANDOM_STREAMS), to = conformance_draw(f, RANDOM_CELLS);
        uint32_t from = conformance_draw(f, RANDOM_CELLS);
        bool copies = from != to && conformance_draw(f, 2);
        struct job *job = conformance_job(f, copies ? JOB_COPY : JOB_MIX);
        job->value = (int64_t)i;
        if (copies)
            conformance_reads(job, memory, cells, from);
        conformance_writes(job, memory, cells, to);
        uint32_t count = waits_for_cell(&history[to], true, waits[i]);
        if (copies)
            count += waits_for_cell(&history[from], false, waits[i] + count);
        counts[i] = count;
        points[i] = conformance_submit(f, s[k], job, waits[i], count);
        history[to] = (struct cell_history){.writer = points[i]};
        if (copies)
            history[from].readers[k] = points[i];
        model[to] = copies ? model[from] : (int64_t)((uint64_t)model[to] * 3 + i);
    }
    for (uint32_t i = 0; i < RANDOM_CELLS; i++)
        if (history[i].writer.seq)
            conformance_wait(f, history[i].writer);
    check(f, memcmp(cells, model, sizeof model) == 0);
    for (uint32_t i = 0; i < RANDOM_STREAMS; i++)
        conformance_wait(f, conformance_kind(f, s[i], ORR_COMMAND_MARKER, NULL, 0));
    for (uint32_t i = 0; i < RANDOM_JOBS; i++)
        check_starts(f, points[i], waits[i], counts[i]);
    conformance_close(f);
}

#define CASE(name)                                                                                 \
    { #name, name }

const struct conformance_case conformance_order_cases[] = {
    CASE(a_stream_runs_its_commands_in_order),
    CASE(a_command_starts_after_the_finish_of_the_one_before),
    CASE(sequence_numbers_count_from_one_in_each_stream),
    CASE(a_long_stream_wraps_around_its_queue_many_times),
    CASE(streams_are_not_ordered_without_a_wait),
    CASE(a_wait_orders_a_consumer_after_its_producer),
    CASE(a_wait_orders_across_devices),
    CASE(a_wait_command_orders_all_later_work_of_its_stream),
    CASE(a_chain_of_ten_over_ten_streams_keeps_its_order),
    CASE(a_chain_that_jumps_to_and_fro_between_streams_ends),
    CASE(a_diamond_joins_both_branches),
    CASE(a_command_may_wait_for_a_hundred_points),
    CASE(many_streams_may_wait_for_one_point),
    CASE(an_earlier_point_does_not_include_later_work),
    CASE(recording_again_leaves_earlier_waits_alone),
    CASE(a_point_of_nothing_is_always_reached),
    CASE(waiting_for_what_has_retired_changes_nothing),
    CASE(a_stream_may_wait_for_itself),
    CASE(points_of_a_destroyed_stream_stay_valid),
    CASE(what_the_host_did_before_an_enqueue_is_seen),
    CASE(later_enqueues_inherit_what_the_host_has_waited_for),
    CASE(the_streams_of_one_device_do_not_wait_for_another_device),
    CASE(a_full_queue_gives_the_point_that_makes_room),
    CASE(a_full_queue_does_not_hold_other_streams),
    CASE(a_random_program_with_its_waits_gives_the_sequential_result),
    {NULL, NULL},
};
