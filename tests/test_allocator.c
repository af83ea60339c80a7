/* The caching allocator: its bookkeeping against a naive model, and its policy through a runtime
 * whose commands end when the test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/runtime_internal.h"
#include "tests/manual_backend.h"
#include "tests/support.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

/* --- bookkeeping alone --- */

struct books {
    struct memory_counting memory;
    uint64_t serial;
    struct orr__allocator *allocator;
    struct orr__pool *pools[3];
};

static void books_open(struct books *b, uint64_t capacity) {
    *b = (struct books){0};
    memory_counting_init(&b->memory, 0);
    assert_int_equal(orr__allocator_create(&b->memory.table, capacity, &b->serial, &b->allocator),
                     ORR_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(orr__pool_create(b->allocator, i, &b->pools[i]), ORR_OK);
}

static void books_close(struct books *b) {
    orr__allocator_check(b->allocator);
    orr__allocator_destroy(&b->allocator);
    assert_int_equal(b->memory.live, 0);
}

static struct orr__segment *add_segment(struct books *b, uint32_t pool, uint64_t bytes) {
    struct orr__segment *segment;
    assert_int_equal(
        orr__pool_add_segment(b->pools[pool], bytes, orr__segment_bytes(bytes), &segment), ORR_OK);
    return segment;
}

static struct orr__block *take(struct books *b, uint32_t pool, uint64_t bytes) {
    struct orr__block *block;
    assert_int_equal(orr__pool_take(b->pools[pool], bytes, &block), ORR_OK);
    return block;
}

static void sizes_are_rounded_as_the_frameworks_round_them(void **state) {
    (void)state;
    assert_int_equal(orr__block_bytes(1), 512);
    assert_int_equal(orr__block_bytes(512), 512);
    assert_int_equal(orr__block_bytes(513), 1024);
    assert_int_equal(orr__block_bytes(UINT64_MAX), UINT64_MAX / 512 * 512);
    assert_int_equal(orr__segment_bytes(1), 2 * MIB);
    assert_int_equal(orr__segment_bytes(MIB), 2 * MIB);
    assert_int_equal(orr__segment_bytes(MIB + 1), 20 * MIB);
    assert_int_equal(orr__segment_bytes(10 * MIB - 512), 20 * MIB);
    assert_int_equal(orr__segment_bytes(10 * MIB), 10 * MIB);
    assert_int_equal(orr__segment_bytes(11 * MIB), 12 * MIB);
    assert_int_equal(orr__segment_bytes(UINT64_MAX), UINT64_MAX / 512 * 512);
}

static void an_empty_pool_asks_for_a_segment(void **state) {
    (void)state;
    struct books b;
    struct orr__block *block;
    books_open(&b, 100 * MIB);
    assert_int_equal(orr__pool_take(b.pools[0], 1, &block), ORR_NOT_READY);
    assert_null(block);
    add_segment(&b, 0, 1);
    assert_int_equal(orr__pool_take(b.pools[1], 1, &block), ORR_NOT_READY);       /* not its own */
    assert_int_equal(orr__pool_take(b.pools[0], 2 * MIB, &block), ORR_NOT_READY); /* not its size */
    assert_int_equal(take(&b, 0, 1)->bytes, 512);
    books_close(&b);
}

static void the_smallest_block_that_fits_is_taken(void **state) {
    (void)state;
    struct books b;
    books_open(&b, 100 * MIB);
    add_segment(&b, 0, 1);
    struct orr__block *wide = take(&b, 0, 8 * KIB), *wall = take(&b, 0, 512);
    struct orr__block *narrow = take(&b, 0, 4 * KIB), *end = take(&b, 0, 512);
    uint64_t narrow_offset = narrow->offset, wide_offset = wide->offset;
    orr__block_put(wide);
    orr__block_put(narrow);
    assert_int_equal(take(&b, 0, 3 * KIB)->offset, narrow_offset);
    assert_int_equal(take(&b, 0, 8 * KIB)->offset, wide_offset);
    assert_ptr_not_equal(wall, end);
    books_close(&b);
}

static void a_large_block_keeps_a_rest_of_up_to_1_mib(void **state) {
    (void)state;
    struct books b;
    books_open(&b, 100 * MIB);
    add_segment(&b, 0, 9 * MIB);
    struct orr__block *block = take(&b, 0, 19 * MIB);
    assert_int_equal(block->bytes, 20 * MIB);
    orr__block_put(block);
    block = take(&b, 0, 19 * MIB - 512);
    assert_int_equal(block->bytes, 19 * MIB - 512);
    books_close(&b);
}

static void freed_neighbours_merge_into_one_block(void **state) {
    (void)state;
    struct books b;
    books_open(&b, 100 * MIB);
    struct orr__segment *segment = add_segment(&b, 0, 1);
    struct orr__block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = take(&b, 0, 512);
    const int order[4] = {2, 0, 1, 3};
    for (int i = 0; i < 4; i++) {
        assert_false(orr__segment_is_free(segment));
        orr__block_put(blocks[order[i]]);
        orr__allocator_check(b.allocator);
    }
    assert_true(orr__segment_is_free(segment));
    assert_int_equal(segment->first->bytes, 2 * MIB);
    orr__segment_remove(segment);
    assert_int_equal(b.allocator->reserved, 0);
    books_close(&b);
}

static void a_held_block_is_neither_used_nor_handed_out(void **state) {
    (void)state;
    struct books b;
    books_open(&b, 100 * MIB);
    struct orr__segment *segment = add_segment(&b, 0, 1);
    struct orr__block *block = take(&b, 0, MIB);
    uint64_t offset = block->offset;
    orr__block_hold(block);
    assert_int_equal(b.allocator->used, 0);
    assert_int_equal(b.allocator->held, MIB);
    assert_int_not_equal(take(&b, 0, MIB)->offset, offset);
    assert_false(orr__segment_is_free(segment));
    orr__block_put(block);
    assert_int_equal(take(&b, 0, MIB)->offset, offset);
    books_close(&b);
}

static void a_place_is_the_same_for_reuses_and_for_nothing_else(void **state) {
    (void)state;
    struct books b;
    books_open(&b, 100 * MIB);
    struct orr__segment *segment = add_segment(&b, 0, 1);
    struct orr__block *block = take(&b, 0, 4096), *other = take(&b, 0, 4096);
    uint64_t place = orr__block_place(block);
    assert_int_equal(place, 1ull << 32);
    assert_int_equal(orr__block_place(other), place + 8);
    orr__block_put(block);
    assert_int_equal(orr__block_place(take(&b, 0, 4096)), place);
    orr__block_put(segment->first);
    orr__block_put(other);
    orr__segment_remove(segment);
    add_segment(&b, 0, 1);
    assert_int_equal(orr__block_place(take(&b, 0, 4096)), 2ull << 32);
    books_close(&b);
}

static void missing_memory_leaves_everything_as_it_was(void **state) {
    (void)state;
    struct books b;
    struct orr__segment *segment;
    struct orr__block *block;
    books_open(&b, 100 * MIB);
    for (int request = 2; request >= 1; request--) {
        b.memory.fail_at = b.memory.requests + (size_t)request;
        assert_int_equal(orr__pool_add_segment(b.pools[0], 1, 2 * MIB, &segment), ORR_NO_MEMORY);
        orr__allocator_check(b.allocator);
        assert_int_equal(b.allocator->reserved, 0);
    }
    b.memory.fail_at = 0;
    add_segment(&b, 0, 1);
    take(&b, 0, 512);
    b.memory.fail_at = b.memory.requests + 1;
    b.memory.fail_later = true;
    enum orr_status status;
    while ((status = orr__pool_take(b.pools[0], 512, &block)) == ORR_OK) /* spare structs first */
        ;
    assert_int_equal(status, ORR_NO_MEMORY);
    orr__allocator_check(b.allocator);
    books_close(&b);
}

/* --- bookkeeping against a naive model --- */

enum { MODEL_BLOCKS = 400, MODEL_SEGMENTS = 64, MODEL_STEPS = 20000 };

struct model_block {
    struct orr__block *block;
    uint64_t serial, offset, bytes;
    bool held;
};

struct model_segment {
    struct orr__segment *segment;
    uint64_t serial, bytes;
    uint32_t pool;
    bool large;
};

struct model {
    struct books books;
    struct model_block blocks[MODEL_BLOCKS];
    struct model_segment segments[MODEL_SEGMENTS];
    uint32_t block_count, segment_count;
    uint64_t random, digest;
};

/* The smallest gap of a pool between blocks that are not free; ties by serial, then offset. */
static bool model_best_fit(const struct model *m, uint32_t pool, uint64_t wanted,
                           struct model_block *best) {
    bool large = wanted > MIB, found = false;
    for (uint32_t s = 0; s < m->segment_count; s++) {
        const struct model_segment *segment = &m->segments[s];
        if (segment->pool != pool || segment->large != large)
            continue;
        for (uint64_t offset = 0; offset < segment->bytes;) {
            uint64_t end = segment->bytes, next = offset;
            for (uint32_t i = 0; i < m->block_count; i++) {
                const struct model_block *it = &m->blocks[i];
                if (it->serial != segment->serial)
                    continue;
                if (it->offset <= offset && offset < it->offset + it->bytes)
                    next = it->offset + it->bytes;
                else if (it->offset > offset && it->offset < end)
                    end = it->offset;
            }
            if (next > offset) {
                offset = next;
                continue;
            }
            struct model_block gap = {
                .serial = segment->serial, .offset = offset, .bytes = end - offset};
            bool better = !found || gap.bytes < best->bytes ||
                          (gap.bytes == best->bytes && gap.serial < best->serial);
            if (gap.bytes >= wanted && better) {
                *best = gap;
                found = true;
            }
            offset = end;
        }
    }
    return found;
}

static uint64_t random_size(uint64_t *random) {
    switch (random_below(random, 4)) {
    case 0: return 1 + random_below(random, 4 * KIB);
    case 1: return 1 + random_below(random, MIB);
    case 2: return 1 + random_below(random, 24 * MIB);
    default: return 512 * (1 + random_below(random, 8));
    }
}

static bool model_grow(struct model *m, uint32_t pool, uint64_t bytes) {
    uint64_t size = orr__segment_bytes(bytes);
    if (m->segment_count == MODEL_SEGMENTS || !orr__allocator_fits(m->books.allocator, size))
        return false;
    struct orr__segment *segment = add_segment(&m->books, pool, bytes);
    m->segments[m->segment_count++] = (struct model_segment){
        segment, segment->serial, segment->bytes, pool, orr__block_bytes(bytes) > MIB};
    return true;
}

static void model_take(struct model *m) {
    if (m->block_count == MODEL_BLOCKS)
        return;
    uint32_t pool = (uint32_t)random_below(&m->random, 3);
    uint64_t bytes = random_size(&m->random), wanted = orr__block_bytes(bytes);
    struct model_block expected;
    struct orr__block *block;
    bool found = model_best_fit(m, pool, wanted, &expected);
    enum orr_status status = orr__pool_take(m->books.pools[pool], bytes, &block);
    assert_int_equal(status, found ? ORR_OK : ORR_NOT_READY);
    if (!found) {
        if (!model_grow(m, pool, bytes))
            return;
        assert_true(model_best_fit(m, pool, wanted, &expected));
        block = take(&m->books, pool, bytes);
    }
    uint64_t rest = expected.bytes - wanted;
    bool splits = wanted > MIB ? rest > MIB : rest >= 512;
    assert_int_equal(block->segment->serial, expected.serial);
    assert_int_equal(block->offset, expected.offset);
    assert_int_equal(block->bytes, splits ? wanted : expected.bytes);
    m->blocks[m->block_count++] =
        (struct model_block){block, expected.serial, expected.offset, block->bytes, false};
    m->digest = (m->digest ^ orr__block_place(block)) * 0x9e3779b97f4a7c15u;
}

static void model_put(struct model *m) {
    if (m->block_count == 0)
        return;
    uint32_t index = (uint32_t)random_below(&m->random, m->block_count);
    struct model_block *it = &m->blocks[index];
    if (!it->held && random_below(&m->random, 4) == 0) {
        orr__block_hold(it->block);
        it->held = true;
        return;
    }
    orr__block_put(it->block);
    *it = m->blocks[--m->block_count];
}

static void model_give_back(struct model *m) {
    for (uint32_t s = 0; s < m->segment_count; s++) {
        bool empty = true;
        for (uint32_t i = 0; i < m->block_count; i++)
            empty &= m->blocks[i].serial != m->segments[s].serial;
        assert_int_equal(orr__segment_is_free(m->segments[s].segment), empty);
        if (empty) {
            orr__segment_remove(m->segments[s].segment);
            m->segments[s--] = m->segments[--m->segment_count];
        }
    }
}

static uint64_t model_run(uint64_t seed) {
    static struct model m; /* too large for the stack */
    memset(&m, 0, sizeof m);
    m.random = seed;
    books_open(&m.books, 400 * MIB);
    for (int step = 0; step < MODEL_STEPS; step++) {
        /* Phases that fill and phases that drain, so that both ends are reached. */
        uint64_t takes = step / 1000 % 2 ? 40 : 60;
        if (random_below(&m.random, 100) < takes)
            model_take(&m);
        else
            model_put(&m);
        if (random_below(&m.random, 500) == 0)
            model_give_back(&m);
        if (step % 100 == 0)
            orr__allocator_check(m.books.allocator);
    }
    assert_true(m.books.allocator->reuse_count > 1000);
    books_close(&m.books);
    return m.digest;
}

static void random_calls_agree_with_a_naive_model(void **state) {
    (void)state;
    uint64_t seed = random_seed(20240607);
    uint64_t first = model_run(seed);
    assert_int_equal(model_run(seed), first); /* and are the same in every run */
    assert_int_not_equal(model_run(seed + 1), first);
}

/* --- the policy, through a runtime --- */

static struct orr_buffer *alloc(struct orr_stream *stream, uint64_t bytes, const char *label) {
    struct orr_buffer *buffer;
    assert_int_equal(orr_buffer_alloc(stream, bytes, label, &buffer), ORR_OK);
    return buffer;
}

static uint64_t place_of(const struct fixture *f, uint64_t buffer) {
    for (size_t i = 0;; i++) {
        const struct orr_record_buffer *record = record_at(f, ORR_RECORD_BUFFER, i);
        if (record->id == buffer)
            return record->block;
    }
}

static void the_same_stream_gets_freed_bytes_at_once(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *other = orr_device_stream(f.runtime, 0, ORR_STREAM_COPY);
    struct orr_buffer *a = alloc(s, 4096, "a");
    uint64_t a_id = orr_buffer_id(a);
    void *bytes = orr_buffer_pointer(a);
    launch(s, "use", NULL, a); /* still queued when the bytes are handed out again */
    orr_buffer_free(&a);
    assert_null(a);
    struct orr_buffer *b = alloc(other, 4096, "b"), *c = alloc(s, 4096, "c");
    assert_ptr_not_equal(orr_buffer_pointer(b), bytes);
    assert_ptr_equal(orr_buffer_pointer(c), bytes);
    assert_int_equal(place_of(&f, orr_buffer_id(c)), place_of(&f, a_id));
    assert_int_not_equal(place_of(&f, orr_buffer_id(b)), place_of(&f, a_id));
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 0);
    fixture_close(&f);
}

