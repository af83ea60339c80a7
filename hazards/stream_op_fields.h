/* The fields of operations: which ones an operation has, which ones each oracle requires, and which
 * operations each oracle knows. One table, for the reader, the rules and the writer.
 *
 * Threads: pure functions. */
#ifndef ORR_HAZARDS_STREAM_OP_FIELDS_H
#define ORR_HAZARDS_STREAM_OP_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "hazards/stream_program.h"

/* X(NAME, "text", what is expected) */
#define ORR__OP_FIELD_LIST(X)                                                                      \
    X(OP, "op", "the name of an operation")                                                        \
    X(HOST, "host", "the name of a host, a string")                                                \
    X(STREAM, "stream", "the name of a stream, a string")                                          \
    X(EVENT, "event", "the name of an event, a string")                                            \
    X(FLAG, "flag", "the name of a flag, a string")                                                \
    X(LOCK, "lock", "the name of a lock, a string")                                                \
    X(BUF, "buf", "the name of a buffer, a string")                                                \
    X(OF, "of", "the name of a buffer, a string")                                                  \
    X(REUSE, "reuse", "the name of a buffer, a string")                                            \
    X(COMM, "comm", "the name of a communicator, a string")                                        \
    X(PEER, "peer", "a rank, a string or a number")                                                \
    X(RANK, "rank", "a rank, a string or a number")                                                \
    X(KIND, "kind", "the kind of the collective, a string")                                        \
    X(COUNT, "count", "a number")                                                                  \
    X(DEV, "dev", "a device, an integer from 0 to 4294967294")                                     \
    X(DEVS, "devs", "an array of devices, integers from 0 to 4294967294")                          \
    X(IGNORED, "ignored", "true or false")                                                         \
    X(READS, "reads", "an array of accesses, each \"name\" or \"name[lo:hi]\"")                    \
    X(WRITES, "writes", "an array of accesses, each \"name\" or \"name[lo:hi]\"")                  \
    X(BODY, "body", "an array of steps, each [what, name] of two strings")                         \
    X(SITE, "site", "a string")                                                                    \
    X(LABEL, "label", "a string")

enum orr__op_field {
#define ORR__OP_FIELD_ENUM(name, text, expected) ORR__FIELD_##name,
    ORR__OP_FIELD_LIST(ORR__OP_FIELD_ENUM)
#undef ORR__OP_FIELD_ENUM
        ORR__FIELDS
};

#define ORR__FIELD_BIT(name) (UINT32_C(1) << ORR__FIELD_##name)

/* The number of a field's name, ORR__FIELDS if there is none. */
enum orr__op_field orr__op_field_find(const char *text);
const char *orr__op_field_text(enum orr__op_field field);
/* What stands there if it is well formed. */
const char *orr__op_field_expected(enum orr__op_field field);

/* The operation with this name, ORR_OP_COUNT if there is none. */
enum orr_stream_op_kind orr__stream_op_find(const char *text);

/* Fields an operation has under some oracle, as bits; every operation has op and host. */
uint32_t orr__op_fields(enum orr_stream_op_kind kind);
/* Whether an oracle lists the operation, and which fields it then requires. */
bool orr__op_is_listed(enum orr_stream_op_kind kind, enum orr_oracle oracle);
uint32_t orr__op_required(enum orr_stream_op_kind kind, enum orr_oracle oracle);
/* The field that `object` holds (EVENT, FLAG, LOCK, BUF, COMM), and `other` (OF, REUSE, PEER);
 * ORR__FIELDS: none. */
enum orr__op_field orr__op_object_field(enum orr_stream_op_kind kind);
enum orr__op_field orr__op_other_field(enum orr_stream_op_kind kind);
/* The name space of the names in such a field. */
enum orr_name_space orr__op_field_space(enum orr__op_field field);

/* Words of the program's own fields, in the order of their enums; NULL ends a list. */
extern const char *const orr__oracle_texts[];
extern const char *const orr__memory_kind_texts[];
extern const char *const orr__capture_mode_texts[];
extern const char *const orr__stream_sync_texts[];

#endif
