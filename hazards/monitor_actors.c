/* Streams and hosts, and what each knows of the others.
 *
 *     stream 3:   #1 #2 #3  wait #4  #5 #6 ...      a point (3, 5) stands for what stream 3 knew
 *     versions:   [1: v0]        [4: v1]            when it got #5: v1, and 5 of its own
 *
 * A stream's clock changes where it waits or hears something new from its caller; between such
 * places points of it differ in its own count alone. */
#include <assert.h>
#include <string.h>

#include "hazards/monitor_internal.h"

enum { ACTORS_MAX = 1 << 22, VERSIONS_OF_A_STREAM_MIN = 64 };

struct orr__actor *orr__monitor_stream(struct orr_monitor *monitor, uint32_t stream) {
    uint32_t actor = stream < monitor->stream_count ? monitor->stream_actors[stream] : 0;
    return actor ? &monitor->actors[actor - 1] : NULL;
}

struct orr__actor *orr__monitor_host(struct orr_monitor *monitor, uint32_t host) {
    uint32_t actor = host < monitor->host_count ? monitor->host_actors[host] : 0;
    return actor ? &monitor->actors[actor - 1] : NULL;
}

/* The place of an id in a map from ids to actors, made if need be. */
static uint32_t *place_of(struct orr_monitor *monitor, uint32_t **map, size_t *count,
                          size_t *capacity, uint32_t id) {
    if (id < *count)
        return &(*map)[id];
    if (orr_memory_grow(monitor->memory, map, capacity, (size_t)id + 1, sizeof **map, ACTORS_MAX) !=
        ORR_OK)
        return NULL;
    *count = (size_t)id + 1;
    return &(*map)[id];
}

void orr__monitor_add_actor(struct orr_monitor *monitor, uint32_t id, uint32_t device,
                            uint32_t name, const char *host_name) {
    uint32_t *place = host_name ? place_of(monitor, &monitor->host_actors, &monitor->host_count,
                                           &monitor->host_capacity, id)
                                : place_of(monitor, &monitor->stream_actors, &monitor->stream_count,
                                           &monitor->stream_capacity, id);
    if (place && *place != 0)
        return;
    if (!place ||
        orr_memory_grow(monitor->memory, &monitor->actors, &monitor->actor_capacity,
                        monitor->actor_count + 1, sizeof *monitor->actors, ACTORS_MAX) != ORR_OK) {
        orr__monitor_lacks(monitor);
        return;
    }
    struct orr__actor *actor = &monitor->actors[monitor->actor_count];
    *actor = (struct orr__actor){.is_host = host_name != NULL,
                                 .id = id,
                                 .device = device,
                                 .name = name,
                                 .seen_host = UINT32_MAX,
                                 .version = 1};
    if (host_name) {
        actor->host_name = orr_memory_text(monitor->memory, host_name, strlen(host_name));
        if (!actor->host_name) {
            orr__monitor_lacks(monitor);
            return;
        }
    }
    *place = (uint32_t)++monitor->actor_count;
    if (host_name) {
        monitor->told_hosts++;
        monitor->last_host = *place - 1;
    }
}

/* --- joins --- */

void orr__actor_join(struct orr_monitor *monitor, struct orr__actor *actor,
                     const struct orr__shared_clock *clock, uint32_t owner, int32_t count) {
    bool changed = orr__shared_clock_get(&actor->clock, owner) < count;
    if (!orr__shared_clock_join(&monitor->clocks, &actor->clock, clock, &changed) ||
        !orr__shared_clock_raise(&monitor->clocks, &actor->clock, owner, count))
        orr__monitor_lacks(monitor);
    actor->version += changed;
}

/* What a point of the stream stands for. */
static const struct orr__version *version_at(const struct orr__actor *stream, int32_t count) {
    size_t low = 0, high = stream->version_count;
    if (high > 0 && stream->versions[high - 1].first <= count)
        return &stream->versions[high - 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stream->versions[middle].first <= count)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &stream->versions[low - 1] : NULL;
}

/* Was what the point stood for dropped, because all hosts knew? */
static bool is_dropped(const struct orr__actor *stream, int32_t count) {
    return stream->version_count > 0 && stream->versions[0].first > count &&
           count <= stream->blurred;
}

void orr__actor_join_point(struct orr_monitor *monitor, struct orr__actor *actor,
                           const struct orr_point *point) {
    if (point->seq == 0)
        return;
    const struct orr__actor *stream = orr__monitor_stream(monitor, point->stream);
    if (!stream || point->seq > (uint64_t)stream->count) {
        monitor->figures.unknown++;
        return;
    }
    int32_t count = (int32_t)point->seq;
    uint32_t owner = orr__actor_index(monitor, stream);
    if (stream == actor || orr__shared_clock_get(&actor->clock, owner) >= count)
        return; /* it knows, and with it all that the stream knew then */
    /* Of what all hosts knew only somebody asks whom no host has told anything. */
    const struct orr__version *version =
        is_dropped(stream, count) ? &stream->versions[0] : version_at(stream, count);
    const struct orr__shared_clock none = {0};
    monitor->figures.blurred_waits += count <= stream->blurred;
    orr__actor_join(monitor, actor, version ? &version->clock : &none, owner, count);
}

void orr__monitor_add_point(struct orr_monitor *monitor, struct orr__shared_clock *clock,
                            const struct orr_point *point) {
    const struct orr__actor *stream = orr__monitor_stream(monitor, point->stream);
    if (point->seq == 0 || !stream || point->seq > (uint64_t)stream->count)
        return;
    int32_t count = (int32_t)point->seq;
    const struct orr__version *version = version_at(stream, count);
    bool changed = false;
    if ((version && !orr__shared_clock_join(&monitor->clocks, clock, &version->clock, &changed)) ||
        !orr__shared_clock_raise(&monitor->clocks, clock, orr__actor_index(monitor, stream), count))
        orr__monitor_lacks(monitor);
}

