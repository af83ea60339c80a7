#include "hazards/observer_tee.h"

/* The observer of a side; the names are whatever they are by now. */
static struct orr_observer *side(struct orr_observer *observer, int index) {
    struct orr_observer_tee *tee = (struct orr_observer_tee *)(void *)observer;
    tee->sides[index]->names = observer->names;
    return tee->sides[index];
}

static void tell_stream(struct orr_observer *observer, const struct orr_record_stream *stream) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->stream(side(observer, i), stream);
}

static void tell_host(struct orr_observer *observer, const struct orr_observed_host *host) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->host(side(observer, i), host);
}

static void tell_buffer(struct orr_observer *observer, const struct orr_observed_buffer *buffer) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->buffer(side(observer, i), buffer);
}

static void tell_free(struct orr_observer *observer, uint64_t id, uint64_t cmd, uint32_t host,
                      uint32_t site) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->free(side(observer, i), id, cmd, host, site);
}

static void tell_record_stream(struct orr_observer *observer, uint64_t id, uint32_t stream) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->record_stream(side(observer, i), id, stream);
}

static void tell_command(struct orr_observer *observer,
                         const struct orr_observed_command *command) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->command(side(observer, i), command);
}

static void tell_observed(struct orr_observer *observer, uint32_t host,
                          const struct orr_point *points, uint32_t count) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->observed(side(observer, i), host, points, count);
}

static void tell_posted(struct orr_observer *observer, uint32_t host, uint64_t message) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->posted(side(observer, i), host, message);
}

static void tell_taken(struct orr_observer *observer, uint32_t host, uint64_t message) {
    for (int i = 0; i < 2; i++)
        side(observer, i)->taken(side(observer, i), host, message);
}

void orr_observer_tee_init(struct orr_observer_tee *tee, struct orr_observer *first,
                           struct orr_observer *second) {
    *tee = (struct orr_observer_tee){.observer = {.stream = tell_stream,
                                                  .host = tell_host,
                                                  .buffer = tell_buffer,
                                                  .free = tell_free,
                                                  .record_stream = tell_record_stream,
                                                  .command = tell_command,
                                                  .observed = tell_observed,
                                                  .posted = tell_posted,
                                                  .taken = tell_taken},
                                     .sides = {first, second}};
}
