/* A plain model of what the monitor checks, for random calls: who precedes whom as sets of actions,
 * and every access remembered for every byte.
 *
 * It tells the same calls to an observer, so that the two can be compared.
 *
 * Threads: one. */
#ifndef ORR_TESTS_MONITOR_MODEL_H
#define ORR_TESTS_MONITOR_MODEL_H

#include "runtime/observer.h"

enum {
    MODEL_ACTIONS = 256,
    MODEL_STREAMS = 4,
    MODEL_HOSTS = 3,
    MODEL_BYTES = 24, /* of a memory */
    MODEL_MEMORIES = 2,
    MODEL_BUFFERS = 256,
    MODEL_MESSAGES = 64
};

struct model_set {
    uint64_t words[MODEL_ACTIONS / 64];
};

struct model_touch {
    uint32_t action;
    uint64_t buffer;
    bool writes;
    bool settled; /* its byte was handed out again after it was known to be done */
};

struct model_buffer {
    uint64_t id, base, bytes;
    uint32_t memory, stream;
    bool live, recorded[MODEL_STREAMS];
};

struct model {
    struct orr_observer *observer;
    uint64_t seed;           /* state of the random numbers */
    bool joint;              /* collectives are points of synchronization */
    bool reuse_orders_hosts; /* as the monitor's option */
    uint32_t host_count;
    struct model_set streams[MODEL_STREAMS], hosts[MODEL_HOSTS]; /* what each comes after next */
    struct model_set before[MODEL_ACTIONS];                      /* what an action comes after */
    struct model_set done[MODEL_ACTIONS];   /* what whoever waits for it comes after */
    struct orr_point points[MODEL_ACTIONS]; /* of stream commands; seq 0 else */
    uint64_t seqs[MODEL_STREAMS];
    uint32_t action_count;
    uint64_t cmd_count, buffer_count, message_count, collective_count;
    struct model_buffer buffers[MODEL_BUFFERS];
    struct model_set messages[MODEL_MESSAGES];
    bool pending[MODEL_MESSAGES]; /* posted and not taken */
    struct model_touch touches[MODEL_MEMORIES][MODEL_BYTES][MODEL_ACTIONS];
    uint32_t touch_counts[MODEL_MEMORIES][MODEL_BYTES];
    struct model_set freed[MODEL_MEMORIES][MODEL_BYTES];
    uint64_t cmds[MODEL_ACTIONS]; /* ids of the actions' calls */
    /* Answers, by id of call. */
    bool conflicts[2 * MODEL_ACTIONS + MODEL_BUFFERS]; /* an access that something conflicts with */
    bool frees[2 * MODEL_ACTIONS + MODEL_BUFFERS];     /* a free that does not order every use */
};

/* Tells the observer of streams and hosts. */
void model_begin(struct model *model, struct orr_observer *observer, uint64_t seed);
/* One more random call; false when there is no room for more. */
bool model_step(struct model *model);
/* Does the access of call `b` conflict with that of call `a`, nothing ordering them? */
bool model_is_pair(const struct model *model, uint64_t a, uint64_t b);

#endif
