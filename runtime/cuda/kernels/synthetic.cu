/* Kernels of synthetic.h. */
#include "device.h"

#include "runtime/cuda/kernels/random.h"
#include "runtime/cuda/kernels/synthetic.h"

enum { LANES = 4, WORD = 8 };

/* One step of a lane. */
DEVICE uint64_t take_in(uint64_t state, uint64_t word) {
    state = (state ^ word) * SPLITMIX_STEP;
    return state ^ state >> 32;
}

/* Word `i` of a range, of which the last may be short, and which may start anywhere. */
DEVICE uint64_t word_of(const struct orr__k_range *range, int64_t i) {
    const unsigned char *at = range->data + i * WORD;
    int64_t left = range->bytes - i * WORD;
    uint64_t word = 0;
    if (left >= WORD && (uintptr_t)at % WORD == 0)
        return *(const uint64_t *)(const void *)at;
    for (int byte = 0; byte < WORD && byte < left; byte++)
        word |= (uint64_t)at[byte] << 8 * byte;
    return word;
}

/* A tile is fetched by all threads, then each lane takes in its words of it. */
DEVICE uint64_t take_range(struct lane lane, const struct orr__k_range *range, uint64_t digest) {
    uint64_t *states = (uint64_t *)shared_memory(lane), *tile = states + LANES;
    int64_t words = (range->bytes + WORD - 1) / WORD;
    block_sync(lane);
    for (int i = thread_index(lane); i < LANES; i += thread_count(lane))
        states[i] = splitmix_mix(digest + (uint64_t)i * SPLITMIX_STEP);
    for (int64_t first = 0; first < words; first += ORR__K_SYNTHETIC_TILE) {
        int64_t rest = words - first;
        int count = (int)(rest < ORR__K_SYNTHETIC_TILE ? rest : ORR__K_SYNTHETIC_TILE);
        block_sync(lane);
        for (int i = thread_index(lane); i < count; i += thread_count(lane))
            tile[i] = word_of(range, first + i);
        block_sync(lane);
        for (int own = thread_index(lane); own < LANES; own += thread_count(lane))
            for (int i = own; i < count; i += LANES)
                states[own] = take_in(states[own], tile[i]);
    }
    block_sync(lane);
    digest = splitmix_mix((uint64_t)range->bytes);
    for (int i = 0; i < LANES; i++)
        digest = splitmix_mix(take_in(digest, states[i]));
    return digest;
}

KERNEL(synthetic_read, struct orr__k_synthetic_read) {
    if (block_index(lane) > 0)
        return;
    uint64_t digest = a->begins ? a->begin : *a->digest;
    /* Every range synchronizes, so all have read the digest before the first thread writes it. */
    for (int i = 0; i < a->count; i++)
        digest = take_range(lane, &a->ranges[i], digest);
    if (thread_index(lane) == 0)
        *a->digest = digest;
}

/* 23 random bits as an f32 in [-1, 1). */
DEVICE uint32_t unit_bits(uint32_t bits) {
    return f32_bits(f32_of_bits(0x40000000u | bits >> 9) - 3.0f);
}

DEVICE void write_range(struct lane lane, const struct orr__k_range *range, uint64_t digest) {
    int64_t words = (range->bytes + WORD - 1) / WORD;
    for (int64_t i = first_index(lane); i < words; i += index_step(lane)) {
        unsigned char *at = range->data + i * WORD;
        int64_t left = range->bytes - i * WORD;
        uint64_t random = splitmix_at(digest, (uint64_t)i);
        uint64_t word = unit_bits((uint32_t)random) | (uint64_t)unit_bits((uint32_t)(random >> 32))
                                                          << 32;
        if (left >= WORD && (uintptr_t)at % WORD == 0)
            *(uint64_t *)(void *)at = word;
        else
            for (int byte = 0; byte < WORD && byte < left; byte++)
                at[byte] = (unsigned char)(word >> 8 * byte);
    }
}

KERNEL(synthetic_write, struct orr__k_synthetic_write) {
    uint64_t digest = a->digest ? *a->digest : a->begin;
    for (int i = 0; i < a->first; i++)
        digest = splitmix_mix(digest ^ SPLITMIX_STEP);
    for (int i = 0; i < a->count; i++) {
        write_range(lane, &a->ranges[i], digest);
        digest = splitmix_mix(digest ^ SPLITMIX_STEP);
    }
}
