#include "tests/hang_naive.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY = 255, QUEUE_MAX = NAIVE_OPS_MAX };

struct entry {
    uint8_t op, member_count;
    uint8_t members[NAIVE_OPS_MAX]; /* operations */
    uint8_t is_wait;
    uint8_t needs[NAIVE_STREAMS_MAX]; /* so many finished entries of each stream */
};

struct queue {
    uint8_t added, finished, progress; /* progress of the first unfinished entry */
    struct entry entries[QUEUE_MAX];
};

struct state {
    _Alignas(8) uint8_t pc[NAIVE_HOSTS_MAX]; /* in the list of all operations */
    uint8_t depth[NAIVE_HOSTS_MAX];
    uint8_t kept_count[NAIVE_HOSTS_MAX], kept[NAIVE_HOSTS_MAX][NAIVE_OPS_MAX];
    uint8_t recorded[NAIVE_EVENTS_MAX], content[NAIVE_EVENTS_MAX][NAIVE_STREAMS_MAX];
    uint8_t lock[NAIVE_LOCKS_MAX]; /* 0, 1 + host, 100 + operation */
    uint8_t flag[NAIVE_FLAGS_MAX];
    uint8_t number[NAIVE_OPS_MAX], started[NAIVE_OPS_MAX];
    uint8_t mismatch;
    struct queue queues[NAIVE_STREAMS_MAX];
};

struct naive {
    const struct orr_stream_program *p;
    uint32_t hosts, streams;
};

static bool blocking(const struct naive *n, uint32_t stream, uint32_t legacy) {
    const struct orr_stream_info *a = &n->p->streams[stream], *b = &n->p->streams[legacy];
    return a->device == b->device && b->sync == ORR_STREAM_LEGACY &&
           (a->sync == ORR_STREAM_BL || a->sync == ORR_STREAM_PTDS);
}

/* What a record or sync of `stream` covers. */
static bool covers(const struct naive *n, uint32_t stream, uint32_t other) {
    return stream == other || blocking(n, other, stream);
}

static bool is_empty(const struct naive *n, const struct state *s, uint32_t stream) {
    for (uint32_t i = 0; i < n->streams; i++)
        if (covers(n, stream, i) && s->queues[i].finished < s->queues[i].added)
            return false;
    return true;
}

static bool has_room(const struct naive *n, const struct state *s, uint32_t stream) {
    uint64_t held = (uint64_t)(s->queues[stream].added - s->queues[stream].finished);
    return held < n->p->queue_depth;
}

static bool met(const struct naive *n, const struct state *s, const uint8_t *needs) {
    for (uint32_t i = 0; i < n->streams; i++)
        if (s->queues[i].finished < needs[i])
            return false;
    return true;
}

static struct entry *push(const struct naive *n, struct state *s, uint32_t stream, uint32_t op) {
    struct queue *queue = &s->queues[stream];
    struct entry *entry = &queue->entries[queue->added++];
    entry->op = (uint8_t)op;
    for (uint32_t i = 0; i < n->streams; i++)
        if (blocking(n, stream, i) || blocking(n, i, stream))
            entry->needs[i] = s->queues[i].added;
    return entry;
}

static bool device_is_idle(const struct naive *n, const struct state *s,
                           const struct orr_stream_op *op) {
    uint32_t count = op->device_count > 0 ? op->device_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t device = op->device_count > 0 ? n->p->devices[op->device_first + i] : op->device;
        for (uint32_t k = 0; k < n->streams; k++)
            if (n->p->streams[k].device == device && s->queues[k].finished < s->queues[k].added)
                return false;
    }
    return true;
}

static bool same_counter(const struct orr_stream_op *a, const struct orr_stream_op *b) {
    return a->kind == b->kind && a->object == b->object && a->rank == b->rank &&
           (a->kind == ORR_OP_COLL || a->other == b->other);
}

static void take_number(const struct naive *n, struct state *s, uint32_t index) {
    uint8_t number = 0;
    for (uint32_t i = 0; i < n->p->op_count; i++)
        if (s->number[i] != NOBODY && same_counter(&n->p->ops[i], &n->p->ops[index]))
            number++;
    s->number[index] = number;
}

