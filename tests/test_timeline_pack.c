/* A timeline as bytes and back; bytes that are none are refused, whatever they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/random_numbers.h"
#include "tests/timeline_random.h"
#include "tests/trace_support.h"
#include "trace/base64.h"
#include "trace/timeline_pack.h"

enum { DRAWS = 200, MUTATIONS = 4000 };

static void pack(struct trace_fixture *f, const struct orr_timeline *timeline,
                 unsigned char **out_bytes, size_t *out_size) {
    assert_int_equal(orr__timeline_pack(timeline, &f->memory.table, out_bytes, out_size), ORR_OK);
}

static void random_timelines_come_back(void **state) {
    struct trace_fixture *f = *state;
    const uint64_t first = trace_seed();
    char text[TIMELINE_DIFFERENCE_MAX];
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        enum timeline_sort sort = draw % 2 ? TIMELINE_OWN : TIMELINE_IMPORTED;
        struct orr_timeline *timeline = timeline_random(&f->memory.table, first + draw, sort);
        struct orr_timeline *other;
        unsigned char *bytes, *again;
        size_t size, again_size;
        pack(f, timeline, &bytes, &size);
        if (orr__timeline_unpack(bytes, size, &f->memory.table, &other, &f->error) != ORR_OK)
            fail_msg("seed %llu: %s", (unsigned long long)(first + draw), f->error.text);
        const char *difference = timeline_difference(timeline, other, text);
        if (difference)
            fail_msg("seed %llu: %s", (unsigned long long)(first + draw), difference);
        pack(f, other, &again, &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(bytes, again, size);
        orr_memory_free(&f->memory.table, bytes);
        orr_memory_free(&f->memory.table, again);
        orr_timeline_destroy(&timeline);
        orr_timeline_destroy(&other);
    }
}

/* What is regular takes little: a plain kernel less than the 32 bytes of its four times. */
static void a_regular_trace_is_small(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline;
    enum { COMMANDS = 10000 };
    assert_int_equal(orr_timeline_create(&f->memory.table, &timeline), ORR_OK);
    timeline->commands = orr_memory_alloc(&f->memory.table, COMMANDS * sizeof *timeline->commands);
    timeline->command_count = COMMANDS;
    for (size_t i = 0; i < COMMANDS; i++) {
        int64_t at = (int64_t)(i * 5000 + i * i % 977);
        timeline->commands[i] = (struct orr_timeline_command){.id = i + 1,
                                                              .op = i / 3 + 1,
                                                              .name = i % 2 ? "gemm" : "relu",
                                                              .event = "",
                                                              .site = "",
                                                              .ts_source = "virtual",
                                                              .grid = "",
                                                              .enqueue_ns = at,
                                                              .enqueued_ns = at + 2500,
                                                              .ready_ns = at + 2500,
                                                              .start_ns = at + 6000,
                                                              .finish_ns = at + 9000,
                                                              .correlation = ORR_CORRELATION_NONE};
    }
    unsigned char *bytes;
    size_t size;
    pack(f, timeline, &bytes, &size);
    assert_in_range(size, 1, 16 * COMMANDS);
    orr_memory_free(&f->memory.table, bytes);
    orr_timeline_destroy(&timeline);
}

/* Changed, cut and made-up bytes: refused, or read as another timeline that can be packed. */
static void mutated_bytes_are_refused_or_make_sense(void **state) {
    struct trace_fixture *f = *state;
    uint64_t random = trace_seed() | 1;
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 6, TIMELINE_IMPORTED);
    unsigned char *bytes;
    size_t size, refused = 0;
    pack(f, timeline, &bytes, &size);
    unsigned char *copy = malloc(size);
    for (int draw = 0; draw < MUTATIONS; draw++) {
        size_t length = random_below(&random, 4) ? size : (size_t)random_below(&random, size);
        memcpy(copy, bytes, size);
        for (uint64_t k = random_below(&random, 4); k > 0; k--)
            copy[random_below(&random, size)] = (unsigned char)random_next(&random);
        struct orr_timeline *other;
        enum orr_status status =
            orr__timeline_unpack(copy, length, &f->memory.table, &other, &f->error);
        assert_true(status == ORR_OK || status == ORR_INVALID || status == ORR_NO_MEMORY);
        refused += status != ORR_OK;
        if (status != ORR_OK) {
            assert_null(other);
            assert_true(strlen(f->error.text) > 0);
            continue;
        }
        unsigned char *again;
        size_t again_size;
        pack(f, other, &again, &again_size);
        orr_memory_free(&f->memory.table, again);
        orr_timeline_destroy(&other);
    }
    assert_true(refused > MUTATIONS / 4);
    free(copy);
    orr_memory_free(&f->memory.table, bytes);
    orr_timeline_destroy(&timeline);
}

