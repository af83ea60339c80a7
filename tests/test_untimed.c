/* Exploration in C: how many distinct orders small programs have, that each is completed exactly
 * once, that all are found (against every choice there is), and what random programs say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/buffer.h"
#include "runtime/splitmix.h"
#include "sim/untimed/untimed.h"
#include "tests/support.h"

struct bench {
    struct memory_counting memory;
    struct orr_device_spec spec;
    struct orr_runtime *runtime;
    struct orr_untimed *explore;
};

/* A program; returns what the host went by. ORR_BLOCKED ends it: the execution is over. */
typedef void (*program)(struct bench *b, void *context);

static void open_bench(struct bench *b) {
    memory_counting_init(&b->memory, 0);
    b->spec = spec_for_tests();
    struct orr_runtime_config config = {
        .memory = &b->memory.table, .open = orr_untimed_open, .specs = &b->spec, .device_count = 1};
    struct orr_error error = {0};
    assert_int_equal(orr_runtime_create(&config, &b->runtime, &error), ORR_OK);
    b->explore = orr_untimed_of(orr_runtime_backend(b->runtime));
    assert_non_null(b->explore);
}

static void close_bench(struct bench *b) {
    orr_runtime_destroy(&b->runtime);
    assert_int_equal(b->memory.live, 0);
}

static struct orr_stream *stream(struct bench *b, const char *name) {
    struct orr_stream *made = NULL;
    assert_int_equal(orr_stream_create(b->runtime, 0, ORR_STREAM_COMPUTE, name, &made), ORR_OK);
    return made;
}

static struct orr_buffer *buffer(struct bench *b, struct orr_stream *of) {
    struct orr_buffer *made = NULL;
    (void)b;
    assert_int_equal(orr_buffer_alloc(of, 64, "b", &made), ORR_OK);
    return made;
}

/* --- counting --- */

enum { ORDERS_MAX = 1 << 14 };

struct counted {
    uint32_t complete, abandoned, hangs, others;
    uint64_t orders[ORDERS_MAX]; /* distinct ones */
    uint32_t order_count;
};

static bool add_order(struct counted *counted, uint64_t order) {
    for (uint32_t i = 0; i < counted->order_count; i++)
        if (counted->orders[i] == order)
            return false;
    assert_true(counted->order_count < ORDERS_MAX);
    counted->orders[counted->order_count++] = order;
    return true;
}

static enum orr_untimed_outcome execute(struct bench *b, program run, void *context) {
    run(b, context);
    (void)!orr_runtime_finish(b->runtime);
    return orr_untimed_end(b->explore);
}

static void rewind_runtime(struct bench *b) {
    assert_int_equal(orr_runtime_rewind(b->runtime), ORR_OK);
}

static void search(struct bench *b, const struct orr_untimed_options *options, program run,
                   void *context, struct counted *counted) {
    assert_int_equal(orr_untimed_search(b->explore, options), ORR_OK);
    while (orr_untimed_next(b->explore) == ORR_OK) {
        switch (execute(b, run, context)) {
        case ORR_UNTIMED_COMPLETE: {
            bool is_new = add_order(counted, orr_untimed_order(b->explore));
            if (options->strategy == ORR_UNTIMED_DPOR)
                assert_true(is_new); /* no order twice */
            counted->complete++;
            break;
        }
        case ORR_UNTIMED_ABANDONED: counted->abandoned++; break;
        case ORR_UNTIMED_HANG:
            counted->hangs++;
            (void)add_order(counted, orr_untimed_order(b->explore));
            break;
        case ORR_UNTIMED_DIVERGED:
        case ORR_UNTIMED_TOO_LONG:
        default: counted->others++; break;
        }
        rewind_runtime(b);
    }
}

static struct counted *count_all(program run, void *context) {
    struct bench b;
    open_bench(&b);
    struct counted *counted = test_calloc(1, sizeof *counted);
    struct orr_untimed_options options = {.strategy = ORR_UNTIMED_DPOR};
    search(&b, &options, run, context, counted);
    close_bench(&b);
    return counted;
}

static void assert_orders(program run, void *context, uint32_t orders, uint32_t abandoned_max) {
    struct counted *counted = count_all(run, context);
    assert_int_equal(counted->complete, orders);
    assert_int_equal(counted->others, 0);
    assert_true(counted->abandoned <= abandoned_max);
    test_free(counted);
}

/* --- programs of known counts --- */

struct shape {
    int streams, each; /* kernels of each stream */
    bool shared;       /* all write one buffer, else each stream its own */
};

static void writers(struct bench *b, void *context) {
    const struct shape *shape = context;
    struct orr_stream *streams[8];
    struct orr_buffer *buffers[8];
    for (int i = 0; i < shape->streams; i++) {
        char name[8] = {'s', (char)('0' + i)};
        streams[i] = stream(b, name);
        buffers[i] = shape->shared && i > 0 ? buffers[0] : buffer(b, streams[i]);
    }
    for (int k = 0; k < shape->each; k++)
        for (int i = 0; i < shape->streams; i++)
            (void)launch(streams[i], "w", NULL, buffers[i]);
}

