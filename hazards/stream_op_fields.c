#include "hazards/stream_op_fields.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *text, *expected;
} fields[] = {
#define ROW(name, text, expected) [ORR__FIELD_##name] = {text, expected},
    ORR__OP_FIELD_LIST(ROW)
#undef ROW
};

const char *const orr__oracle_texts[] = {"hb", "hang", "capture", NULL};
const char *const orr__memory_kind_texts[] = {"dev",     "pinned", "pageable",
                                              "managed", "empty",  NULL};
const char *const orr__capture_mode_texts[] = {"global", "thread_local", "relaxed", NULL};
const char *const orr__stream_sync_texts[] = {"nb", "bl", "ptds", "legacy", NULL};

#define STREAM   ORR__FIELD_BIT(STREAM)
#define EVENT    ORR__FIELD_BIT(EVENT)
#define FLAG     ORR__FIELD_BIT(FLAG)
#define LOCK     ORR__FIELD_BIT(LOCK)
#define BUF      ORR__FIELD_BIT(BUF)
#define OF       ORR__FIELD_BIT(OF)
#define REUSE    ORR__FIELD_BIT(REUSE)
#define COMM     ORR__FIELD_BIT(COMM)
#define PEER     ORR__FIELD_BIT(PEER)
#define RANK     ORR__FIELD_BIT(RANK)
#define KIND     ORR__FIELD_BIT(KIND)
#define COUNT    ORR__FIELD_BIT(COUNT)
#define DEV      ORR__FIELD_BIT(DEV)
#define DEVS     ORR__FIELD_BIT(DEVS)
#define IGNORED  ORR__FIELD_BIT(IGNORED)
#define READS    ORR__FIELD_BIT(READS)
#define WRITES   ORR__FIELD_BIT(WRITES)
#define BODY     ORR__FIELD_BIT(BODY)
#define ACCESSES (READS | WRITES)
#define NO       UINT32_MAX /* not listed */

/* Fields; then those that hb, hang and capture require. */
static const struct {
    uint32_t has, required[3];
} rows[] = {
    [ORR_OP_KERNEL] = {STREAM | ACCESSES, {STREAM, STREAM, STREAM}},
    [ORR_OP_HOSTFN] = {STREAM | ACCESSES | BODY, {STREAM, STREAM, STREAM}},
    [ORR_OP_MEMSET] = {STREAM | ACCESSES, {STREAM, STREAM, STREAM}},
    [ORR_OP_MEMCPY] = {STREAM | ACCESSES, {STREAM, STREAM, STREAM}},
    [ORR_OP_MEMCPY_SYNC] = {DEV | ACCESSES, {0, NO, NO}},
    [ORR_OP_MEMSET_SYNC] = {DEV | ACCESSES, {0, NO, NO}},
    [ORR_OP_COLL] = {COMM | STREAM | ACCESSES | KIND | COUNT | RANK,
                     {COMM | STREAM, COMM | STREAM, STREAM}},
    [ORR_OP_SEND] = {COMM | STREAM | ACCESSES | PEER | RANK,
                     {COMM | STREAM, COMM | STREAM | PEER, STREAM}},
    [ORR_OP_RECV] = {COMM | STREAM | ACCESSES | PEER | RANK,
                     {COMM | STREAM, COMM | STREAM | PEER, STREAM}},
    [ORR_OP_GROUP_START] = {0, {0, 0, NO}},
    [ORR_OP_GROUP_END] = {0, {0, 0, NO}},
    [ORR_OP_HOST_READ] = {ACCESSES, {READS, 0, NO}},
    [ORR_OP_HOST_WRITE] = {ACCESSES, {WRITES, 0, NO}},
    [ORR_OP_VIEW] = {BUF | STREAM, {BUF, NO, NO}},
    [ORR_OP_RECORD] = {EVENT | STREAM, {EVENT | STREAM, EVENT | STREAM, EVENT | STREAM}},
    [ORR_OP_WAIT] = {EVENT | STREAM | IGNORED, {EVENT | STREAM, EVENT | STREAM, EVENT | STREAM}},
    [ORR_OP_SYNC_EVENT] = {EVENT, {EVENT, EVENT, EVENT}},
    [ORR_OP_QUERY_OK] = {EVENT, {EVENT, NO, NO}},
    [ORR_OP_EVENT_QUERY] = {EVENT, {NO, NO, EVENT}},
    [ORR_OP_SYNC_STREAM] = {STREAM, {STREAM, STREAM, STREAM}},
    [ORR_OP_STREAM_QUERY_OK] = {STREAM, {STREAM, NO, NO}},
    [ORR_OP_SYNC_DEVICE] = {DEV | DEVS, {0, 0, NO}},
    [ORR_OP_IMPLICIT_SYNC] = {DEV | DEVS, {NO, 0, NO}},
    [ORR_OP_EVENT_CREATE] = {EVENT, {EVENT, NO, NO}},
    [ORR_OP_EVENT_DESTROY] = {EVENT, {EVENT, NO, NO}},
    [ORR_OP_STREAM_CREATE] = {STREAM, {STREAM, NO, NO}},
    [ORR_OP_STREAM_DESTROY] = {STREAM, {STREAM, NO, NO}},
    [ORR_OP_NOTIFY] = {FLAG, {FLAG, FLAG, NO}},
    [ORR_OP_AWAIT] = {FLAG, {FLAG, FLAG, NO}},
    [ORR_OP_LOCK] = {LOCK, {NO, LOCK, NO}},
    [ORR_OP_UNLOCK] = {LOCK, {NO, LOCK, NO}},
    [ORR_OP_ALLOC] = {BUF | STREAM | REUSE, {BUF, 0, NO}},
    [ORR_OP_FREE] = {BUF, {BUF, 0, NO}},
    [ORR_OP_RECORD_STREAM] = {BUF | STREAM, {BUF | STREAM, 0, NO}},
    [ORR_OP_ALLOC_ASYNC] = {BUF | STREAM | REUSE, {BUF | STREAM, NO, NO}},
    [ORR_OP_FREE_ASYNC] = {BUF | STREAM, {BUF | STREAM, NO, NO}},
    [ORR_OP_CUDA_MALLOC] = {BUF, {NO, NO, 0}},
    [ORR_OP_CUDA_FREE] = {BUF, {BUF, NO, NO}},
    [ORR_OP_HOST_FREE] = {BUF, {BUF, NO, NO}},
    [ORR_OP_ALIAS] = {BUF | OF, {BUF | OF, NO, NO}},
    [ORR_OP_CAPTURE_BEGIN] = {STREAM, {NO, NO, STREAM}},
    [ORR_OP_CAPTURE_END] = {STREAM, {NO, NO, STREAM}},
    [ORR_OP_GRAPH_LAUNCH] = {STREAM, {NO, NO, 0}},
};

