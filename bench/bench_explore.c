/* Exploration of recorded stream programs: runs a second.
 *
 *     orders     a program of ten commands with a known number of orders, all of them: runs a
 *                second of one thread, and of all processors by the wall clock; the floor is the
 *                same commands executed over and over in one order, without any search
 *     pct        the same program under random priorities, of one thread
 *     hang       interleavings of eight ranks' collectives where slots run out, of one thread */
#include <stdio.h>
#include <unistd.h>

#include "bench/bench.h"
#include "hazards/explore/explore.h"
#include "hazards/explore/order_run.h"

enum { STREAMS = 5, COMMANDS = 10, FLOOR_RUNS = 1000000, RANKS = 8 };

static struct orr_memory memory;

static uint32_t add_name(struct orr_stream_program *program, enum orr_name_space space,
                         const char *letters, uint32_t number) {
    char text[32];
    uint32_t id;
    snprintf(text, sizeof text, "%s%u", letters, number);
    bench_check(orr_stream_program_name(program, space, text, &id), "name");
    return id;
}

/* Ten kernels on five streams: each writes one of two buffers and reads the other's other half, so
 * that there are 4,548 orders. */
static struct orr_stream_program *ten_commands(void) {
    struct orr_stream_program *program;
    bench_check(orr_stream_program_create(&memory, &program), "program");
    uint32_t buffers[2], streams[STREAMS];
    for (uint32_t i = 0; i < 2; i++)
        buffers[i] = add_name(program, ORR_NAME_BUFFER, "b", i);
    for (uint32_t i = 0; i < STREAMS; i++) {
        char text[16];
        snprintf(text, sizeof text, "s%u", i);
        bench_check(orr_stream_program_stream(program, text, 0, ORR_STREAM_NB, &streams[i]),
                    "stream");
    }
    for (uint32_t i = 0; i < COMMANDS; i++) {
        struct orr_stream_op op = orr_stream_op(ORR_OP_KERNEL);
        op.stream = streams[i % STREAMS];
        const struct orr_stream_access accesses[] = {
            {.buffer = buffers[1 - i % 2], .lo = 8 + i, .hi = 9 + i},
            {.buffer = buffers[i % 2], .lo = 0, .hi = 4, .is_write = true}};
        bench_check(orr_stream_program_add(program, &op, accesses, 2), "op");
    }
    return program;
}

/* Every rank calls two communicators' collectives on two streams of one device, half of the ranks
 * in the other order. */
static struct orr_stream_program *ranks(void) {
    struct orr_stream_program *program;
    bench_check(orr_stream_program_create(&memory, &program), "program");
    program->oracle = ORR_ORACLE_HANG;
    program->slots = 1;
    uint32_t members[RANKS], comms[2];
    for (uint32_t i = 0; i < RANKS; i++)
        members[i] = add_name(program, ORR_NAME_RANK, "r", i);
    for (uint32_t i = 0; i < 2; i++) {
        char text[16];
        snprintf(text, sizeof text, "c%u", i);
        bench_check(orr_stream_program_comm(program, text, members, RANKS, &comms[i]), "comm");
    }
    for (uint32_t i = 0; i < 2 * RANKS; i++) {
        char text[16];
        struct orr_stream_op op = orr_stream_op(ORR_OP_COLL);
        snprintf(text, sizeof text, "s%u", i);
        bench_check(orr_stream_program_stream(program, text, i / 2, ORR_STREAM_NB, &op.stream),
                    "stream");
        op.host = add_name(program, ORR_NAME_HOST, "h", i / 2);
        op.rank = members[i / 2];
        op.object = comms[(i + i / 2) % 2];
        bench_check(orr_stream_program_add(program, &op, NULL, 0), "op");
    }
    return program;
}

static uint64_t explore(const struct orr_stream_program *program,
                        const struct orr_explore_options *options) {
    struct orr_exploration *found;
    struct orr_error error = {0};
    bench_check(orr_explore(program, options, &found, &error), error.text);
    uint64_t runs = found->runs + found->given_up;
    orr_exploration_destroy(&found);
    return runs;
}

/* Runs a second of explorations until there were `wanted` runs. */
static double rate(const struct orr_stream_program *program,
                   const struct orr_explore_options *options, uint64_t wanted,
                   double (*clock)(void)) {
    uint64_t runs = 0;
    double begin_s = clock();
    while (runs < wanted)
        runs += explore(program, options);
    return (double)runs / (clock() - begin_s);
}

/* Runs a second of the commands alone. */
static double floor_rate(const struct orr_stream_program *program) {
    struct orr__order_plan *plan;
    struct orr__order_run run;
    struct orr_error error = {0};
    bench_check(orr__order_plan_create(program, &plan, &error), error.text);
    bench_check(orr__order_run_open(&run, plan), "run");
    for (uint32_t i = 0; i < plan->action_count; i++)
        run.order[i] = i;
    uint64_t sum = 0;
    double begin_s = bench_thread_cpu_s();
    for (int i = 0; i < FLOOR_RUNS; i++)
        sum += orr__order_run_all(&run, run.order).hash;
    double runs = FLOOR_RUNS / (bench_thread_cpu_s() - begin_s);
    bench_must(sum != 0, "the floor was not run");
    orr__order_run_close(&run);
    orr__order_plan_destroy(&plan);
    return runs;
}

struct figures {
    double floors[BENCH_ROUNDS_MAX], one[BENCH_ROUNDS_MAX], all[BENCH_ROUNDS_MAX],
        pct[BENCH_ROUNDS_MAX], hang[BENCH_ROUNDS_MAX];
};

static void measure(struct figures *figures, int round) {
    uint64_t wanted = bench_quick() ? 300000 : 2000000;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct orr_stream_program *ten = ten_commands(), *eight = ranks();
    struct orr_explore_options options = orr_explore_defaults();
    options.witnesses = 0;
    figures->floors[round] = floor_rate(ten);
    figures->one[round] = rate(ten, &options, wanted, bench_thread_cpu_s);
    options.threads = processors > 1 ? (uint32_t)processors : 1;
    figures->all[round] = rate(ten, &options, wanted, bench_wall_s);
    options.threads = 1;
    options.budget = 100000;
    figures->hang[round] = rate(eight, &options, wanted / 20, bench_thread_cpu_s);
    options.strategy = ORR_EXPLORE_PCT;
    figures->pct[round] = rate(ten, &options, wanted / 4, bench_thread_cpu_s);
    orr_stream_program_destroy(&ten);
    orr_stream_program_destroy(&eight);
}

int main(void) {
    struct figures figures;
    memory = orr_memory_system();
    bench_keep_memory();
    for (int i = 0; i < bench_rounds(); i++)
        measure(&figures, i);
    double bare = bench_median(figures.floors, bench_rounds());
    double one = bench_median(figures.one, bench_rounds());
    bench_value("explore_floor", bare, "runs/s");
    bench_value("explore_orders_one_thread", one, "runs/s");
    bench_value("explore_orders_ratio", one / bare, "of floor");
    bench_value("explore_run_ns", 1e9 / one, "ns");
    bench_value("explore_orders_all_processors", bench_median(figures.all, bench_rounds()),
                "runs/s");
    bench_value("explore_pct_one_thread", bench_median(figures.pct, bench_rounds()), "runs/s");
    bench_value("explore_hang_one_thread", bench_median(figures.hang, bench_rounds()), "runs/s");
    return 0;
}