static void a_recorded_stream_defers_reuse_until_its_work_is_done(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *user = orr_device_stream(f.runtime, 0, ORR_STREAM_COMMUNICATE);
    struct orr_buffer *a = alloc(s, 4096, "a");
    void *bytes = orr_buffer_pointer(a);
    assert_int_equal(orr_buffer_record_stream(a, user), ORR_OK);
    struct orr_point use = launch(user, "use", a, NULL);
    orr_buffer_free(&a);
    launch(user, "later", NULL, NULL); /* queued after the free: does not count */
    assert_int_equal(orr_device_memory(f.runtime, 0).allocated, 0);
    struct orr_buffer *b = alloc(s, 4096, "b");
    assert_ptr_not_equal(orr_buffer_pointer(b), bytes);
    assert_true(manual_finish(manual, orr_stream_id(user)));
    struct orr_buffer *c = alloc(s, 4096, "c");
    assert_ptr_equal(orr_buffer_pointer(c), bytes);
    uint64_t alloc_cmd = 0;
    for (size_t i = 0; i < record_count(&f, ORR_RECORD_BUFFER); i++) {
        const struct orr_record_buffer *record = record_at(&f, ORR_RECORD_BUFFER, i);
        if (record->id == orr_buffer_id(c))
            alloc_cmd = record->alloc_cmd;
    }
    assert_true(has_edge(&f, ORR_EDGE_ALLOCATOR, use.cmd, alloc_cmd));
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 1);
    orr_buffer_free(&c); /* the next owner on the same stream needs no edge */
    c = alloc(s, 4096, "d");
    assert_ptr_equal(orr_buffer_pointer(c), bytes);
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 1);
    fixture_close(&f);
}

