/* Which name means which block, from where to where in a stream program: introductions, ends,
 * reuse, aliases. None of it depends on clocks, so it is worked out before anything is checked.
 *
 *     struct orr__order_memory memory;
 *     if (orr__order_memory_init(&memory, program) == ORR_OK) ...
 *     block = orr__order_block(&memory, access.buffer, op);
 *
 * A name is a block of its own until an operation introduces it. The pass also notices what is
 * malformed when the operation is reached: operations from `op_end` on are not to be taken.
 *
 * Threads: immutable after init. */
#ifndef ORR_HAZARDS_ORDER_MEMORY_H
#define ORR_HAZARDS_ORDER_MEMORY_H

#include "hazards/stream_program.h"

struct orr__order_name {
    uint32_t block;     /* once introduced */
    uint32_t intro;     /* operation; ORR_NONE: it exists from the start */
    uint32_t end;       /* operation that ends it; ORR_NONE */
    uint32_t reused_by; /* operation; ORR_NONE */
};

struct orr__order_memory {
    const struct orr_stream_program *program;
    struct orr__order_name *names; /* by number of the buffer's name */
    uint32_t block_count;    /* block `i` below the number of names is the own one of name i */
    uint32_t op_end;         /* operations from here on are not looked at */
    const char *malformed;   /* what is wrong with operation op_end; NULL: it is the end */
    uint32_t malformed_name; /* and with which name, in `malformed_space` */
    enum orr_name_space malformed_space;
};

/* `skip`: operations that are left out, an array of op_count; NULL: none. */
enum orr_status orr__order_memory_init(struct orr__order_memory *memory,
                                       const struct orr_stream_program *program,
                                       const bool *skip) ORR_MUST_CHECK;
void orr__order_memory_clear(struct orr__order_memory *memory);

/* Whether the operation that introduces the name comes before `op`. */
static inline bool orr__order_is_introduced(const struct orr__order_memory *memory, uint32_t name,
                                            uint32_t op) {
    return memory->names[name].intro < op; /* ORR_NONE is above all */
}

/* Whether a call before `op` ended the name. */
static inline bool orr__order_is_ended(const struct orr__order_memory *memory, uint32_t name,
                                       uint32_t op) {
    return memory->names[name].end < op;
}

/* The block that the name means at operation `op`. */
static inline uint32_t orr__order_block(const struct orr__order_memory *memory, uint32_t name,
                                        uint32_t op) {
    return orr__order_is_introduced(memory, name, op) ? memory->names[name].block : name;
}

/* Whether an access touches nothing: an empty range, or a buffer of zero bytes. */
static inline bool orr__order_is_void(const struct orr_stream_program *program,
                                      const struct orr_stream_access *access) {
    return access->hi <= access->lo || program->buffers[access->buffer] == ORR_MEMORY_EMPTY;
}

static inline bool orr__order_is_host_memory(const struct orr_stream_program *program,
                                             uint32_t buffer) {
    return program->buffers[buffer] == ORR_MEMORY_PINNED ||
           program->buffers[buffer] == ORR_MEMORY_PAGEABLE;
}

#endif