static void every_cut_is_noticed(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline = timeline_random(&f->memory.table, 8, TIMELINE_IMPORTED), *other;
    unsigned char *bytes;
    size_t size;
    pack(f, timeline, &bytes, &size);
    for (size_t length = 0; length < size; length++)
        assert_int_equal(orr__timeline_unpack(bytes, length, &f->memory.table, &other, &f->error),
                         ORR_INVALID);
    orr_memory_free(&f->memory.table, bytes);
    orr_timeline_destroy(&timeline);
}

/* A few bytes that ask for more items than they can describe. */
static void little_cannot_ask_for_much(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *empty, *other;
    unsigned char *bytes;
    size_t size;
    assert_int_equal(orr_timeline_create(&f->memory.table, &empty), ORR_OK);
    pack(f, empty, &bytes, &size);
    /* Behind version, fingerprint, texts and source come 21 counts, all 0. */
    unsigned char *made = calloc(1, size + 16);
    memcpy(made, bytes, size);
    memcpy(made + size - 21, "\xff\xff\xff\xff\xff\xff\x03", 7);
    assert_int_equal(orr__timeline_unpack(made, size + 16, &f->memory.table, &other, &f->error),
                     ORR_INVALID);
    assert_string_equal(f->error.text, "meta: more items than bytes");
    free(made);
    orr_memory_free(&f->memory.table, bytes);
    orr_timeline_destroy(&empty);
}

static void without_memory_nothing_is_left(void **state) {
    struct trace_fixture *f = *state;
    struct orr_memory system = orr_memory_system();
    struct orr_timeline *timeline = timeline_random(&system, 5, TIMELINE_IMPORTED);
    unsigned char *bytes;
    size_t size, tries = 0;
    for (int half = 0; half < 2; half++) {
        enum orr_status status = ORR_NO_MEMORY;
        for (size_t fail_at = 1; status != ORR_OK && fail_at < 200; fail_at++, tries++) {
            struct trace_memory memory;
            struct orr_timeline *other = NULL;
            trace_memory_init(&memory, fail_at);
            if (half == 0)
                status = orr__timeline_pack(timeline, &memory.table, &bytes, &size);
            else
                status = orr__timeline_unpack(bytes, size, &memory.table, &other, &f->error);
            assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
            if (status == ORR_OK && half == 0) { /* freed later, by another table */
                unsigned char *copy = malloc(size);
                memcpy(copy, bytes, size);
                orr_memory_free(&memory.table, bytes);
                bytes = copy;
            }
            orr_timeline_destroy(&other);
            assert_int_equal(memory.live, 0);
        }
        assert_int_equal(status, ORR_OK);
    }
    assert_true(tries > 20);
    free(bytes);
    orr_timeline_destroy(&timeline);
}

static void base64_follows_the_standard(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    static const char *const wrong[] = {
        "Z", "Zg=", "Zg==Zg==", "Z===", "Zm9v\nZm9", "Zm_v", "=Zg="};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[16] = "";
        unsigned char bytes[16] = "";
        size_t size, length = strlen(pairs[i][0]);
        orr__base64_encode((const unsigned char *)pairs[i][0], length, text);
        assert_string_equal(text, pairs[i][1]);
        assert_true(orr__base64_decode(text, strlen(text), bytes, &size));
        assert_int_equal(size, length);
        assert_memory_equal(bytes, pairs[i][0], length);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char bytes[16];
        size_t size;
        assert_false(orr__base64_decode(wrong[i], strlen(wrong[i]), bytes, &size));
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, trace_set_up, trace_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(random_timelines_come_back),
        CASE(a_regular_trace_is_small),
        CASE(mutated_bytes_are_refused_or_make_sense),
        CASE(every_cut_is_noticed),
        CASE(little_cannot_ask_for_much),
        CASE(without_memory_nothing_is_left),
        CASE(base64_follows_the_standard),
    };
    return cmocka_run_group_tests_name("timeline_pack", tests, NULL, NULL);
}