static void work_that_is_done_at_the_free_gives_an_edge_too(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *user = orr_device_stream(f.runtime, 0, ORR_STREAM_COMMUNICATE);
    struct orr_buffer *a = alloc(s, 4096, "a");
    void *bytes = orr_buffer_pointer(a);
    assert_int_equal(orr_buffer_record_stream(a, user), ORR_OK);
    assert_int_equal(orr_buffer_record_stream(a, user), ORR_OK); /* again: nothing more */
    struct orr_point use = launch(user, "use", a, NULL);
    manual_finish_all(manual_of(f.runtime));
    orr_buffer_free(&a);
    /* Two halves: each new owner has the edge. */
    struct orr_buffer *b = alloc(s, 2048, "b"), *c = alloc(s, 2048, "c");
    assert_ptr_equal(orr_buffer_pointer(b), bytes);
    assert_ptr_equal(orr_buffer_pointer(c), (char *)bytes + 2048);
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 2);
    const struct orr_record_edge *edge = record_at(&f, ORR_RECORD_EDGE, 1);
    assert_int_equal(edge->src, use.cmd);
    fixture_close(&f);
}

static void recording_the_own_stream_or_an_idle_one_defers_nothing(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *idle = orr_device_stream(f.runtime, 0, ORR_STREAM_COMMUNICATE);
    struct orr_buffer *a = alloc(s, 4096, "a");
    void *bytes = orr_buffer_pointer(a);
    launch(s, "use", NULL, a);
    assert_int_equal(orr_buffer_record_stream(a, s), ORR_OK);
    assert_int_equal(orr_buffer_record_stream(a, idle), ORR_OK);
    orr_buffer_free(&a);
    a = alloc(s, 4096, "b");
    assert_ptr_equal(orr_buffer_pointer(a), bytes);
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 0);
    fixture_close(&f);
}

