/* How fast a stream program is read: one line of JSON to operations with their names as numbers,
 * checked as a whole, against yajl alone on the same line, which does nothing with what it finds.
 *
 *     build/release/bench/bench_programs [OPERATIONS]      default 200000
 *
 * Prints `name,value,unit` lines: programs_read_ratio is our time over yajl's. Then how fast the
 * program is written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

#include "bench/bench.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_write.h"
#include "runtime/splitmix.h"

enum { STREAMS = 64, EVENTS = 32, BUFFERS = 1000, PIECE = 1 << 16 };

/* Kernels on many streams, and a record or a wait now and then. */
static struct orr_stream_program *build(const struct orr_memory *memory, uint32_t count) {
    struct orr_stream_program *program;
    uint64_t random = 1;
    bench_check(orr_stream_program_create(memory, &program), "a program");
    uint32_t id;
    char name[16];
    for (uint32_t i = 0; i < STREAMS; i++) {
        snprintf(name, sizeof name, "s%u", i);
        bench_check(orr_stream_program_stream(program, name, 0, ORR_STREAM_NB, &id), "a stream");
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        snprintf(name, sizeof name, "buffer%u", i);
        bench_check(orr_stream_program_name(program, ORR_NAME_BUFFER, name, &id), "a buffer");
    }
    for (uint32_t i = 0; i < EVENTS; i++) {
        snprintf(name, sizeof name, "e%u", i);
        bench_check(orr_stream_program_name(program, ORR_NAME_EVENT, name, &id), "an event");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t draw = orr_splitmix_next(&random);
        bool is_kernel = draw % 4 < 2;
        struct orr_stream_op op = orr_stream_op(is_kernel       ? ORR_OP_KERNEL
                                                : draw % 4 == 2 ? ORR_OP_RECORD
                                                                : ORR_OP_WAIT);
        op.host = 0;
        op.stream = (uint32_t)(draw >> 8) % STREAMS;
        op.object = is_kernel ? ORR_NONE : (uint32_t)(draw >> 16) % EVENTS;
        struct orr_stream_access accesses[2] = {
            {.buffer = (uint32_t)(draw >> 24) % BUFFERS, .hi = ORR_RANGE_WHOLE},
            {.buffer = (uint32_t)(draw >> 40) % BUFFERS, .is_write = true, .lo = 4096, .hi = 8192}};
        bench_check(orr_stream_program_add(program, &op, accesses, is_kernel ? 2 : 0), "an op");
    }
    return program;
}

static double read_program(const struct orr_memory *memory, const char *text, size_t length) {
    struct orr_stream_program_reader *reader;
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    double begin_s = bench_thread_cpu_s();
    bench_check(orr_stream_program_reader_create(memory, &reader), "a reader");
    for (size_t at = 0; at < length; at += PIECE)
        bench_check(orr_stream_program_reader_text(reader, text + at,
                                                   length - at < PIECE ? length - at : PIECE),
                    "a piece");
    bench_check(orr_stream_program_reader_end(reader, &line, &error), error.text);
    double spent_s = bench_thread_cpu_s() - begin_s;
    orr_stream_program_line_clear(&line, memory);
    orr_stream_program_reader_destroy(&reader);
    return spent_s;
}

static double parse_alone(const char *text, size_t length) {
    double begin_s = bench_thread_cpu_s();
    yajl_handle handle = yajl_alloc(NULL, NULL, NULL);
    for (size_t at = 0; at < length; at += PIECE)
        bench_must(yajl_parse(handle, (const unsigned char *)text + at,
                              length - at < PIECE ? length - at : PIECE) == yajl_status_ok,
                   "the line is JSON");
    bench_must(yajl_complete_parse(handle) == yajl_status_ok, "the line is complete");
    yajl_free(handle);
    return bench_thread_cpu_s() - begin_s;
}

int main(int argc, char **argv) {
    struct orr_memory memory = orr_memory_system();
    uint32_t count = argc > 1        ? (uint32_t)strtoul(argv[1], NULL, 10)
                     : bench_quick() ? 50000
                                     : 200000;
    double ours[BENCH_ROUNDS_MAX], floor[BENCH_ROUNDS_MAX], writing[BENCH_ROUNDS_MAX];
    bench_must(count > 0, "a number of operations");
    bench_keep_memory();
    struct orr_stream_program *program = build(&memory, count);
    char *text = NULL;
    bench_check(orr_stream_program_write(program, "bench", &text), "a line");
    size_t length = strlen(text);
    read_program(&memory, text, length); /* pages */
    for (int i = 0; i < bench_rounds(); i++) {
        ours[i] = read_program(&memory, text, length);
        floor[i] = parse_alone(text, length);
        double begin_s = bench_thread_cpu_s();
        char *again;
        bench_check(orr_stream_program_write(program, "bench", &again), "a line");
        writing[i] = bench_thread_cpu_s() - begin_s;
        orr_memory_free(&memory, again);
    }
    double read_s = bench_median(ours, bench_rounds()),
           floor_s = bench_median(floor, bench_rounds());
    bench_value("programs_read_ns", read_s / count * 1e9, "ns");
    bench_value("programs_read_rate", (double)length / read_s / 1e6, "MB/s");
    bench_value("programs_read_floor_ns", floor_s / count * 1e9, "ns");
    bench_value("programs_read_ratio", read_s / floor_s, "x");
    bench_value("programs_write_ns", bench_median(writing, bench_rounds()) / count * 1e9, "ns");
    orr_memory_free(&memory, text);
    orr_stream_program_destroy(&program);
    return 0;
}