void orr__actor_join_host(struct orr_monitor *monitor, struct orr__actor *stream,
                          const struct orr__actor *host) {
    uint32_t index = orr__actor_index(monitor, host);
    if (stream->seen_host == index && stream->seen_version == host->version)
        return;
    stream->seen_host = index;
    stream->seen_version = host->version;
    orr__actor_join(monitor, stream, &host->clock, index, host->count);
}

/* --- versions --- */

const struct orr__shared_clock *orr__monitor_all_know(const struct orr_monitor *monitor) {
    return monitor->told_hosts == 1 ? &monitor->actors[monitor->last_host].clock : NULL;
}

/* What every host knows of an actor. */
static int32_t floor_of(const struct orr_monitor *monitor, uint32_t actor) {
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < monitor->host_count; i++) {
        if (monitor->host_actors[i] == 0)
            continue;
        const struct orr__actor *host = &monitor->actors[monitor->host_actors[i] - 1];
        int32_t known = orr__shared_clock_get(&host->clock, actor);
        if (known < least)
            least = known;
    }
    return least;
}

static void drop_versions(struct orr_monitor *monitor, struct orr__actor *stream, size_t count) {
    if (count == 0)
        return;
    if (count < stream->version_count)
        stream->blurred = stream->versions[count].first - 1;
    for (size_t i = 0; i < count; i++)
        orr__shared_clock_drop(&monitor->clocks, &stream->versions[i].clock);
    stream->version_count -= count;
    monitor->version_count -= count;
    memmove(stream->versions, stream->versions + count,
            stream->version_count * sizeof *stream->versions);
}

/* Every second one of the older half goes; the one behind it then stands for its points too. That
 * one knows more, so that a wait is taken for too much rather than for too little. */
static void blur_versions(struct orr_monitor *monitor, struct orr__actor *stream) {
    size_t half = stream->version_count / 4 * 2, kept = half / 2;
    struct orr__version *versions = stream->versions;
    for (size_t i = 0; i < half; i += 2) {
        orr__shared_clock_drop(&monitor->clocks, &versions[i].clock);
        versions[i / 2] =
            (struct orr__version){.first = versions[i].first, .clock = versions[i + 1].clock};
    }
    stream->blurred = versions[half].first - 1;
    memmove(&versions[kept], &versions[half],
            (stream->version_count - half) * sizeof *stream->versions);
    stream->version_count -= kept;
    monitor->version_count -= kept;
}

/* Drops what no wait can ask for: points that all hosts know to be done, and with them every
 * stream at its next command. */
static void thin_versions(struct orr_monitor *monitor, struct orr__actor *stream) {
    int32_t least = floor_of(monitor, orr__actor_index(monitor, stream));
    size_t count = 0;
    while (count + 1 < stream->version_count && stream->versions[count + 1].first - 1 <= least)
        count++;
    drop_versions(monitor, stream, count);
    size_t max = monitor->options.versions_max / (monitor->stream_count + 1);
    if (max < VERSIONS_OF_A_STREAM_MIN)
        max = VERSIONS_OF_A_STREAM_MIN;
    if (stream->version_count >= max)
        blur_versions(monitor, stream);
}

/* Points from `count` on stand for what the stream knows now. */
static void add_version(struct orr_monitor *monitor, struct orr__actor *stream, int32_t count) {
    if (stream->version_count == stream->version_capacity &&
        stream->version_count >= VERSIONS_OF_A_STREAM_MIN)
        thin_versions(monitor, stream);
    if (orr_memory_grow(monitor->memory, &stream->versions, &stream->version_capacity,
                        stream->version_count + 1, sizeof *stream->versions,
                        SIZE_MAX / 64) != ORR_OK) {
        orr__monitor_lacks(monitor);
        return;
    }
    stream->versions[stream->version_count++] =
        (struct orr__version){.first = count, .clock = orr__shared_clock_keep(stream->clock)};
    monitor->version_count++;
}

void orr__actor_advance(struct orr_monitor *monitor, struct orr__actor *stream, uint64_t seq) {
    if (seq > ORR__CLOCK_COUNT_MAX) {
        orr__monitor_lacks(monitor);
        return;
    }
    stream->count = (int32_t)seq;
    const struct orr__version *last =
        stream->version_count > 0 ? &stream->versions[stream->version_count - 1] : NULL;
    if (last ? last->clock.root != stream->clock.root : stream->clock.root != NULL)
        add_version(monitor, stream, stream->count);
}

void orr__actor_settle(struct orr_monitor *monitor, struct orr__actor *stream) {
    struct orr__version *last =
        stream->version_count > 0 ? &stream->versions[stream->version_count - 1] : NULL;
    if (last && last->first == stream->count) {
        orr__shared_clock_drop(&monitor->clocks, &last->clock);
        last->clock = orr__shared_clock_keep(stream->clock);
    } else {
        orr__actor_advance(monitor, stream, (uint64_t)stream->count);
    }
}

void orr__monitor_clear_actors(struct orr_monitor *monitor) {
    for (size_t i = 0; i < monitor->actor_count; i++) {
        struct orr__actor *actor = &monitor->actors[i];
        drop_versions(monitor, actor, actor->version_count);
        orr__shared_clock_drop(&monitor->clocks, &actor->clock);
        orr_memory_free(monitor->memory, actor->versions);
        orr_memory_free(monitor->memory, actor->host_name);
    }
    orr_memory_free(monitor->memory, monitor->actors);
    orr_memory_free(monitor->memory, monitor->stream_actors);
    orr_memory_free(monitor->memory, monitor->host_actors);
}