static void a_new_owner_of_old_bytes_has_them_undefined_in_the_order_of_its_stream(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *a = alloc(s, 1000, "a");
    assert_int_equal(manual->memories[0].undefines, 0); /* fresh: the backend knows */
    launch(s, "use", NULL, a);
    orr_buffer_free(&a);
    a = alloc(s, 1000, "b"); /* "use" is queued: the backend keeps the order */
    assert_int_equal(manual->memories[0].undefines, 1);
    assert_int_equal(manual->memories[0].undefine_stream, orr_stream_id(s));
    orr_buffer_free(&a);
    manual_finish_all(manual);
    a = alloc(s, 1000, "c");
    assert_int_equal(manual->memories[0].undefines, 2);
    assert_int_equal(manual->memories[0].undefine_offset, 0);
    assert_int_equal(manual->memories[0].undefine_bytes, 1024);
    fixture_close(&f);
}

static void usage_counts_what_is_asked_used_and_reserved(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 2);
    struct orr_stream *s = orr_device_stream(f.runtime, 1, ORR_STREAM_COMPUTE);
    struct orr_buffer *a = alloc(s, 1000, "a"), *b = alloc(s, 5 * MIB, "b");
    struct orr_memory_usage usage = orr_device_memory(f.runtime, 1);
    assert_int_equal(usage.capacity, 1 << 30);
    assert_int_equal(usage.requested, 1000 + 5 * MIB);
    assert_int_equal(usage.allocated, 1024 + 5 * MIB);
    assert_int_equal(usage.reserved, 22 * MIB);
    orr_buffer_free(&a);
    orr_buffer_free(&b);
    b = alloc(s, 5 * MIB, "b");
    usage = orr_device_memory(f.runtime, 1);
    assert_int_equal(usage.allocated, 5 * MIB);
    assert_int_equal(usage.allocated_peak, 1024 + 5 * MIB);
    assert_int_equal(usage.alloc_count, 3);
    assert_int_equal(usage.reuse_count, 1);
    assert_int_equal(orr_device_memory(f.runtime, 0).reserved, 0);
    assert_int_equal(orr_device_memory(f.runtime, 7).capacity, 0);
    /* What is reserved is told when it changes, before what is allocated of it. */
    static const struct {
        const char *name;
        uint64_t value;
    } counters[] = {{"reserved bytes", 2 * MIB},  {"memory bytes", 1024},
                    {"reserved bytes", 22 * MIB}, {"memory bytes", 1024 + 5 * MIB},
                    {"memory bytes", 5 * MIB},    {"memory bytes", 0},
                    {"memory bytes", 5 * MIB}};
    assert_int_equal(record_count(&f, ORR_RECORD_COUNTER), sizeof counters / sizeof *counters);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        const struct orr_record_counter *counter = record_at(&f, ORR_RECORD_COUNTER, i);
        assert_string_equal(name_text(&f, counter->name), counters[i].name);
        assert_int_equal(counter->device, 1);
        assert_true(counter->value == (double)counters[i].value);
    }
    fixture_close(&f);
}

