/* Exchanges between ranks through the runtime: every pair both ways at once, by sends in one group
 * and by all-to-all, for every dtype, group and size, against what each rank should have got; and
 * cycles of sends, which are no deadlock in a group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/runtime_internal.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { RANKS_MAX = FIXTURE_DEVICES_MAX, COUNT_MAX = 1031, BYTES_MAX = RANKS_MAX * COUNT_MAX * 8 };

static const orr_backend_open backends[] = {orr_sim_open, orr_cpu_open};

/* A communicator of some devices in some order, and what its ranks exchange. */
struct exchange {
    struct fixture *f;
    struct orr_communicator *communicator;
    uint32_t ranks;
    enum orr_dtype dtype;
    struct orr_stream *streams[RANKS_MAX];
    struct orr_piece in[RANKS_MAX], out[RANKS_MAX];
    uint64_t counts[RANKS_MAX * RANKS_MAX]; /* of the pair source * ranks + target */
};

static uint64_t count_of(const struct exchange *x, uint32_t source, uint32_t target) {
    return x->counts[source * x->ranks + target];
}

/* Elements before what `source` sends to `target`, in its input. */
static uint64_t before_in(const struct exchange *x, uint32_t source, uint32_t target) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < target; i++)
        count += count_of(x, source, i);
    return count;
}

/* Elements before what `target` gets from `source`, in its output. */
static uint64_t before_out(const struct exchange *x, uint32_t source, uint32_t target) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < source; i++)
        count += count_of(x, i, target);
    return count;
}

static uint8_t pattern(uint32_t source, uint32_t target, uint64_t index) {
    return (uint8_t)(((index * 8 + source) * 8 + target) * 0x9e3779b97f4a7c15u >> 33 | 1u);
}

static void must(const struct exchange *x, enum orr_status status) {
    if (status != ORR_OK)
        fail_msg("%s", fixture_error(x->f));
}

static void fill(struct exchange *x, uint32_t rank) {
    static uint8_t bytes[BYTES_MAX], zeros[BYTES_MAX + 1];
    size_t size = orr_dtype_size(x->dtype);
    uint64_t sent = before_in(x, rank, x->ranks) * size;
    uint64_t got = before_out(x, x->ranks, rank) * size;
    for (uint32_t target = 0; target < x->ranks; target++)
        for (uint64_t k = 0; k < count_of(x, rank, target) * size; k++)
            bytes[before_in(x, rank, target) * size + k] = pattern(rank, target, k);
    must(x, orr_buffer_alloc(x->streams[rank], sent + 1, "in", &x->in[rank].buffer));
    must(x, orr_buffer_alloc(x->streams[rank], got + 1, "out", &x->out[rank].buffer));
    x->in[rank].offset = x->out[rank].offset = 0;
    if (sent > 0)
        must(x, orr__buffer_initialize(x->in[rank].buffer, 0, bytes, sent));
    must(x, orr__buffer_initialize(x->out[rank].buffer, 0, zeros, got + 1));
}

static void check(const struct exchange *x, const char *what) {
    size_t size = orr_dtype_size(x->dtype);
    for (uint32_t target = 0; target < x->ranks; target++) {
        const uint8_t *out = x->out[target].buffer->data;
        for (uint32_t source = 0; source < x->ranks; source++)
            for (uint64_t k = 0; k < count_of(x, source, target) * size; k++)
                if (out[before_out(x, source, target) * size + k] != pattern(source, target, k))
                    fail_msg("%s of %s over %u ranks: byte %llu from %u to %u is wrong", what,
                             orr_dtype_name(x->dtype), (unsigned)x->ranks, (unsigned long long)k,
                             (unsigned)source, (unsigned)target);
        if (out[before_out(x, x->ranks, target) * size] != 0)
            fail_msg("%s of %s over %u ranks: more than %llu bytes got to %u", what,
                     orr_dtype_name(x->dtype), (unsigned)x->ranks,
                     (unsigned long long)(before_out(x, x->ranks, target) * size),
                     (unsigned)target);
    }
}

static void send_all(struct exchange *x) {
    struct orr_send sends[RANKS_MAX * RANKS_MAX];
    uint32_t count = 0;
    size_t size = orr_dtype_size(x->dtype);
    for (uint32_t source = 0; source < x->ranks; source++)
        for (uint32_t target = 0; target < x->ranks; target++)
            sends[count++] = (struct orr_send){
                .source = source,
                .target = target,
                .count = count_of(x, source, target),
                .from = {x->in[source].buffer, before_in(x, source, target) * size},
                .to = {x->out[target].buffer, before_out(x, source, target) * size}};
    must(x, orr_send_receive_enqueue(x->communicator, x->dtype, sends, count, x->streams, NULL, 0,
                                     NULL));
}

