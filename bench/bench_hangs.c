/* How fast stream programs are searched for hangs. CPU time of the thread, median of rounds.
 *
 *     spmd        64 ranks, 100 steps each of a kernel and a collective with events both ways,
 *                 queues of 10 entries, one slot a device: nothing competes, one run decides
 *     crossed     16 ranks, two communicators in opposite orders, 50 calls each, one slot: a hang
 *     late        16 ranks, three communicators by 20 rounds, two slots: a hang after a search
 *     states      2 ranks, three communicators by 20 rounds, two slots: no hang, every state in
 *                 which something competes is looked at
 *
 * The floor of `states` is what remembering states takes alone: as many hashes put into the table
 * of those that were seen. */
#include <stdio.h>

#include "bench/bench.h"
#include "hazards/hang_seen.h"
#include "hazards/hangs.h"
#include "runtime/splitmix.h"

struct maker {
    struct orr_stream_program *program;
    struct orr_memory memory;
    uint32_t ranks, per_rank; /* streams */
};

static uint32_t name(struct maker *m, enum orr_name_space space, const char *format,
                     uint32_t number) {
    char text[32];
    uint32_t id;
    snprintf(text, sizeof text, format, number);
    bench_check(orr_stream_program_name(m->program, space, text, &id), "name");
    return id;
}

/* Host, rank and device r are one; stream k of rank r is number r * per_rank + k. */
static void start(struct maker *m, uint32_t ranks, uint32_t per_rank, uint32_t comms,
                  uint64_t slots) {
    uint32_t listed[64], id;
    *m = (struct maker){.memory = orr_memory_system(), .ranks = ranks, .per_rank = per_rank};
    bench_check(orr_stream_program_create(&m->memory, &m->program), "program");
    m->program->oracle = ORR_ORACLE_HANG;
    m->program->slots = slots;
    for (uint32_t r = 0; r < ranks; r++) {
        listed[r] = name(m, ORR_NAME_RANK, "\"r%u\"", r);
        name(m, ORR_NAME_HOST, r == 0 ? "h" : "r%u", r);
        for (uint32_t k = 0; k < per_rank; k++) {
            char text[32];
            snprintf(text, sizeof text, "s%u_%u", r, k);
            bench_check(orr_stream_program_stream(m->program, text, r, ORR_STREAM_NB, &id),
                        "stream");
        }
    }
    for (uint32_t c = 0; c < comms; c++) {
        char text[32];
        snprintf(text, sizeof text, "c%u", c);
        bench_check(orr_stream_program_comm(m->program, text, listed, ranks, &id), "comm");
    }
    name(m, ORR_NAME_WORD, "all_reduce", 0);
}

static void add(struct maker *m, enum orr_stream_op_kind kind, uint32_t rank, uint32_t stream,
                uint32_t object) {
    struct orr_stream_op op = orr_stream_op(kind);
    op.host = rank;
    op.stream = rank * m->per_rank + stream;
    op.object = object;
    if (kind == ORR_OP_COLL) {
        op.rank = rank;
        op.word = 0;
    }
    bench_check(orr_stream_program_add(m->program, &op, NULL, 0), "operation");
}

static void make_spmd(struct maker *m) {
    start(m, 64, 2, 1, 1);
    m->program->queue_depth = 10;
    for (uint32_t r = 0; r < m->ranks; r++) {
        uint32_t done = name(m, ORR_NAME_EVENT, "done%u", r);
        uint32_t reduced = name(m, ORR_NAME_EVENT, "reduced%u", r);
        for (uint32_t i = 0; i < 100; i++) {
            add(m, ORR_OP_KERNEL, r, 0, ORR_NONE);
            add(m, ORR_OP_RECORD, r, 0, done);
            add(m, ORR_OP_WAIT, r, 1, done);
            add(m, ORR_OP_COLL, r, 1, 0);
            add(m, ORR_OP_RECORD, r, 1, reduced);
            add(m, ORR_OP_WAIT, r, 0, reduced);
        }
    }
}

/* Each communicator has a stream of its own on every device; odd ranks call them backwards. */
static void make_rounds(struct maker *m, uint32_t ranks, uint32_t comms, uint64_t slots,
                        uint32_t rounds) {
    start(m, ranks, comms, comms, slots);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < rounds; i++)
            for (uint32_t c = 0; c < comms; c++) {
                uint32_t comm = r % 2 == 0 ? c : comms - 1 - c;
                add(m, ORR_OP_COLL, r, comm, comm);
            }
}

/* Seconds of a search; ends the program if its answer is not `expected`. */
static double search(const struct maker *m, enum orr_check_verdict_kind expected,
                     uint64_t *out_states) {
    double values[BENCH_ROUNDS_MAX];
    for (int i = 0; i < bench_rounds(); i++) {
        struct orr_hang_result result;
        double begin_s = bench_thread_cpu_s();
        bench_check(orr_hangs_find(m->program, 0, &result), "search");
        values[i] = bench_thread_cpu_s() - begin_s;
        bench_must(result.kind == expected, "the answer is another one");
        *out_states = result.states;
        orr_hang_result_clear(&result);
    }
    return bench_median(values, bench_rounds());
}

static double remember(uint64_t count) {
    double values[BENCH_ROUNDS_MAX];
    struct orr_memory memory = orr_memory_system();
    for (int i = 0; i < bench_rounds(); i++) {
        struct orr__hang_seen seen = {0};
        double begin_s = bench_thread_cpu_s();
        for (uint64_t k = 0; k < count; k++) {
            struct orr__hang_hash hash = {.a = orr_splitmix_at(1, k), .b = orr_splitmix_at(2, k)};
            bool is_new;
            bench_check(orr__hang_seen_add(&seen, &memory, hash, &is_new), "table");
        }
        values[i] = bench_thread_cpu_s() - begin_s;
        orr__hang_seen_clear(&seen, &memory);
    }
    return bench_median(values, bench_rounds());
}

static void report(const char *what, struct maker *m, enum orr_check_verdict_kind expected) {
    uint64_t states = 0;
    double seconds = search(m, expected, &states);
    bench_valuef(seconds * 1e3, "ms", "hangs_%s", what);
    bench_valuef((double)m->program->op_count / seconds, "op/s", "hangs_%s_ops", what);
    if (expected == ORR_CHECK_NO_HANG && states > 0) {
        double floor_s = remember(states);
        bench_valuef((double)states / seconds, "state/s", "hangs_%s_rate", what);
        bench_valuef((double)states / floor_s, "state/s", "hangs_%s_floor", what);
        bench_valuef(seconds / floor_s, "x", "hangs_%s_over_floor", what);
    }
    orr_stream_program_destroy(&m->program);
}

int main(void) {
    struct maker m;
    bench_keep_memory();
    make_spmd(&m);
    report("spmd", &m, ORR_CHECK_NO_HANG);
    make_rounds(&m, 16, 2, 1, 50);
    report("crossed", &m, ORR_CHECK_HANG);
    make_rounds(&m, 16, 3, 2, 20);
    report("late", &m, ORR_CHECK_HANG);
    make_rounds(&m, 2, 3, 2, bench_quick() ? 10 : 20);
    report("states", &m, ORR_CHECK_NO_HANG);
    return 0;
}