/* --- the end of the capacity --- */

static void out_of_memory_says_who_has_it(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 64 * MIB;
    fixture_start(&f);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    const char *labels[7] = {"a", "b", "c", "d", "e", "f", NULL};
    for (uint64_t i = 0; i < 7; i++) {
        char site[16] = "main.lua:10";
        site[10] = (char)('0' + i);
        assert_int_equal(orr_runtime_set_caller(f.runtime, 0, site), ORR_OK);
        alloc(s, (i + 1) * MIB, labels[i]);
    }
    struct orr_buffer *buffer = (void *)&f;
    assert_int_equal(orr_runtime_set_caller(f.runtime, 0, "main.lua:99"), ORR_OK);
    assert_int_equal(orr_buffer_alloc(s, 50 * MIB, "big", &buffer), ORR_DEVICE_MEMORY);
    assert_null(buffer);
    assert_string_equal(fixture_error(&f),
                        "main.lua:99: device 0 (test) is out of memory: asked for 52428800 bytes, "
                        "29360128 used (44040192 reserved), capacity 67108864; largest live "
                        "buffers: '(no label)' 7340032 bytes at main.lua:16, 'f' 6291456 bytes at "
                        "main.lua:15, 'e' 5242880 bytes at main.lua:14, 'd' 4194304 bytes at "
                        "main.lua:13, 'c' 3145728 bytes at main.lua:12");
    assert_int_equal(orr_buffer_alloc(s, UINT64_MAX, "huge", &buffer), ORR_DEVICE_MEMORY);
    assert_int_equal(orr_buffer_alloc(s, 0, "none", &buffer), ORR_INVALID);
    fixture_close(&f);
}