static void independent_kernels_have_one_order(void **state) {
    (void)state;
    assert_orders(writers, &(struct shape){.streams = 6, .each = 3}, 1, 0);
}

static void writers_of_one_buffer_have_all_permutations(void **state) {
    (void)state;
    const uint32_t factorials[] = {1, 1, 2, 6, 24, 120, 720};
    for (int n = 1; n <= 6; n++)
        assert_orders(writers, &(struct shape){.streams = n, .each = 1, .shared = true},
                      factorials[n], 0);
}

static void two_streams_interleave_as_binomials_say(void **state) {
    (void)state;
    const uint32_t binomials[] = {1, 2, 6, 20, 70, 252, 924};
    for (int k = 1; k <= 6; k++)
        assert_orders(writers, &(struct shape){.streams = 2, .each = k, .shared = true},
                      binomials[k], 0);
}

static void readers(struct bench *b, void *context) {
    const int *count = context;
    struct orr_stream *of = stream(b, "writer");
    struct orr_buffer *shared = buffer(b, of);
    for (int i = 0; i < *count; i++) {
        char name[8] = {'r', (char)('0' + i)};
        (void)launch(stream(b, name), "read", shared, NULL);
    }
    (void)launch(of, "write", NULL, shared);
}

static void readers_are_before_or_after_a_writer_each(void **state) {
    (void)state;
    for (int n = 1; n <= 6; n++)
        assert_orders(readers, &n, 1u << n, 0);
}

static void chain(struct bench *b, void *context) {
    const bool *waits = context;
    struct orr_stream *s = stream(b, "s"), *t = stream(b, "t");
    struct orr_buffer *a = buffer(b, s);
    struct orr_event *e = NULL;
    assert_int_equal(orr_event_create(b->runtime, NULL, &e), ORR_OK);
    (void)launch(s, "produce", NULL, a);
    assert_int_equal(orr_event_record(e, s), ORR_OK);
    if (*waits)
        assert_int_equal(orr_stream_wait(t, e), ORR_OK);
    (void)launch(t, "consume", a, NULL);
    (void)launch(s, "produce more", NULL, a);
}

static void a_wait_takes_orders_away(void **state) {
    (void)state;
    bool waits = false;
    assert_orders(chain, &waits, 3, 0);
    waits = true;
    assert_orders(chain, &waits, 2, 0);
}

static void asks(struct bench *b, void *context) {
    const int *count = context;
    struct orr_stream *s = stream(b, "s");
    struct orr_buffer *a = buffer(b, s);
    for (int i = 0; i < *count; i++)
        (void)launch(s, "w", NULL, a);
    (void)!orr_stream_query(s);
}

static void a_query_is_before_or_after_the_end(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        assert_orders(asks, &n, 2, 0);
}

/* Polls until it has finished: every number of vain attempts is an order of its own, but a host
 * that has asked in vain asks again only after something has happened. */
static void polls(struct bench *b, void *context) {
    (void)context;
    struct orr_stream *s = stream(b, "s"), *t = stream(b, "t");
    struct orr_buffer *a = buffer(b, s), *c = buffer(b, t);
    (void)launch(s, "w", NULL, a);
    (void)launch(t, "w", NULL, c);
    while (orr_stream_query(s) == ORR_NOT_READY)
        continue;
}

static void polling_ends(void **state) {
    (void)state;
    struct counted *counted = count_all(polls, NULL);
    assert_true(counted->complete >= 2 && counted->complete <= 4);
    assert_int_equal(counted->hangs + counted->others, 0);
    test_free(counted);
}

/* --- random programs against every choice there is --- */

struct drawn {
    uint64_t seed;
    uint64_t went_by; /* digest of what the host saw, which decides what it does */
};

static void random_kernel(struct bench *b, struct orr_stream *s, struct orr_buffer **buffers,
                          struct orr_buffer *pinned, uint64_t *state) {
    struct orr_range ranges[2];
    uint32_t count = (uint32_t)random_below(state, 2) + 1;
    (void)b;
    for (uint32_t i = 0; i < count; i++) {
        struct orr_buffer *at = random_below(state, 4) ? buffers[random_below(state, 2)] : pinned;
        uint64_t half = random_below(state, 3);
        ranges[i] =
            (struct orr_range){.buffer = at,
                               .offset = half == 1 ? 32 : 0,
                               .bytes = half ? 32 : 64,
                               .mode = random_below(state, 2) ? ORR_ACCESS_READ : ORR_ACCESS_WRITE};
    }
    struct orr_kernel kernel = {.name = random_below(state, 2) ? "k" : "l",
                                .dtype = ORR_DTYPE_NONE,
                                .accesses = ranges,
                                .access_count = count,
                                .submit_ns = -1,
                                .service_ns = 1};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
}

