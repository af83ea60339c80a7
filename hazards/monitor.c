/* The observer of a check: what every call means for who comes after whom. */
#include "hazards/monitor.h"

#include <assert.h>
#include <string.h>

#include "hazards/monitor_internal.h"

enum { MEMBERS_MAX = 1 << 20, MEMBER_ITEMS_MAX = 1 << 28 };

static struct orr_monitor *monitor_of(struct orr_observer *observer) {
    return (struct orr_monitor *)(void *)observer;
}

/* --- who there is --- */

static void tell_stream(struct orr_observer *observer, const struct orr_record_stream *stream) {
    orr__monitor_add_actor(monitor_of(observer), stream->id, stream->device, stream->name, NULL);
}

static void tell_host(struct orr_observer *observer, const struct orr_observed_host *host) {
    orr__monitor_add_actor(monitor_of(observer), host->id, ORR_ID_NONE, 0,
                           host->name ? host->name : "");
}

/* --- commands --- */

/* The command's stream comes after its caller and after what the command waits for. Returns the
 * caller's count: calls are counted, so that others know of them by messages. */
static int32_t join_before(struct orr_monitor *monitor, struct orr__actor *stream,
                           const struct orr_observed_command *command) {
    struct orr__actor *host = orr__monitor_host(monitor, command->host);
    if (host) {
        host->count++;
        orr__actor_join_host(monitor, stream, host);
    }
    for (uint32_t i = 0; i < command->wait_count; i++)
        orr__actor_join_point(monitor, stream, &command->waits[i]);
    return host ? host->count : 0;
}

static void tell_host_access(struct orr_monitor *monitor,
                             const struct orr_observed_command *command) {
    struct orr__actor *host = orr__monitor_host(monitor, command->host);
    if (!host)
        return;
    host->count++;
    host->version++;
    orr__monitor_access(monitor, host, host->count, command);
}

/* --- collectives that are one point of synchronization --- */

static bool is_joint(const struct orr_monitor *monitor,
                     const struct orr_observed_command *command) {
    return command->kind == ORR_COMMAND_COLLECTIVE && command->members > 1 &&
           (monitor->options.joint_collectives ||
            command->collective_kind == ORR_COLLECTIVE_BARRIER);
}

/* All members have been told: each comes after what any of them came after, and what follows one
 * follows them all. */
static void meet(struct orr_monitor *monitor) {
    struct orr__actor met = {.id = ORR_ID_NONE};
    const struct orr_observed_access *accesses = monitor->member_accesses;
    for (size_t i = 0; i < monitor->member_count; i++) {
        uint32_t index = monitor->members[i].actor;
        const struct orr__actor *actor = &monitor->actors[index];
        orr__actor_join(monitor, &met, &actor->clock, index, actor->count);
    }
    for (size_t i = 0; i < monitor->member_count; i++) {
        struct orr__member *member = &monitor->members[i];
        struct orr__actor *actor = &monitor->actors[member->actor];
        orr__actor_join(monitor, actor, &met.clock, member->actor, 0);
        orr__actor_advance(monitor, actor, member->command.seq);
        member->command.accesses = accesses + member->access_first;
        orr__monitor_access(monitor, actor, member->call, &member->command);
    }
    struct orr__shared_clock *after = &met.clock;
    for (size_t i = 0; i < monitor->member_count; i++)
        if (!orr__shared_clock_raise(&monitor->clocks, after, monitor->members[i].actor,
                                     monitor->actors[monitor->members[i].actor].count))
            orr__monitor_lacks(monitor);
    for (size_t i = 0; i < monitor->member_count; i++) {
        struct orr__actor *actor = &monitor->actors[monitor->members[i].actor];
        orr__actor_join(monitor, actor, after, monitor->members[i].actor, 0);
        orr__actor_settle(monitor, actor);
    }
    orr__shared_clock_drop(&monitor->clocks, &met.clock);
    monitor->member_count = monitor->member_access_count = 0;
}

static void add_member(struct orr_monitor *monitor, struct orr__actor *stream, int32_t call,
                       const struct orr_observed_command *command) {
    size_t first = monitor->member_access_count;
    if (orr_memory_grow(monitor->memory, &monitor->members, &monitor->member_capacity,
                        monitor->member_count + 1, sizeof *monitor->members,
                        MEMBERS_MAX) != ORR_OK ||
        orr_memory_grow(monitor->memory, &monitor->member_accesses,
                        &monitor->member_access_capacity, first + command->access_count,
                        sizeof *monitor->member_accesses, MEMBER_ITEMS_MAX) != ORR_OK) {
        orr__monitor_lacks(monitor);
        return;
    }
    if (command->access_count > 0)
        memcpy(monitor->member_accesses + first, command->accesses,
               command->access_count * sizeof *command->accesses);
    monitor->member_access_count += command->access_count;
    monitor->members[monitor->member_count++] =
        (struct orr__member){.actor = orr__actor_index(monitor, stream),
                             .call = call,
                             .command = *command,
                             .access_first = first};
}

/* A damaged trace may lack members; those that are there meet then. */
static bool is_other_group(const struct orr_monitor *monitor,
                           const struct orr_observed_command *command) {
    const struct orr_observed_command *first = &monitor->members[0].command;
    return command->communicator != first->communicator ||
           command->collective != first->collective || command->members != first->members;
}