static void the_whole_capacity_can_be_used(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 5 * MIB;
    fixture_start(&f);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    alloc(s, 3 * MIB, "a"); /* a segment of 20 MiB would not fit */
    alloc(s, 1, "b");       /* but one of 2 MiB does */
    struct orr_buffer *buffer;
    assert_int_equal(orr_buffer_alloc(s, 2 * MIB - 511, "c", &buffer), ORR_DEVICE_MEMORY);
    alloc(s, MIB, "c");
    alloc(s, MIB - 512, "d");
    assert_int_equal(orr_device_memory(f.runtime, 0).allocated, 5 * MIB);
    assert_int_equal(orr_buffer_alloc(s, 1, "e", &buffer), ORR_DEVICE_MEMORY);
    fixture_close(&f);
}

static void cached_segments_are_given_back_before_memory_is_out(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 64 * MIB;
    fixture_start(&f);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *a = alloc(s, 20 * MIB, "a"), *b = alloc(s, 22 * MIB, "b");
    orr_buffer_free(&a);
    orr_buffer_free(&b);
    assert_int_equal(orr_device_memory(f.runtime, 0).reserved, 42 * MIB);
    alloc(s, 40 * MIB, "c"); /* giving back the older one is enough */
    assert_int_equal(orr_device_memory(f.runtime, 0).reserved, 62 * MIB);
    assert_int_equal(manual->memories_live, 2);
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 0);
    fixture_close(&f);
}

static void memory_in_use_by_queued_work_is_waited_for(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 64 * MIB;
    fixture_start(&f);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_stream *user = orr_device_stream(f.runtime, 0, ORR_STREAM_COMMUNICATE);
    struct orr_buffer *a = alloc(s, 20 * MIB, "a"), *b = alloc(s, 20 * MIB, "b");
    launch(s, "use a", NULL, a);
    struct orr_point point = launch(user, "use b", NULL, b);
    assert_int_equal(orr_buffer_record_stream(b, user), ORR_OK);
    orr_buffer_free(&a);
    orr_buffer_free(&b);
    struct orr_buffer *c;
    manual->block_waits = true; /* another host has to run first: nothing is lost, call again */
    assert_int_equal(orr_buffer_alloc(s, 50 * MIB, "c", &c), ORR_BLOCKED);
    assert_null(c);
    manual->block_waits = false;
    assert_int_equal(orr_buffer_alloc(s, 50 * MIB, "c", &c), ORR_OK);
    assert_int_equal(manual->memories_live, 1);
    const struct orr_record_sync *sync = record_at(&f, ORR_RECORD_SYNC, 0);
    assert_int_equal(sync->header.a, ORR_SYNC_DEVICE);
    assert_int_equal(sync->cmd, point.cmd);
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 1);
    fixture_close(&f);
}