/* False: no room. */
static bool end_group(const struct naive *n, struct state *s, uint32_t index, uint32_t host) {
    uint32_t order[NAIVE_OPS_MAX], count = 0;
    for (uint32_t i = 0; i < s->kept_count[host]; i++) {
        uint32_t stream = n->p->ops[s->kept[host][i]].stream, k = 0;
        while (k < count && order[k] != stream)
            k++;
        if (k == count)
            order[count++] = stream;
    }
    for (uint32_t k = 0; k < count; k++)
        if (!has_room(n, s, order[k]))
            return false;
    for (uint32_t k = 0; k < count; k++) {
        struct entry *entry = push(n, s, order[k], index);
        for (uint32_t i = 0; i < s->kept_count[host]; i++)
            if (n->p->ops[s->kept[host][i]].stream == order[k])
                entry->members[entry->member_count++] = s->kept[host][i];
    }
    s->kept_count[host] = 0;
    memset(s->kept[host], 0, sizeof s->kept[host]);
    return true;
}

static uint32_t next_op(const struct naive *n, const struct state *s, uint32_t host) {
    uint32_t i = s->pc[host];
    while (i < n->p->op_count && n->p->ops[i].host != host)
        i++;
    return i;
}

/* The host's next call in `s`; false: it is blocked, or over. */
static bool step_host(const struct naive *n, struct state *s, uint32_t host) {
    uint32_t i = next_op(n, s, host);
    if (i == n->p->op_count)
        return false;
    const struct orr_stream_op *op = &n->p->ops[i];
    switch (op->kind) {
    case ORR_OP_KERNEL:
    case ORR_OP_MEMCPY:
    case ORR_OP_MEMSET:
    case ORR_OP_HOSTFN:
        if (!has_room(n, s, op->stream))
            return false;
        push(n, s, op->stream, i);
        break;
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV:
        if (s->depth[host] > 0) {
            s->kept[host][s->kept_count[host]++] = (uint8_t)i;
        } else {
            if (!has_room(n, s, op->stream))
                return false;
            struct entry *entry = push(n, s, op->stream, i);
            entry->members[entry->member_count++] = (uint8_t)i;
        }
        take_number(n, s, i);
        break;
    case ORR_OP_GROUP_START: s->depth[host]++; break;
    case ORR_OP_GROUP_END:
        if (s->depth[host] == 1 && !end_group(n, s, i, host))
            return false;
        s->depth[host]--;
        break;
    case ORR_OP_RECORD:
        s->recorded[op->object] = 1;
        memset(s->content[op->object], 0, NAIVE_STREAMS_MAX);
        for (uint32_t k = 0; k < n->streams; k++)
            if (covers(n, op->stream, k))
                s->content[op->object][k] = s->queues[k].added;
        break;
    case ORR_OP_WAIT:
        if (op->ignored || !s->recorded[op->object])
            break;
        if (!has_room(n, s, op->stream))
            return false;
        struct entry *entry = push(n, s, op->stream, i);
        entry->is_wait = 1;
        for (uint32_t k = 0; k < n->streams; k++)
            if (entry->needs[k] < s->content[op->object][k])
                entry->needs[k] = s->content[op->object][k];
        break;
    case ORR_OP_SYNC_STREAM:
        if (!is_empty(n, s, op->stream))
            return false;
        break;
    case ORR_OP_SYNC_EVENT:
        if (!met(n, s, s->content[op->object]))
            return false;
        break;
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_IMPLICIT_SYNC:
        if (!device_is_idle(n, s, op))
            return false;
        break;
    case ORR_OP_LOCK:
        if (s->lock[op->object] != 0)
            return false;
        s->lock[op->object] = (uint8_t)(1 + host);
        break;
    case ORR_OP_UNLOCK:
        if (s->lock[op->object] == 1 + host)
            s->lock[op->object] = 0;
        break;
    case ORR_OP_NOTIFY: s->flag[op->object] = 1; break;
    case ORR_OP_AWAIT:
        if (!s->flag[op->object])
            return false;
        break;
    default: break;
    }
    s->pc[host] = (uint8_t)(i + 1);
    return true;
}

/* The operation that has number `number` of what `like` counts, for another rank; NOBODY: none
 * yet. */
static uint32_t numbered(const struct naive *n, const struct state *s, struct orr_stream_op like,
                         uint32_t number) {
    for (uint32_t i = 0; i < n->p->op_count; i++)
        if (s->number[i] == number && same_counter(&n->p->ops[i], &like))
            return i;
    return NOBODY;
}

static bool listed(const struct naive *n, uint32_t comm, uint32_t rank) {
    const struct orr_comm_info *info = &n->p->comms[comm];
    for (uint32_t i = 0; i < info->member_count; i++)
        if (n->p->members[info->member_first + i] == rank)
            return true;
    return false;
}

