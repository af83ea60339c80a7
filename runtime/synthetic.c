#include "runtime/synthetic.h"

#include <string.h>

#include "runtime/splitmix.h"

void orr__synthetic_begin(struct orr__synthetic *synthetic, const char *name) {
    synthetic->digest = ORR_SPLITMIX_STEP;
    orr__synthetic_read(synthetic, name, strlen(name));
}

static uint64_t load(const unsigned char *from, size_t bytes) {
    uint64_t word = 0;
    memcpy(&word, from, bytes);
    return word;
}

/* One step of a lane: a bijection of the word for any state, and of the state for any word. */
static uint64_t take_in(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * ORR_SPLITMIX_STEP;
    return lane ^ lane >> 32;
}

/* Four independent lanes, because one chain of multiplications would be slower than memory. */
void orr__synthetic_read(struct orr__synthetic *synthetic, const void *from, size_t bytes) {
    const unsigned char *at = from;
    uint64_t lanes[4];
    for (uint64_t i = 0; i < 4; i++)
        lanes[i] = orr_splitmix_mix(synthetic->digest + i * ORR_SPLITMIX_STEP);
    size_t left = bytes;
    for (; left >= 32; left -= 32, at += 32)
        for (size_t i = 0; i < 4; i++)
            lanes[i] = take_in(lanes[i], load(at + 8 * i, 8));
    for (size_t i = 0; left > 0; i++) {
        size_t part = left < 8 ? left : 8;
        lanes[i] = take_in(lanes[i], load(at, part));
        at += part;
        left -= part;
    }
    uint64_t digest = orr_splitmix_mix((uint64_t)bytes);
    for (size_t i = 0; i < 4; i++)
        digest = orr_splitmix_mix(take_in(digest, lanes[i]));
    synthetic->digest = digest;
}

/* 23 random bits as an f32 in [-1, 1): first in [2, 4), where the exponent is constant. */
static float unit_value(uint32_t bits) {
    uint32_t word = 0x40000000u | bits >> 9;
    float value;
    memcpy(&value, &word, sizeof value);
    return value - 3.0f;
}

/* The next two values. */
static uint64_t value_pair(uint64_t *state) {
    uint64_t random = orr_splitmix_next(state), word;
    float values[2] = {unit_value((uint32_t)random), unit_value((uint32_t)(random >> 32))};
    memcpy(&word, values, sizeof word);
    return word;
}

void orr__synthetic_write(struct orr__synthetic *synthetic, void *to, size_t bytes) {
    unsigned char *at = to;
    uint64_t state = synthetic->digest, word;
    for (size_t i = 0; i < bytes / sizeof word; i++, at += sizeof word) {
        word = value_pair(&state);
        memcpy(at, &word, sizeof word);
    }
    if (bytes % sizeof word > 0) {
        word = value_pair(&state);
        memcpy(at, &word, bytes % sizeof word);
    }
    synthetic->digest = orr_splitmix_mix(synthetic->digest ^ ORR_SPLITMIX_STEP);
}