static void a_failed_allocation_does_not_wait_in_vain(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].memory_bytes = 64 * MIB;
    fixture_start(&f);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *a = alloc(s, 20 * MIB, "a"), *b;
    launch(s, "use", NULL, a);
    assert_int_equal(orr_buffer_alloc(s, 50 * MIB, "b", &b), ORR_DEVICE_MEMORY);
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 0);
    assert_int_equal(orr_stream_query(s), ORR_NOT_READY);
    fixture_close(&f);
}

/* --- random programs against a naive model --- */

enum { PROGRAM_BUFFERS = 60, PROGRAM_STEPS = 6000, PROGRAM_STREAMS = 3 };

struct program_buffer {
    struct orr_buffer *buffer; /* NULL once freed */
    uint64_t place, bytes;
    uint32_t stream;
    uint32_t recorded;                   /* bits: streams */
    uint64_t until_seq[PROGRAM_STREAMS]; /* of the recorded ones, when freed */
};

struct program {
    struct fixture f;
    struct manual_backend *manual;
    struct orr_stream *streams[PROGRAM_STREAMS];
    struct program_buffer buffers[PROGRAM_BUFFERS];
    uint64_t random, digest;
};

static bool overlap(const struct program_buffer *a, const struct program_buffer *b) {
    if (a->place >> 32 != b->place >> 32)
        return false;
    uint64_t a_begin = (a->place & UINT32_MAX) * 512, b_begin = (b->place & UINT32_MAX) * 512;
    return a_begin < b_begin + b->bytes && b_begin < a_begin + a->bytes;
}

static bool is_deferred(const struct program *p, const struct program_buffer *it) {
    for (uint32_t i = 0; i < PROGRAM_STREAMS; i++)
        if (it->recorded >> i & 1 && p->manual->streams[i].retired < it->until_seq[i])
            return true;
    return false;
}

static void program_alloc(struct program *p, struct program_buffer *it) {
    uint32_t stream = (uint32_t)random_below(&p->random, PROGRAM_STREAMS);
    uint64_t bytes = random_size(&p->random);
    struct orr_buffer *buffer;
    enum orr_status status = orr_buffer_alloc(p->streams[stream], bytes, "b", &buffer);
    if (status != ORR_OK) {
        assert_int_equal(status, ORR_DEVICE_MEMORY);
        return;
    }
    struct program_buffer made = {.buffer = buffer,
                                  .place = orr__block_place(buffer->block),
                                  .bytes = bytes,
                                  .stream = stream};
    for (int i = 0; i < PROGRAM_BUFFERS; i++) {
        const struct program_buffer *other = &p->buffers[i];
        if (other->bytes == 0 || !overlap(&made, other))
            continue;
        assert_null(other->buffer);                   /* not live */
        assert_false(is_deferred(p, other));          /* its recorded streams are done */
        assert_int_equal(other->stream, made.stream); /* a segment is one stream's */
    }
    *it = made;
    p->digest = (p->digest ^ made.place) * 0x9e3779b97f4a7c15u;
}

static void program_free(struct program *p, struct program_buffer *it) {
    for (uint32_t i = 0; i < PROGRAM_STREAMS; i++)
        it->until_seq[i] = p->manual->streams[i].submitted;
    it->recorded &= ~(1u << it->stream);
    orr_buffer_free(&it->buffer);
}

static void program_use(struct program *p, struct program_buffer *it) {
    uint32_t user = (uint32_t)random_below(&p->random, PROGRAM_STREAMS);
    if (p->manual->streams[user].count + 2 >= p->manual->depth)
        return;
    if (user != it->stream) {
        assert_int_equal(orr_buffer_record_stream(it->buffer, p->streams[user]), ORR_OK);
        it->recorded |= 1u << user;
    }
    launch(p->streams[user], "use", it->buffer, NULL);
}