static void tell_command(struct orr_observer *observer,
                         const struct orr_observed_command *command) {
    struct orr_monitor *monitor = monitor_of(observer);
    monitor->figures.commands++;
    if (monitor->member_count > 0 && is_other_group(monitor, command))
        meet(monitor);
    if (command->stream == ORR_ID_NONE) {
        tell_host_access(monitor, command);
        return;
    }
    struct orr__actor *stream = orr__monitor_stream(monitor, command->stream);
    if (!stream) {
        monitor->figures.unknown++;
        return;
    }
    int32_t call = join_before(monitor, stream, command);
    if (!is_joint(monitor, command)) {
        orr__actor_advance(monitor, stream, command->seq);
        if (command->access_count > 0)
            orr__monitor_access(monitor, stream, call, command);
        return;
    }
    add_member(monitor, stream, call, command);
    if (monitor->member_count == command->members)
        meet(monitor);
}

/* --- memory --- */

static void tell_buffer(struct orr_observer *observer, const struct orr_observed_buffer *buffer) {
    orr__monitor_add_buffer(monitor_of(observer), buffer);
}

static void tell_free(struct orr_observer *observer, uint64_t id, uint64_t cmd, uint32_t host,
                      uint32_t site) {
    const struct orr__touch end = {.cmd = cmd, .host = host, .site = site};
    orr__monitor_free(monitor_of(observer), id, &end);
}

static void tell_record_stream(struct orr_observer *observer, uint64_t id, uint32_t stream) {
    orr__monitor_record_stream(monitor_of(observer), id, stream);
}

/* --- what hosts learn --- */

static void tell_observed(struct orr_observer *observer, uint32_t host,
                          const struct orr_point *points, uint32_t count) {
    struct orr_monitor *monitor = monitor_of(observer);
    struct orr__actor *actor = orr__monitor_host(monitor, host);
    for (uint32_t i = 0; actor && i < count; i++)
        orr__actor_join_point(monitor, actor, &points[i]);
}

static void tell_posted(struct orr_observer *observer, uint32_t host, uint64_t message) {
    struct orr_monitor *monitor = monitor_of(observer);
    const struct orr__actor *actor = orr__monitor_host(monitor, host);
    if (!actor || message == 0 || orr__id_table_find(&monitor->messages, message))
        return;
    struct orr__message *kept = orr_memory_alloc(monitor->memory, sizeof *kept);
    if (!kept || orr__id_table_add(&monitor->messages, monitor->memory, message, kept) != ORR_OK) {
        orr_memory_free(monitor->memory, kept);
        orr__monitor_lacks(monitor);
        return;
    }
    *kept = (struct orr__message){.id = message,
                                  .clock = orr__shared_clock_keep(actor->clock),
                                  .count = actor->count,
                                  .actor = orr__actor_index(monitor, actor)};
}

static void tell_taken(struct orr_observer *observer, uint32_t host, uint64_t message) {
    struct orr_monitor *monitor = monitor_of(observer);
    struct orr__message *kept = orr__id_table_remove(&monitor->messages, message);
    struct orr__actor *actor = orr__monitor_host(monitor, host);
    if (kept && actor)
        orr__actor_join(monitor, actor, &kept->clock, kept->actor, kept->count);
    if (kept)
        orr__shared_clock_drop(&monitor->clocks, &kept->clock);
    orr_memory_free(monitor->memory, kept);
}

/* --- life --- */

enum orr_status orr_monitor_create(const struct orr_memory *memory,
                                   const struct orr_monitor_options *options,
                                   struct orr_monitor **out_monitor) {
    *out_monitor = NULL;
    struct orr_monitor *monitor = orr_memory_alloc(memory, sizeof *monitor);
    if (!monitor)
        return ORR_NO_MEMORY;
    monitor->observer = (struct orr_observer){.stream = tell_stream,
                                              .host = tell_host,
                                              .buffer = tell_buffer,
                                              .free = tell_free,
                                              .record_stream = tell_record_stream,
                                              .command = tell_command,
                                              .observed = tell_observed,
                                              .posted = tell_posted,
                                              .taken = tell_taken};
    monitor->memory = memory;
    if (options)
        monitor->options = *options;
    if (monitor->options.versions_max == 0)
        monitor->options.versions_max = ORR_MONITOR_VERSIONS;
    if (monitor->options.findings_max == 0)
        monitor->options.findings_max = ORR_MONITOR_FINDINGS;
    orr__clock_pool_init(&monitor->clocks, memory);
    orr__touch_pool_init(&monitor->touches, memory);
    *out_monitor = monitor;
    return ORR_OK;
}

void orr_monitor_destroy(struct orr_monitor **handle) {
    struct orr_monitor *monitor = *handle;
    if (!monitor)
        return;
    const struct orr_memory *memory = monitor->memory;
    for (size_t i = 0; i < monitor->messages.size; i++) {
        struct orr__message *message = monitor->messages.entries[i].object;
        if (message)
            orr__shared_clock_drop(&monitor->clocks, &message->clock);
        orr_memory_free(memory, message);
    }
    orr__id_table_clear(&monitor->messages, memory);
    orr__monitor_clear_memory(monitor);
    orr__monitor_clear_actors(monitor);
    orr__touch_pool_clear(&monitor->touches);
    orr__clock_pool_clear(&monitor->clocks);
    orr_memory_free(memory, monitor->members);
    orr_memory_free(memory, monitor->member_accesses);
    orr_memory_free(memory, monitor->found);
    orr_memory_free(memory, monitor->found_slots);
    orr_memory_free(memory, monitor);
    *handle = NULL;
}

struct orr_observer *orr_monitor_observer(struct orr_monitor *monitor) {
    return &monitor->observer;
}

enum orr_status orr_monitor_status(const struct orr_monitor *monitor) {
    return monitor->status;
}

struct orr_monitor_figures orr_monitor_figures(const struct orr_monitor *monitor) {
    struct orr_monitor_figures figures = monitor->figures;
    figures.bytes = monitor->clocks.bytes + monitor->touches.bytes;
    return figures;
}
