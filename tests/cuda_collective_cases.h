/* Random collectives: what is asked, memory for all ranks with guards behind it, and members that
 * use it. Made twice from one seed, one copy is computed by orr_collective_run, the other one by
 * what is tested.
 *
 *     case_draw_group(&group, &state, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, ranks, 40);
 *     case_world(&group, &world, memory);
 *     orr_collective_run(world.list, world.count, &error);
 *
 * Threads: one. */
#ifndef ORR_TESTS_CUDA_COLLECTIVE_CASES_H
#define ORR_TESTS_CUDA_COLLECTIVE_CASES_H

#include <stdbool.h>

#include "runtime/collective.h"

enum { CASE_RANKS_MAX = 48 };

/* What is asked, and how large a rank's memory is. */
struct collective_case {
    struct orr_collective shape; /* of rank 0, without pointers */
    uint64_t counts[CASE_RANKS_MAX * CASE_RANKS_MAX];
    bool uneven, in_place;
    size_t bytes; /* of each of a rank's two areas: input, output */
    uint32_t transfer_count;
    uint32_t sources[CASE_RANKS_MAX], targets[CASE_RANKS_MAX];
    uint64_t sizes[CASE_RANKS_MAX];
};

/* Memory of all ranks, and members that use it. */
struct collective_world {
    unsigned char *memory[CASE_RANKS_MAX]; /* 2 * bytes each */
    struct orr_collective members[CASE_RANKS_MAX];
    const struct orr_collective *list[CASE_RANKS_MAX];
    struct orr_transfer transfers[CASE_RANKS_MAX];
    uint32_t count;
};

/* The seed of the first case: ORR_TEST_SEED, or 1. */
uint64_t case_first_seed(void);
/* A number below `below`. */
uint64_t case_draw(uint64_t *state, uint64_t below);

/* Pieces of up to count_max elements, even or not, in place or not, by any reduction. */
void case_draw_group(struct collective_case *g, uint64_t *state, enum orr_collective_kind kind,
                     enum orr_dtype dtype, uint32_t ranks, uint64_t count_max);

/* Numbers of any size, with zeros of both signs, infinities and NaNs. */
void case_draw_memory(const struct collective_case *g, uint64_t *state, unsigned char *memory,
                      size_t bytes);

/* Members over the ranks' memory; what a kind needs no operand for has none. */
void case_world(const struct collective_case *g, struct collective_world *w,
                unsigned char *const *memory);

/* Fails the test where a rank's memory differs, but for payloads of NaNs. */
void case_compare(const struct collective_case *g, uint32_t rank, const unsigned char *expected,
                  const unsigned char *got, uint64_t seed);

#endif
