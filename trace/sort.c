#include "trace/sort.h"

#include <stdbool.h>
#include <string.h>

enum { DIGIT_BITS_MAX = 11, DIGITS_MAX = 1 << DIGIT_BITS_MAX, INSERTION_RUN = 12 };

/* One stable pass over the digit of `bits` bits that starts at bit `shift`. */
static void radix_pass(const struct orr__sort_key *from, struct orr__sort_key *to, size_t count,
                       unsigned shift, unsigned bits) {
    size_t place[DIGITS_MAX];
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    memset(place, 0, ((size_t)1 << bits) * sizeof *place);
    for (size_t i = 0; i < count; i++) {
        place[(from[i].key >> shift) & mask]++;
    }
    size_t next = 0;
    for (size_t digit = 0; digit <= mask; digit++) {
        size_t here = place[digit];
        place[digit] = next;
        next += here;
    }
    for (size_t i = 0; i < count; i++) {
        to[place[(from[i].key >> shift) & mask]++] = from[i];
    }
}

/* Bits in which keys differ; *out_sorted says whether they are in order already. */
static uint64_t differing_bits(const struct orr__sort_key *keys, size_t count, bool *out_sorted) {
    uint64_t differing = 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        differing |= keys[i].key ^ keys[0].key;
        sorted &= keys[i - 1].key <= keys[i].key;
    }
    *out_sorted = sorted;
    return differing;
}

/* As few passes as digits of at most DIGIT_BITS_MAX bits allow, each of as few bits as that leaves:
 * fewer places written to in turn stay in the cache. */
void orr__sort_keys(struct orr__sort_key *keys, struct orr__sort_key *scratch, size_t count) {
    bool sorted;
    uint64_t differing = differing_bits(keys, count, &sorted);
    if (sorted) {
        return;
    }
    unsigned width = 64 - (unsigned)__builtin_clzll(differing); /* not sorted: some bit differs */
    unsigned passes = (width + DIGIT_BITS_MAX - 1) / DIGIT_BITS_MAX;
    unsigned bits = (width + passes - 1) / passes;
    struct orr__sort_key *from = keys, *to = scratch;
    for (unsigned shift = 0; shift < width; shift += bits) {
        if (((differing >> shift) & (((uint64_t)1 << bits) - 1)) == 0) {
            continue;
        }
        radix_pass(from, to, count, shift, bits);
        struct orr__sort_key *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != keys) {
        memcpy(keys, from, count * sizeof *keys);
    }
}

static void insertion_sort(struct orr__sort_key *keys, size_t count, orr__sort_compare *compare,
                           const void *context) {
    for (size_t i = 1; i < count; i++) {
        struct orr__sort_key moved = keys[i];
        size_t j = i;
        while (j > 0 && compare(context, keys[j - 1].index, moved.index) > 0) {
            keys[j] = keys[j - 1];
            j--;
        }
        keys[j] = moved;
    }
}

/* Merges keys[0, middle) and keys[middle, count), each in order. The first half goes to scratch, so
 * the place written never overtakes the second half's next entry. */
static void merge(struct orr__sort_key *keys, size_t middle, size_t count,
                  struct orr__sort_key *scratch, orr__sort_compare *compare, const void *context) {
    if (compare(context, keys[middle - 1].index, keys[middle].index) <= 0) {
        return;
    }
    memcpy(scratch, keys, middle * sizeof *keys);
    size_t left = 0, right = middle, out = 0;
    while (left < middle && right < count) {
        bool take_left = compare(context, scratch[left].index, keys[right].index) <= 0;
        keys[out++] = take_left ? scratch[left++] : keys[right++];
    }
    memcpy(keys + out, scratch + left, (middle - left) * sizeof *keys);
}

static void sort_run(struct orr__sort_key *keys, struct orr__sort_key *scratch, size_t count,
                     orr__sort_compare *compare, const void *context) {
    for (size_t i = 0; i < count; i += INSERTION_RUN) {
        size_t length = count - i < INSERTION_RUN ? count - i : INSERTION_RUN;
        insertion_sort(keys + i, length, compare, context);
    }
    for (size_t width = INSERTION_RUN; width < count; width *= 2) {
        for (size_t i = 0; count - i > width; i += 2 * width) {
            size_t length = count - i < 2 * width ? count - i : 2 * width;
            merge(keys + i, width, length, scratch, compare, context);
            if (count - i <= 2 * width) {
                break;
            }
        }
    }
}

void orr__sort_ties(struct orr__sort_key *keys, struct orr__sort_key *scratch, size_t count,
                    orr__sort_compare *compare, const void *context) {
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (end < count && keys[end].key == keys[begin].key) {
            end++;
        }
        if (end - begin > 1) {
            sort_run(keys + begin, scratch, end - begin, compare, context);
        }
    }
}