/* False when the execution is over. */
static bool random_call(struct bench *b, struct orr_stream **streams, struct orr_buffer **buffers,
                        struct orr_buffer *pinned, struct orr_event **events, uint64_t *state) {
    struct orr_stream *s = streams[random_below(state, 3)];
    struct orr_event *e = events[random_below(state, 2)];
    float value = 0;
    enum orr_status status = ORR_OK;
    switch (random_below(state, 11)) {
    case 0: status = orr_event_record(e, s); break;
    case 1: status = orr_stream_wait(s, e); break;
    case 2: status = random_below(state, 2) ? orr_stream_sync(s) : orr_event_sync(e); break;
    case 3:
        status = random_below(state, 2) ? orr_stream_query(s) : orr_event_query(e);
        *state ^= status == ORR_OK ? 0x9999 : 0; /* the program goes on differently */
        break;
    case 4: status = orr_buffer_write(pinned, 0, &value, sizeof value, -1); break;
    case 5: status = orr_buffer_read(pinned, 0, &value, sizeof value, -1); break;
    default: random_kernel(b, s, buffers, pinned, state); break;
    }
    return status != ORR_BLOCKED;
}

static void random_program(struct bench *b, void *context) {
    const struct drawn *drawn = context;
    uint64_t state = orr_splitmix_mix(drawn->seed) | 1;
    struct orr_stream *streams[3] = {stream(b, "s"), stream(b, "t"), stream(b, "u")};
    struct orr_buffer *buffers[2] = {buffer(b, streams[0]), buffer(b, streams[1])};
    struct orr_buffer *pinned = NULL;
    struct orr_event *events[2];
    assert_int_equal(orr_buffer_alloc_host(b->runtime, 64, "p", &pinned), ORR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_event_create(b->runtime, NULL, &events[i]), ORR_OK);
    uint64_t calls = 4 + random_below(&state, 6);
    while (calls-- > 0 && random_call(b, streams, buffers, pinned, events, &state))
        continue;
}

/* Every choice there is: depth first, one execution for each choice of each step. */
static void follow_all(struct bench *b, struct drawn *drawn, uint8_t *plan, uint32_t depth,
                       struct counted *counted, uint32_t *left) {
    struct orr_untimed_options options = {
        .strategy = ORR_UNTIMED_FOLLOW, .plan = plan, .plan_length = depth + 1};
    uint32_t process_max = 5; /* a host, three streams, and the default */
    for (uint32_t process = 0; process<process_max && * left> 0; process++) {
        plan[depth] = (uint8_t)process;
        assert_int_equal(orr_untimed_search(b->explore, &options), ORR_OK);
        assert_int_equal(orr_untimed_next(b->explore), ORR_OK);
        --*left;
        enum orr_untimed_outcome outcome = execute(b, random_program, drawn);
        assert_int_equal(outcome, ORR_UNTIMED_COMPLETE);
        uint32_t count;
        const struct orr_untimed_step *steps = orr_untimed_steps(b->explore, &count);
        bool was_possible = depth < count && steps[depth].process == process;
        bool ends = depth >= count;
        if (was_possible || ends)
            (void)add_order(counted, orr_untimed_order(b->explore));
        rewind_runtime(b);
        if (was_possible)
            follow_all(b, drawn, plan, depth + 1, counted, left);
        if (ends)
            return;
    }
}

static bool has_order(const struct counted *counted, uint64_t order) {
    for (uint32_t i = 0; i < counted->order_count; i++)
        if (counted->orders[i] == order)
            return true;
    return false;
}

static void all_orders_of_random_programs_are_found(void **state) {
    (void)state;
    uint64_t seed = random_seed(4);
    uint32_t programs = 0, orders = 0, abandoned = 0;
    for (int i = 0; i < 60; i++) {
        struct drawn drawn = {.seed = seed + (uint64_t)i};
        struct counted *systematic = count_all(random_program, &drawn);
        struct counted *every = test_calloc(1, sizeof *every);
        struct bench b;
        uint8_t plan[64];
        uint32_t left = 6000;
        open_bench(&b);
        follow_all(&b, &drawn, plan, 0, every, &left);
        close_bench(&b);
        for (uint32_t k = 0; k < every->order_count; k++)
            if (!has_order(systematic, every->orders[k]))
                fail_msg("seed %llu: of %u orders seen one is not explored (%u are)",
                         (unsigned long long)drawn.seed, every->order_count, systematic->complete);
        if (left > 0 && every->order_count != systematic->complete)
            fail_msg("seed %llu: %u orders, %u explored", (unsigned long long)drawn.seed,
                     every->order_count, systematic->complete);
        programs += left > 0;
        orders += systematic->complete;
        abandoned += systematic->abandoned;
        test_free(systematic);
        test_free(every);
    }
    print_message("%u programs looked at completely, %u orders, %u executions abandoned\n",
                  programs, orders, abandoned);
    assert_true(programs >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_kernels_have_one_order),
        cmocka_unit_test(writers_of_one_buffer_have_all_permutations),
        cmocka_unit_test(two_streams_interleave_as_binomials_say),
        cmocka_unit_test(readers_are_before_or_after_a_writer_each),
        cmocka_unit_test(a_wait_takes_orders_away),
        cmocka_unit_test(a_query_is_before_or_after_the_end),
        cmocka_unit_test(polling_ends),
        cmocka_unit_test(all_orders_of_random_programs_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
