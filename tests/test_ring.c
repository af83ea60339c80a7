/* The ring between the runtime and the thread that writes its trace. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/trace_support.h"
#include "trace/ring.h"

static void *sum_ring(void *context) {
    struct orr_ring *ring = context;
    static uint64_t sum;
    sum = 0;
    while (orr_ring_wait_readable(ring)) {
        struct orr_ring_chunk *chunk = orr_ring_readable(ring);
        for (size_t i = 0; i < chunk->used; i++)
            sum += chunk->words[i];
        orr_ring_release(ring);
    }
    return &sum;
}

static void ring_hands_every_word_over_once(void **state) {
    struct trace_fixture *f = *state;
    for (size_t chunks = 1; chunks <= 4; chunks++) {
        struct orr_ring *ring;
        assert_int_equal(orr_ring_create(&f->memory.table, chunks, 8, &ring), ORR_OK);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, sum_ring, ring), 0);
        uint64_t sum = 0;
        for (uint64_t value = 0; value < 20000; value += 5) {
            orr_ring_wait_writable(ring);
            struct orr_ring_chunk *chunk = orr_ring_writable(ring);
            for (chunk->used = 0; chunk->used < 5; chunk->used++)
                sum += chunk->words[chunk->used] = value + chunk->used;
            orr_ring_publish(ring);
            if (value % 1000 == 0)
                orr_ring_wait_released(ring);
        }
        orr_ring_stop(ring);
        void *result;
        pthread_join(thread, &result);
        assert_int_equal(*(uint64_t *)result, sum);
        orr_ring_destroy(&ring);
    }
}

static void ring_is_full_after_as_many_chunks_as_it_has(void **state) {
    struct trace_fixture *f = *state;
    struct orr_ring *ring;
    assert_int_equal(orr_ring_create(&f->memory.table, 3, 16, &ring), ORR_OK);
    assert_null(orr_ring_readable(ring));
    for (int i = 0; i < 3; i++) {
        assert_non_null(orr_ring_writable(ring));
        orr_ring_writable(ring)->used = (size_t)i;
        orr_ring_publish(ring);
    }
    assert_null(orr_ring_writable(ring));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(orr_ring_readable(ring)->used, i);
        orr_ring_release(ring);
        assert_non_null(orr_ring_writable(ring));
    }
    assert_null(orr_ring_readable(ring));
    orr_ring_destroy(&ring);
    orr_ring_destroy(&ring);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, trace_set_up, trace_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(ring_hands_every_word_over_once),
        CASE(ring_is_full_after_as_many_chunks_as_it_has),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
