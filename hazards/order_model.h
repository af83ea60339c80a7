/* Which actor knows what, while the calls of a stream program are taken in order: streams of every
 * kind, hosts, events, flags, communicators. The rules are those of docs/stream_programs.md,
 * "happens-before"; memory is hazards/order_memory.h.
 *
 * A legacy stream is joined with all blocking streams of its device at every action, and they with
 * it. Neither is done at once: a blocking stream fetches what the legacy stream has published when
 * it is next used, and what the streams of a device know together is kept in a sum, to which only
 * those are added that changed since. So an action costs what is new, not the number of streams.
 *
 *     struct orr__order_model model;
 *     if (orr__order_model_init(&model, program) == ORR_OK) ...
 *     orr__order_model_begin(&model, stream, host, &stamp);   a stream action: steps 1 to 3
 *     ... accesses are checked against model.views[stream] ...
 *     orr__order_model_end(&model, stream);                   step 5
 *     orr__order_model_clear(&model);
 *
 * Actors: streams by their number, then hosts. Errors: ORR_NO_MEMORY only.
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_ORDER_MODEL_H
#define ORR_HAZARDS_ORDER_MODEL_H

#include "hazards/clock.h"
#include "hazards/stream_program.h"

/* A sum of the views of streams, to which changed ones are added when it is asked for. */
struct orr__order_sum {
    struct orr__view view;
    uint64_t gathered; /* changes up to this one are in it */
};

struct orr__order_stream {
    uint32_t device;       /* in `devices` */
    uint32_t newer, older; /* in its device's list of streams, latest change first */
    uint64_t changed;      /* serial of its last change */
    uint32_t fetched;      /* which publication of the legacy stream it has */
    bool is_blocking, is_legacy;
};

struct orr__order_device {
    uint32_t number;
    uint32_t newest;                /* stream; ORR_NONE: none */
    uint32_t legacy;                /* stream; ORR_NONE */
    uint32_t publications;          /* of the legacy stream */
    struct orr__view published;     /* the last one */
    struct orr__order_sum blocking; /* of the legacy stream and the blocking ones */
    struct orr__order_sum all;      /* of all streams */
};

struct orr__order_model {
    const struct orr_stream_program *program;
    struct orr__clocks clocks;
    struct orr__view *views; /* of streams, then of hosts */
    uint32_t stream_count, host_count, device_count;
    struct orr__order_stream *streams;
    struct orr__order_device *devices;
    struct orr__view *events; /* contents; time 0 and clock 0: see has_content */
    bool *has_content;
    struct orr__view *flags;
    uint64_t serial;  /* of changes */
    uint64_t effects; /* how often somebody learnt something from a call */
    /* Clocks saved for pairs of communicator and host: a hash table, key 0 = free. */
    struct orr__order_pair *pairs;
    size_t pair_slots, pair_count;
};

struct orr__order_pair {
    uint64_t key;
    struct orr__view view;
};

enum orr_status orr__order_model_init(struct orr__order_model *model,
                                      const struct orr_stream_program *program) ORR_MUST_CHECK;
void orr__order_model_clear(struct orr__order_model *model);

/* The actor of a host. */
static inline uint32_t orr__order_host(const struct orr__order_model *model, uint32_t host) {
    return model->stream_count + host;
}
/* The legacy stream of a device; ORR_NONE if it has none. */
uint32_t orr__order_legacy(const struct orr__order_model *model, uint32_t device);

/* Steps 1 to 3 of a stream action, and step 5. */
enum orr_status orr__order_model_begin(struct orr__order_model *model, uint32_t stream,
                                       uint32_t host, struct orr__stamp *out_stamp) ORR_MUST_CHECK;
enum orr_status orr__order_model_end(struct orr__order_model *model,
                                     uint32_t stream) ORR_MUST_CHECK;
/* A host action; cannot fail. */
struct orr__stamp orr__order_model_host_action(struct orr__order_model *model, uint32_t host);
/* The stream learns a saved view, before a stream action. */
enum orr_status orr__order_model_learn(struct orr__order_model *model, uint32_t stream,
                                       const struct orr__view *view) ORR_MUST_CHECK;

enum orr_status orr__order_model_record(struct orr__order_model *model, uint32_t event,
                                        uint32_t stream, uint32_t host) ORR_MUST_CHECK;
enum orr_status orr__order_model_wait(struct orr__order_model *model, uint32_t stream,
                                      uint32_t event, uint32_t host) ORR_MUST_CHECK;
/* The event has no content any more. */
void orr__order_model_event_clear(struct orr__order_model *model, uint32_t event);
enum orr_status orr__order_model_sync_event(struct orr__order_model *model, uint32_t host,
                                            uint32_t event) ORR_MUST_CHECK;
enum orr_status orr__order_model_sync_stream(struct orr__order_model *model, uint32_t host,
                                             uint32_t stream) ORR_MUST_CHECK;
enum orr_status orr__order_model_sync_device(struct orr__order_model *model, uint32_t host,
                                             uint32_t device) ORR_MUST_CHECK;
enum orr_status orr__order_model_notify(struct orr__order_model *model, uint32_t host,
                                        uint32_t flag) ORR_MUST_CHECK;
enum orr_status orr__order_model_await(struct orr__order_model *model, uint32_t host,
                                       uint32_t flag) ORR_MUST_CHECK;

/* A stream's view, with what its legacy stream has published; borrowed until the next call. */
enum orr_status orr__order_model_stream_view(struct orr__order_model *model, uint32_t stream,
                                             const struct orr__view **out_view) ORR_MUST_CHECK;

/* Before and after an operation of a communicator whose operations are serialized per host. */
enum orr_status orr__order_model_comm_enter(struct orr__order_model *model, uint32_t comm,
                                            uint32_t host, uint32_t stream) ORR_MUST_CHECK;
enum orr_status orr__order_model_comm_leave(struct orr__order_model *model, uint32_t comm,
                                            uint32_t host, uint32_t stream) ORR_MUST_CHECK;

#endif