/* All partners have started; of a listed rank's collective: and none of them differs. */
static bool matched(const struct naive *n, const struct state *s, uint32_t member) {
    struct orr_stream_op like = n->p->ops[member];
    if (like.kind != ORR_OP_COLL) {
        uint32_t rank = like.rank;
        like.rank = like.other;
        like.other = rank;
        like.kind = like.kind == ORR_OP_SEND ? ORR_OP_RECV : ORR_OP_SEND;
        uint32_t other = numbered(n, s, like, s->number[member]);
        return other != NOBODY && s->started[other];
    }
    const struct orr_comm_info *info = &n->p->comms[like.object];
    bool is_listed = listed(n, like.object, like.rank);
    for (uint32_t i = 0; i < info->member_count; i++) {
        struct orr_stream_op asked = like;
        asked.rank = n->p->members[info->member_first + i];
        uint32_t other = numbered(n, s, asked, s->number[member]);
        if (other == NOBODY || !s->started[other])
            return false;
        if (is_listed &&
            (n->p->ops[other].word != like.word || n->p->ops[other].count != like.count))
            return false;
    }
    return true;
}

static void look_for_mismatch(const struct naive *n, struct state *s) {
    for (uint32_t a = 0; a < n->p->op_count; a++)
        for (uint32_t b = 0; b < a; b++) {
            const struct orr_stream_op *x = &n->p->ops[a], *y = &n->p->ops[b];
            if (s->started[a] && s->started[b] && x->kind == ORR_OP_COLL && y->kind == x->kind &&
                x->object == y->object && s->number[a] == s->number[b] && x->rank != y->rank &&
                listed(n, x->object, x->rank) && listed(n, y->object, y->rank) &&
                (x->word != y->word || x->count != y->count))
                s->mismatch = 1;
        }
}

static uint64_t started_on(const struct naive *n, const struct state *s, uint32_t device) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < n->streams; i++) {
        const struct queue *queue = &s->queues[i];
        if (n->p->streams[i].device == device && queue->finished < queue->added)
            count += queue->entries[queue->finished].member_count > 0 && queue->progress > 0;
    }
    return count;
}

/* A step of a body: 1 made, 0 blocked. */
static bool step_body(const struct naive *n, struct state *s, const struct orr_stream_step *step,
                      uint32_t op) {
    uint8_t owner = (uint8_t)(100 + op);
    if (step->kind == ORR_OP_SYNC_STREAM)
        return is_empty(n, s, step->object);
    if (step->kind == ORR_OP_LOCK) {
        if (s->lock[step->object] != 0)
            return false;
        s->lock[step->object] = owner;
    } else if (s->lock[step->object] == owner) {
        s->lock[step->object] = 0;
    }
    return true;
}

/* The next step of a stream; its kind in *out_kind. */
static bool step_stream(const struct naive *n, struct state *s, uint32_t stream,
                        enum orr_hang_step_kind *out_kind) {
    struct queue *queue = &s->queues[stream];
    if (queue->finished == queue->added)
        return false;
    const struct entry *entry = &queue->entries[queue->finished];
    const struct orr_stream_op *op = &n->p->ops[entry->op];
    if (!met(n, s, entry->needs))
        return false;
    *out_kind = ORR_HANG_FINISH;
    if (entry->member_count > 0 && queue->progress == 0) {
        if (started_on(n, s, n->p->streams[stream].device) >= n->p->slots)
            return false;
        for (uint32_t i = 0; i < entry->member_count; i++)
            s->started[entry->members[i]] = 1;
        look_for_mismatch(n, s);
        queue->progress = 1;
        *out_kind = ORR_HANG_START;
        return true;
    }
    for (uint32_t i = 0; i < entry->member_count; i++)
        if (!matched(n, s, entry->members[i]))
            return false;
    if (op->kind == ORR_OP_HOSTFN && queue->progress < op->step_count) {
        *out_kind = ORR_HANG_BODY;
        if (!step_body(n, s, &n->p->steps[op->step_first + queue->progress], entry->op))
            return false;
        queue->progress++;
        return true;
    }
    queue->finished++;
    queue->progress = 0;
    return true;
}

static bool is_done(const struct naive *n, const struct state *s) {
    for (uint32_t h = 0; h < n->hosts; h++)
        if (next_op(n, s, h) < n->p->op_count)
            return false;
    for (uint32_t i = 0; i < n->streams; i++)
        if (s->queues[i].finished < s->queues[i].added)
            return false;
    return true;
}

