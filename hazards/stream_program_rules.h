/* Which programs are well formed: what is checked of a program as a whole, before any oracle.
 *
 *     if (orr__stream_program_validate(program, &facts, &error) != ORR_OK)
 *         ... error.text ...                              "ops[3].stream: missing; ..."
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_STREAM_PROGRAM_RULES_H
#define ORR_HAZARDS_STREAM_PROGRAM_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hazards/stream_program.h"
#include "runtime/error.h"

/* Which names of a space are declared. Declarations can be taken back all at once, at no cost:
 * a new round begins. */
struct orr__declared {
    uint64_t *rounds; /* by number: in which round it was declared last, 0: never */
    size_t capacity;
    uint64_t round;
};

static inline bool orr__is_declared(const struct orr__declared *declared, uint32_t name) {
    return name < declared->capacity && declared->rounds[name] == declared->round;
}

/* What a reader knows and a program has no place for. Names that are not declared have numbers all
 * the same. Indices of operations: ORR_NONE if there is none. */
struct orr__program_facts {
    bool has_streams, has_ops;
    struct orr__declared streams, comms;
    uint32_t no_reads;     /* the first host_read without `reads` */
    uint32_t no_writes;    /* the first host_write without `writes` */
    uint32_t unknown_step; /* the first hostfn with a step that is none */
    uint32_t step_word;    /* what stands there: name space WORD */
};

/* ORR_INVALID with the field and what is expected, in this order: two legacy streams on one device;
 * then operation by operation one that the oracle does not list, a missing field, a stream or
 * communicator that is not there, reads and writes of copies, a copy on a device without legacy
 * stream, a group's end without its start. What is noticed when an operation is reached (docs,
 * "noticed on the way") is the oracle's. ORR_NO_MEMORY. */
enum orr_status orr__stream_program_validate(const struct orr_stream_program *program,
                                             const struct orr__program_facts *facts,
                                             struct orr_error *error) ORR_MUST_CHECK;

/* Legacy streams by device, ascending: array of *out_count, owned by the caller. A device with two
 * is there twice. */
struct orr__legacy {
    uint32_t device, stream;
};
enum orr_status orr__legacy_streams(const struct orr_stream_program *program,
                                    struct orr__legacy **out_legacy,
                                    uint32_t *out_count) ORR_MUST_CHECK;
/* The legacy stream of a device, ORR_NONE if there is none. */
uint32_t orr__legacy_stream(const struct orr__legacy *legacy, uint32_t count, uint32_t device);

#endif