static void program_check(const struct program *p) {
    struct orr_memory_usage usage = orr_device_memory(p->f.runtime, 0);
    const struct orr__allocator *allocator = p->f.runtime->devices[0].allocator;
    uint64_t requested = 0;
    orr__allocator_check(allocator);
    for (int i = 0; i < PROGRAM_BUFFERS; i++)
        requested += p->buffers[i].buffer ? p->buffers[i].bytes : 0;
    assert_int_equal(usage.requested, requested);
    assert_true(usage.allocated >= requested && usage.reserved <= usage.capacity);
    assert_int_equal(usage.reserved, usage.allocated + allocator->held + allocator->free);
}

static uint64_t program_run(uint64_t seed) {
    static struct program p; /* too large for the stack */
    memset(&p, 0, sizeof p);
    p.random = seed;
    fixture_prepare(&p.f, manual_open, 1);
    p.f.specs[0].memory_bytes = 200 * MIB;
    p.f.config.timing_only = true; /* no memory is needed behind the blocks */
    p.f.config.sink = NULL;
    fixture_start(&p.f);
    p.manual = manual_of(p.f.runtime);
    for (uint32_t i = 0; i < PROGRAM_STREAMS; i++)
        p.streams[i] = orr_device_stream(p.f.runtime, 0, (enum orr_stream_kind)i);
    for (int step = 0; step < PROGRAM_STEPS; step++) {
        struct program_buffer *it = &p.buffers[random_below(&p.random, PROGRAM_BUFFERS)];
        uint32_t what = (uint32_t)random_below(&p.random, 10);
        if (what >= 8)
            manual_finish(p.manual, (uint32_t)random_below(&p.random, PROGRAM_STREAMS));
        else if (!it->buffer && p.manual->memory_count < MANUAL_MEMORIES_MAX)
            program_alloc(&p, it);
        else if (it->buffer && what < 3)
            program_free(&p, it);
        else if (it->buffer)
            program_use(&p, it);
        if (step % 50 == 0)
            program_check(&p);
    }
    uint64_t reuses = orr_device_memory(p.f.runtime, 0).reuse_count;
    assert_true(reuses > 20);
    for (int i = 0; i < PROGRAM_BUFFERS; i++)
        orr_buffer_free(&p.buffers[i].buffer);
    manual_finish_all(p.manual);
    program_check(&p);
    assert_int_equal(orr_device_memory(p.f.runtime, 0).allocated, 0);
    fixture_close(&p.f);
    return p.digest;
}

static void random_programs_never_share_bytes_too_early(void **state) {
    (void)state;
    uint64_t seed = random_seed(77);
    uint64_t first = program_run(seed);
    assert_int_equal(program_run(seed), first);
    for (uint64_t i = 1; i < 10; i++)
        program_run(seed + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_as_the_frameworks_round_them),
        cmocka_unit_test(an_empty_pool_asks_for_a_segment),
        cmocka_unit_test(the_smallest_block_that_fits_is_taken),
        cmocka_unit_test(a_large_block_keeps_a_rest_of_up_to_1_mib),
        cmocka_unit_test(freed_neighbours_merge_into_one_block),
        cmocka_unit_test(a_held_block_is_neither_used_nor_handed_out),
        cmocka_unit_test(a_place_is_the_same_for_reuses_and_for_nothing_else),
        cmocka_unit_test(missing_memory_leaves_everything_as_it_was),
        cmocka_unit_test(random_calls_agree_with_a_naive_model),
        cmocka_unit_test(the_same_stream_gets_freed_bytes_at_once),
        cmocka_unit_test(a_recorded_stream_defers_reuse_until_its_work_is_done),
        cmocka_unit_test(work_that_is_done_at_the_free_gives_an_edge_too),
        cmocka_unit_test(recording_the_own_stream_or_an_idle_one_defers_nothing),
        cmocka_unit_test(a_new_owner_of_old_bytes_has_them_undefined_in_the_order_of_its_stream),
        cmocka_unit_test(usage_counts_what_is_asked_used_and_reserved),
        cmocka_unit_test(out_of_memory_says_who_has_it),
        cmocka_unit_test(the_whole_capacity_can_be_used),
        cmocka_unit_test(cached_segments_are_given_back_before_memory_is_out),
        cmocka_unit_test(memory_in_use_by_queued_work_is_waited_for),
        cmocka_unit_test(a_failed_allocation_does_not_wait_in_vain),
        cmocka_unit_test(random_programs_never_share_bytes_too_early),
    };
    return cmocka_run_group_tests_name("allocator", tests, NULL, NULL);
}