/* --- all states --- */

struct space {
    struct state *states;
    uint32_t *slots;
    uint32_t count, states_max, mask;
};

static uint64_t hash_of(const struct state *s) {
    uint64_t hash = 1, word;
    for (size_t i = 0; i + sizeof word <= sizeof *s; i += sizeof word) {
        memcpy(&word, (const char *)s + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 31;
    }
    return hash ^ hash >> 32;
}

static void add(struct space *space, const struct state *s) {
    for (uint32_t at = (uint32_t)hash_of(s) & space->mask;; at = (at + 1) & space->mask) {
        if (space->slots[at] == 0) {
            if (space->count < space->states_max) {
                space->states[space->count] = *s;
                space->slots[at] = space->count + 1;
            }
            space->count++;
            return;
        }
        if (memcmp(&space->states[space->slots[at] - 1], s, sizeof *s) == 0)
            return;
    }
}

static struct state *first_state(struct naive *n, const struct orr_stream_program *program) {
    *n = (struct naive){.p = program,
                        .hosts = program->names[ORR_NAME_HOST].count,
                        .streams = program->names[ORR_NAME_STREAM].count};
    struct state *s = calloc(1, sizeof *s);
    memset(s->number, NOBODY, sizeof s->number);
    return s;
}

enum orr_check_verdict_kind naive_hangs(const struct orr_stream_program *program,
                                        uint32_t states_max) {
    struct naive n;
    struct state *first = first_state(&n, program), *next = calloc(1, sizeof *next);
    struct space space = {.states_max = states_max, .mask = 1};
    while (space.mask < 2 * states_max)
        space.mask *= 2;
    space.states = malloc(states_max * sizeof *space.states);
    space.slots = calloc(space.mask, sizeof *space.slots);
    space.mask--;
    add(&space, first);
    enum orr_check_verdict_kind kind = ORR_CHECK_NO_HANG;
    for (uint32_t i = 0; i < space.count && i < states_max && kind != ORR_CHECK_MISMATCH; i++) {
        bool moved = false;
        for (uint32_t p = 0; p < n.hosts + n.streams; p++) {
            enum orr_hang_step_kind step;
            *next = space.states[i];
            if (p < n.hosts ? step_host(&n, next, p) : step_stream(&n, next, p - n.hosts, &step)) {
                moved = true;
                add(&space, next);
            }
        }
        if (space.states[i].mismatch)
            kind = ORR_CHECK_MISMATCH;
        else if (!moved && !is_done(&n, &space.states[i]))
            kind = ORR_CHECK_HANG;
    }
    if (space.count > states_max && kind != ORR_CHECK_MISMATCH)
        kind = ORR_CHECK_UNKNOWN;
    free(space.states);
    free(space.slots);
    free(first);
    free(next);
    return kind;
}

const char *naive_replay(const struct orr_stream_program *program,
                         const struct orr_hang_result *result) {
    struct naive n;
    struct state *s = first_state(&n, program), *other = calloc(1, sizeof *other);
    const char *wrong = NULL;
    for (uint32_t i = 0; !wrong && i < result->step_count; i++) {
        const struct orr_hang_step *step = &result->steps[i];
        enum orr_hang_step_kind kind = ORR_HANG_CALL;
        if (step->kind == ORR_HANG_CALL) {
            if (next_op(&n, s, step->who) != step->op || !step_host(&n, s, step->who))
                wrong = "a call is not possible";
        } else {
            struct queue *queue = &s->queues[step->who];
            if (queue->finished == queue->added || queue->entries[queue->finished].op != step->op)
                wrong = "another entry is at the head";
            else if (!step_stream(&n, s, step->who, &kind) || kind != step->kind)
                wrong = "a stream's step is not possible";
        }
    }
    if (!wrong && (s->mismatch != 0) != (result->kind == ORR_CHECK_MISMATCH))
        wrong = "mismatch or not";
    for (uint32_t p = 0; !wrong && !s->mismatch && p < n.hosts + n.streams; p++) {
        enum orr_hang_step_kind kind;
        *other = *s;
        if (p < n.hosts ? step_host(&n, other, p) : step_stream(&n, other, p - n.hosts, &kind))
            wrong = "it can go on";
    }
    if (!wrong && !s->mismatch && is_done(&n, s))
        wrong = "it is done";
    free(s);
    free(other);
    return wrong;
}
