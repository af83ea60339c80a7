#include "analyzer/sort.h"

#include <assert.h>
#include <string.h>

/* Runs shorter than this are extended by insertion: merging pairs of single items costs more. */
enum { RUN_MIN = 16 };

struct order {
    bool (*before)(const void *context, uint32_t a, uint32_t b);
    const void *context;
};

/* Length of the ascending run at the start. */
static size_t run_length(const struct order *order, const uint32_t *items, size_t count) {
    size_t length = 1;
    while (length < count && !order->before(order->context, items[length], items[length - 1])) {
        length++;
    }
    return length;
}

/* Extends a sorted prefix to `length` items. */
static void insert_until(const struct order *order, uint32_t *items, size_t sorted, size_t length) {
    for (size_t i = sorted; i < length; i++) {
        uint32_t item = items[i];
        size_t at = i;
        while (at > 0 && order->before(order->context, item, items[at - 1])) {
            items[at] = items[at - 1];
            at--;
        }
        items[at] = item;
    }
}

/* Finds the runs of the whole array; `ends` gets the end of each. Returns their number. */
static size_t find_runs(const struct order *order, uint32_t *items, size_t count, size_t *ends) {
    size_t runs = 0;
    for (size_t begin = 0; begin < count;) {
        size_t left = count - begin;
        size_t length = run_length(order, items + begin, left);
        size_t wanted = left < RUN_MIN ? left : RUN_MIN;
        if (length < wanted) {
            insert_until(order, items + begin, length, wanted);
            length = wanted;
        }
        begin += length;
        ends[runs++] = begin;
    }
    return runs;
}

static void merge(const struct order *order, const uint32_t *from, size_t begin, size_t middle,
                  size_t end, uint32_t *to) {
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        bool take_b = b < end && (a >= middle || order->before(order->context, from[b], from[a]));
        to[i] = take_b ? from[b++] : from[a++];
    }
}

/* One pass: pairs of runs of `from` become runs of `to`. */
static size_t merge_pairs(const struct order *order, const uint32_t *from, size_t *ends,
                          size_t runs, uint32_t *to) {
    size_t kept = 0, begin = 0;
    for (size_t run = 0; run < runs; run += 2) {
        size_t middle = ends[run];
        size_t end = run + 1 < runs ? ends[run + 1] : middle;
        merge(order, from, begin, middle, end, to);
        ends[kept++] = end;
        begin = end;
    }
    return kept;
}

enum orr_status orr__sort_indices(const struct orr_memory *memory, uint32_t *indices, size_t count,
                                  bool (*before)(const void *context, uint32_t a, uint32_t b),
                                  const void *context) {
    struct order order = {before, context};
    if (count < 2 || run_length(&order, indices, count) == count) {
        return ORR_OK;
    }
    size_t runs_max = count / RUN_MIN + 1;
    size_t *ends = orr_memory_resize(memory, NULL, runs_max * sizeof *ends);
    uint32_t *scratch = orr_memory_resize(memory, NULL, count * sizeof *scratch);
    if (!ends || !scratch) {
        orr_memory_free(memory, ends);
        orr_memory_free(memory, scratch);
        return ORR_NO_MEMORY;
    }
    size_t runs = find_runs(&order, indices, count, ends);
    assert(runs <= runs_max);
    uint32_t *from = indices, *to = scratch;
    while (runs > 1) {
        runs = merge_pairs(&order, from, ends, runs, to);
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != indices) {
        memcpy(indices, from, count * sizeof *indices);
    }
    orr_memory_free(memory, ends);
    orr_memory_free(memory, scratch);
    return ORR_OK;
}

/* Order-preserving map of signed to unsigned. */
static uint64_t time_key(int64_t value) {
    return (uint64_t)value ^ (UINT64_C(1) << 63);
}

static bool times_sorted(const int64_t *values, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (values[i] < values[i - 1]) {
            return false;
        }
    }
    return true;
}

/* One radix pass over byte `byte`; returns false if all values agree in it. */
static bool radix_pass(const int64_t *from, int64_t *to, size_t count, unsigned byte) {
    size_t places[256] = {0};
    for (size_t i = 0; i < count; i++) {
        places[(time_key(from[i]) >> (8 * byte)) & 255]++;
    }
    if (places[(time_key(from[0]) >> (8 * byte)) & 255] == count) {
        return false;
    }
    size_t sum = 0;
    for (unsigned digit = 0; digit < 256; digit++) {
        size_t here = places[digit];
        places[digit] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++) {
        to[places[(time_key(from[i]) >> (8 * byte)) & 255]++] = from[i];
    }
    return true;
}

enum orr_status orr__sort_times(const struct orr_memory *memory, int64_t *values, size_t count) {
    if (times_sorted(values, count)) {
        return ORR_OK;
    }
    int64_t *scratch = orr_memory_resize(memory, NULL, count * sizeof *scratch);
    if (!scratch) {
        return ORR_NO_MEMORY;
    }
    int64_t *from = values, *to = scratch;
    for (unsigned byte = 0; byte < 8; byte++) {
        if (radix_pass(from, to, count, byte)) {
            int64_t *swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != values) {
        memcpy(values, from, count * sizeof *values);
    }
    orr_memory_free(memory, scratch);
    return ORR_OK;
}

int64_t orr__sorted_median(const int64_t *values, size_t count) {
    assert(count > 0);
    return values[(count - 1) / 2];
}

int64_t orr__sorted_p95(const int64_t *values, size_t count) {
    assert(count > 0);
    /* ceil(95 n / 100) - 1, without a product that could overflow. */
    return values[count - count / 20 - 1];
}