_Static_assert(sizeof rows / sizeof rows[0] == ORR_OP_COUNT, "a row for each operation");

/* Most texts differ in their first character. */
static bool is_equal(const char *a, const char *b) {
    return a[0] == b[0] && strcmp(a, b) == 0;
}

enum orr__op_field orr__op_field_find(const char *text) {
    int field = 0;
    while (field < ORR__FIELDS && !is_equal(fields[field].text, text))
        field++;
    return (enum orr__op_field)field;
}

const char *orr__op_field_text(enum orr__op_field field) {
    return fields[field].text;
}

const char *orr__op_field_expected(enum orr__op_field field) {
    return fields[field].expected;
}

enum orr_stream_op_kind orr__stream_op_find(const char *text) {
    int kind = 0;
    while (kind < ORR_OP_COUNT &&
           !is_equal(orr_stream_op_text((enum orr_stream_op_kind)kind), text))
        kind++;
    return (enum orr_stream_op_kind)kind;
}

uint32_t orr__op_fields(enum orr_stream_op_kind kind) {
    return rows[kind].has | ORR__FIELD_BIT(OP) | ORR__FIELD_BIT(HOST);
}

bool orr__op_is_listed(enum orr_stream_op_kind kind, enum orr_oracle oracle) {
    return rows[kind].required[oracle] != NO;
}

uint32_t orr__op_required(enum orr_stream_op_kind kind, enum orr_oracle oracle) {
    assert(orr__op_is_listed(kind, oracle));
    return rows[kind].required[oracle];
}

/* The one field of `which` that an operation has. */
static enum orr__op_field only_field(enum orr_stream_op_kind kind, uint32_t which) {
    uint32_t found = rows[kind].has & which;
    int field = 0;
    while (field < ORR__FIELDS && !(found >> field & 1))
        field++;
    return (enum orr__op_field)field;
}

enum orr__op_field orr__op_object_field(enum orr_stream_op_kind kind) {
    return only_field(kind, EVENT | FLAG | LOCK | BUF | COMM);
}

enum orr__op_field orr__op_other_field(enum orr_stream_op_kind kind) {
    return only_field(kind, OF | REUSE | PEER);
}

enum orr_name_space orr__op_field_space(enum orr__op_field field) {
    switch (field) {
    case ORR__FIELD_HOST: return ORR_NAME_HOST;
    case ORR__FIELD_STREAM: return ORR_NAME_STREAM;
    case ORR__FIELD_EVENT: return ORR_NAME_EVENT;
    case ORR__FIELD_FLAG: return ORR_NAME_FLAG;
    case ORR__FIELD_LOCK: return ORR_NAME_LOCK;
    case ORR__FIELD_BUF:
    case ORR__FIELD_OF:
    case ORR__FIELD_REUSE: return ORR_NAME_BUFFER;
    case ORR__FIELD_COMM: return ORR_NAME_COMM;
    case ORR__FIELD_PEER:
    case ORR__FIELD_RANK: return ORR_NAME_RANK;
    default: return ORR_NAME_WORD;
    }
}
