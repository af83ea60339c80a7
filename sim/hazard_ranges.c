#include "sim/hazard_ranges.h"

#include <assert.h>
#include <string.h>

enum { USES_MAX = 1 << 24, RANGES_MAX = 1 << 24 };

static bool overlap(uint64_t a_lo, uint64_t a_hi, uint64_t b_lo, uint64_t b_hi) {
    return a_lo < b_hi && b_lo < a_hi;
}

enum orr_status orr__uses_begin(struct orr__memory *memories, const struct orr_memory *allocator,
                                const struct orr_command *command, uint32_t stream,
                                int64_t start_ns) {
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *access = &command->accesses[i];
        struct orr__memory *memory = &memories[access->memory];
        assert(memory->live && access->offset + access->bytes <= memory->bytes);
        enum orr_status status =
            orr_memory_grow(allocator, &memory->uses, &memory->use_capacity, memory->use_count + 1,
                            sizeof *memory->uses, USES_MAX);
        if (status != ORR_OK) {
            return status;
        }
        memory->uses[memory->use_count++] = (struct orr__use){
            .lo = access->offset,
            .hi = access->offset + access->bytes,
            .start_ns = start_ns,
            .command = command->record.id,
            .stream = stream,
            .mode = (uint16_t)access->mode,
        };
    }
    return ORR_OK;
}

/* Marks the losers of two accesses that overlap in bytes and time: the reader of a range being
 * written, or both writers. A command that reads and writes a range another one writes loses
 * too. */
static void mark(struct orr__use *a, struct orr__use *b) {
    bool a_writes = a->mode & ORR_ACCESS_WRITE, b_writes = b->mode & ORR_ACCESS_WRITE;
    if (a_writes && b_writes) {
        a->raced = b->raced = 1;
    } else if (a_writes) {
        b->raced = 1;
    } else if (b_writes) {
        a->raced = 1;
    }
}

static void mark_partners(struct orr__memory *memory, struct orr__use *mine, int64_t finish_ns) {
    for (size_t i = 0; i < memory->use_count; i++) {
        struct orr__use *other = &memory->uses[i];
        if (other->command != mine->command && other->start_ns < finish_ns &&
            mine->start_ns < finish_ns && overlap(mine->lo, mine->hi, other->lo, other->hi)) {
            mark(mine, other);
        }
    }
}

bool orr__uses_end(struct orr__memory *memories, const struct orr_command *command,
                   int64_t finish_ns) {
    bool poison = false;
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *access = &command->accesses[i];
        struct orr__memory *memory = &memories[access->memory];
        for (size_t k = 0; k < memory->use_count; k++) {
            if (memory->uses[k].command == command->record.id) {
                mark_partners(memory, &memory->uses[k], finish_ns);
                poison |= memory->uses[k].raced != 0;
                memory->uses[k] = memory->uses[--memory->use_count];
                k--;
            }
        }
        poison |=
            (access->mode & ORR_ACCESS_READ) &&
            orr__range_touches_undefined(memory, access->offset, access->offset + access->bytes);
    }
    return poison;
}

enum orr_status orr__writes_settle(struct orr__memory *memories, const struct orr_memory *allocator,
                                   const struct orr_command *command, bool poison) {
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *access = &command->accesses[i];
        if (!(access->mode & ORR_ACCESS_WRITE) || !access->bytes) {
            continue;
        }
        struct orr__memory *memory = &memories[access->memory];
        uint64_t lo = access->offset, hi = lo + access->bytes;
        enum orr_status status;
        if (poison) {
            memset(memory->pointer + lo, 0xff, access->bytes);
            status = orr__range_undefine(memory, allocator, lo, hi);
        } else {
            status = orr__range_define(memory, allocator, lo, hi);
        }
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* Index of the first undefined range that ends after `lo`. */
static size_t first_after(const struct orr__memory *memory, uint64_t lo) {
    size_t low = 0, high = memory->undefined_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memory->undefined[middle].hi <= lo) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool orr__range_touches_undefined(const struct orr__memory *memory, uint64_t lo, uint64_t hi) {
    size_t at = first_after(memory, lo);
    return lo < hi && at < memory->undefined_count && memory->undefined[at].lo < hi;
}

/* Replaces ranges [from, to) of the list by `count` others. */
static enum orr_status splice(struct orr__memory *memory, const struct orr_memory *allocator,
                              size_t from, size_t to, const struct orr__range *others,
                              size_t count) {
    size_t after = memory->undefined_count - (to - from) + count;
    enum orr_status status =
        orr_memory_grow(allocator, &memory->undefined, &memory->undefined_capacity, after,
                        sizeof *memory->undefined, RANGES_MAX);
    if (status != ORR_OK) {
        return status;
    }
    memmove(memory->undefined + from + count, memory->undefined + to,
            (memory->undefined_count - to) * sizeof *memory->undefined);
    for (size_t i = 0; i < count; i++) {
        memory->undefined[from + i] = others[i];
    }
    memory->undefined_count = after;
    return ORR_OK;
}

enum orr_status orr__range_undefine(struct orr__memory *memory, const struct orr_memory *allocator,
                                    uint64_t lo, uint64_t hi) {
    assert(hi <= memory->bytes);
    if (lo >= hi) {
        return ORR_OK;
    }
    size_t from = lo ? first_after(memory, lo - 1) : 0, to = from;
    struct orr__range joined = {lo, hi};
    for (; to < memory->undefined_count && memory->undefined[to].lo <= hi; to++) {
        joined.lo = memory->undefined[to].lo < joined.lo ? memory->undefined[to].lo : joined.lo;
        joined.hi = memory->undefined[to].hi > joined.hi ? memory->undefined[to].hi : joined.hi;
    }
    return splice(memory, allocator, from, to, &joined, 1);
}

enum orr_status orr__range_define(struct orr__memory *memory, const struct orr_memory *allocator,
                                  uint64_t lo, uint64_t hi) {
    assert(hi <= memory->bytes);
    size_t from = first_after(memory, lo), to = from, count = 0;
    struct orr__range rest[2];
    for (; to < memory->undefined_count && memory->undefined[to].lo < hi; to++) {
        if (memory->undefined[to].lo < lo) {
            rest[count++] = (struct orr__range){memory->undefined[to].lo, lo};
        }
        if (memory->undefined[to].hi > hi) {
            rest[count++] = (struct orr__range){hi, memory->undefined[to].hi};
        }
    }
    return lo >= hi || from == to ? ORR_OK : splice(memory, allocator, from, to, rest, count);
}
