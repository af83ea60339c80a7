/* Which bytes are in use, and which are undefined: why a missing wait shows as wrong numbers.
 *
 * Each memory keeps the list of commands in service with their ranges, and a sorted list of
 * undefined ranges. When a command finishes, whatever else is in service and began before that
 * moment overlapped it in time:
 *
 *     writer  |=====W=====|                 the reader of a range being written is marked,
 *     reader        |====R====|             or both of two writers
 *
 * A marked command, or one that reads an undefined range, poisons what it writes: the bytes become
 * NaN and undefined. Otherwise it computes from current memory and what it writes becomes defined.
 * This misses no overlap in the schedule that ran and has no false poison.
 *
 * Threads: one. */
#ifndef ORR_SIM_HAZARD_RANGES_H
#define ORR_SIM_HAZARD_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/backend.h"

/* One access of a command in service. */
struct orr__use {
    uint64_t lo, hi;
    int64_t start_ns;
    uint64_t command; /* id */
    uint32_t stream;  /* of the command; ORR_ID_NONE for a host */
    uint16_t mode;    /* enum orr_access_mode */
    uint16_t raced;
};

struct orr__range {
    uint64_t lo, hi;
};

struct orr__memory {
    uint32_t device; /* ORR_ID_NONE: host memory */
    bool live;
    uint64_t bytes;
    unsigned char *pointer; /* aligned to 64; NULL under timing_only */
    void *block;            /* what was allocated */
    struct orr__use *uses;
    size_t use_count, use_capacity;
    struct orr__range *undefined; /* disjoint, ascending, not touching */
    size_t undefined_count, undefined_capacity;
};

/* A command enters service: its ranges are in use from start_ns on. */
enum orr_status orr__uses_begin(struct orr__memory *memories, const struct orr_memory *allocator,
                                const struct orr_command *command, uint32_t stream,
                                int64_t start_ns) ORR_MUST_CHECK;

/* It finishes at finish_ns: marks overlapping partners, removes its ranges, and says whether it
 * must be poisoned: it raced, or read undefined bytes. */
bool orr__uses_end(struct orr__memory *memories, const struct orr_command *command,
                   int64_t finish_ns);

/* What a finished command wrote is now defined, or poison (bytes 0xff, undefined). */
enum orr_status orr__writes_settle(struct orr__memory *memories, const struct orr_memory *allocator,
                                   const struct orr_command *command, bool poison) ORR_MUST_CHECK;

/* Adds or removes an undefined range. */
enum orr_status orr__range_undefine(struct orr__memory *memory, const struct orr_memory *allocator,
                                    uint64_t lo, uint64_t hi) ORR_MUST_CHECK;
enum orr_status orr__range_define(struct orr__memory *memory, const struct orr_memory *allocator,
                                  uint64_t lo, uint64_t hi) ORR_MUST_CHECK;
bool orr__range_touches_undefined(const struct orr__memory *memory, uint64_t lo, uint64_t hi);

#endif