static void all_to_all(struct exchange *x, bool even) {
    struct orr_collective_call call = {.kind = ORR_COLLECTIVE_ALL_TO_ALL,
                                       .dtype = x->dtype,
                                       .count = even ? x->counts[0] : 0,
                                       .counts = even ? NULL : x->counts,
                                       .streams = x->streams,
                                       .inputs = x->in,
                                       .outputs = x->out};
    must(x, orr_communicator_enqueue(x->communicator, &call, NULL));
}

/* One exchange by sends (`way` 0) or by all-to-all. */
static void try_exchange(struct exchange *x, int way, bool even) {
    for (uint32_t rank = 0; rank < x->ranks; rank++)
        fill(x, rank);
    if (way == 0)
        send_all(x);
    else
        all_to_all(x, even);
    must(x, orr_runtime_finish(x->f->runtime));
    check(x, way == 0 ? "sends" : "all_to_all");
    for (uint32_t rank = 0; rank < x->ranks; rank++) {
        orr_buffer_free(&x->in[rank].buffer);
        orr_buffer_free(&x->out[rank].buffer);
    }
}

/* A communicator of `ranks` devices, drawn. */
static void open_group(struct exchange *x, struct fixture *f, uint32_t ranks, uint64_t *random) {
    uint32_t devices[RANKS_MAX];
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        devices[i] = i;
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t k = i + (uint32_t)random_below(random, RANKS_MAX - i), device = devices[k];
        devices[k] = devices[i];
        devices[i] = device;
    }
    *x = (struct exchange){.f = f, .ranks = ranks};
    must(x, orr_communicator_create(f->runtime, "group", devices, ranks, &x->communicator));
    for (uint32_t i = 0; i < ranks; i++)
        x->streams[i] = orr_device_stream(f->runtime, devices[i], ORR_STREAM_COMMUNICATE);
}

static void every_pair_exchanges_both_ways_at_once(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 37, COUNT_MAX};
    uint64_t random = random_seed(1) | 1;
    for (size_t b = 0; b < 2; b++)
        for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
            struct fixture f;
            struct exchange x;
            fixture_open(&f, backends[b], RANKS_MAX);
            open_group(&x, &f, ranks, &random);
            for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
                for (int size = 0; size < 5; size++) {
                    x.dtype = (enum orr_dtype)dtype;
                    for (uint32_t i = 0; i < ranks * ranks; i++) /* the last one: all kinds */
                        x.counts[i] = sizes[size < 4 ? (uint64_t)size : random_below(&random, 4)];
                    try_exchange(&x, 0, false);
                    try_exchange(&x, 1, size < 4);
                }
            fixture_close(&f);
        }
}

/* Groups of sends over overlapping devices, whose directions go round in circles: each is enqueued
 * on all of its ranks at once, so nobody waits for one that waits for it. */
static void circles_of_groups_end(void **state) {
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        struct fixture f;
        fixture_open(&f, backends[b], 3);
        struct exchange pairs[3];
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t devices[2] = {i, (i + 1) % 3};
            pairs[i] = (struct exchange){.f = &f, .ranks = 2, .dtype = ORR_DTYPE_F32};
            must(&pairs[i],
                 orr_communicator_create(f.runtime, "pair", devices, 2, &pairs[i].communicator));
            for (uint32_t k = 0; k < 2; k++) {
                pairs[i].streams[k] =
                    orr_device_stream(f.runtime, devices[k], ORR_STREAM_COMMUNICATE);
                pairs[i].counts[k ? 1 : 2] = 5 + i; /* there and back, nothing to oneself */
            }
            fill(&pairs[i], 0);
            fill(&pairs[i], 1);
        }
        for (int round = 0; round < 20; round++)
            for (int i = 0; i < 3; i++)
                send_all(&pairs[(i * (round % 2 ? 2 : 1)) % 3]);
        must(&pairs[0], orr_runtime_finish(f.runtime));
        for (int i = 0; i < 3; i++)
            check(&pairs[i], "sends");
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_exchanges_both_ways_at_once),
        cmocka_unit_test(circles_of_groups_end),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
