/* What one trace record costs where it is written, as the library does it: a test whether there is
 * a writer, and if so a copy into its chunk.
 *
 *     stamped     an edge of 24 bytes with a reading of the machine's clock, as on CPU devices
 *     simulated   the same with a time that is known
 *     command     a command of 128 bytes with times that are known
 *     off         without a writer
 *
 * Least of several rounds, CPU time of the thread. The writer's chunk is used over and over; what
 * keeping records costs besides is in bench_sim and bench_trace. */
#include <time.h>

#include "bench/bench.h"
#include "runtime/record_memory.h"

enum { RECORDS = 4000000, ROUNDS = 7 };

enum way { STAMPED, SIMULATED, COMMAND, OFF, WAYS };

/* The compiler is not to know what is in there. */
struct source {
    struct orr_record_writer *writer;
    struct orr_record_command command;
};

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void push_edge(struct source *source, uint64_t id, uint64_t value) {
    struct orr_record_edge edge = {
        .header = ORR_RECORD_HEADER(edge, EDGE), .src = id, .dst = value};
    if (source->writer)
        orr_record_push(source->writer, &edge);
}

static inline __attribute__((always_inline)) double run(struct source *source, enum way way) {
    double begin_s = bench_thread_cpu_s();
    for (uint64_t id = 0; id < RECORDS; id++) {
        __asm__ volatile("" : : "r"(source) : "memory");
        if (way == COMMAND) {
            source->command.id = id;
            if (source->writer)
                orr_record_push(source->writer, &source->command);
        } else {
            push_edge(source, id, way == STAMPED ? (uint64_t)clock_ns() : id + 1);
        }
    }
    return bench_thread_cpu_s() - begin_s;
}

static double run_way(struct source *source, enum way way) {
    switch (way) {
    case STAMPED: return run(source, STAMPED);
    case SIMULATED: return run(source, SIMULATED);
    case COMMAND: return run(source, COMMAND);
    default: return run(source, OFF);
    }
}

int main(void) {
    static const char *const names[WAYS] = {"record_stamped", "record_simulated", "record_command",
                                            "record_off"};
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_sink *sink;
    bench_check(orr_null_sink_create(&memory, &sink), "sink");
    for (int way = 0; way < WAYS; way++) {
        struct source source = {.writer = way == OFF ? NULL : &sink->writer,
                                .command.header = ORR_RECORD_HEADER(command, COMMAND)};
        double least_s = 1e9;
        for (int round = 0; round < ROUNDS; round++) {
            double spent_s = run_way(&source, (enum way)way);
            least_s = spent_s < least_s ? spent_s : least_s;
        }
        bench_value(names[way], least_s / RECORDS * 1e9, "ns/record");
    }
    bench_check(sink->close(sink, "ok", &error), "close");
    return 0;
}
