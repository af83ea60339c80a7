/* What hosts know to be done: a sync, a query or a message from another host says so, and the
 * host's next command comes after it. The observer is told at once; the trace says it with edges
 * of kind host to that command.
 *
 *     k1 k2 k3   sync(k2)   l   sync(k3)  m        edges k2 -> l, k3 -> m
 *
 * Of one stream only the newest command counts, and nothing is said twice in a row. */
#include <assert.h>

#include "runtime/runtime_internal.h"

enum { SEEN_MAX = 1 << 28 };

static enum orr_status reserve(struct orr_runtime *runtime, struct orr__host *host,
                               uint32_t count) {
    if (!runtime->writer)
        return ORR_OK;
    if (orr_memory_grow(runtime->memory, &host->seen, &host->seen_capacity,
                        host->seen_count + count, sizeof *host->seen, SEEN_MAX) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    return ORR_OK;
}

enum orr_status orr__runtime_reserve_seen(struct orr_runtime *runtime, uint32_t count) {
    return reserve(runtime, &runtime->hosts[runtime->host], count);
}

static void append(struct orr__host *host, uint32_t stream, uint64_t cmd) {
    assert(host->seen_count < host->seen_capacity);
    host->seen[host->seen_count++] = (struct orr__seen){.cmd = cmd, .stream = stream};
}

/* The host's entry for a stream, or its number of entries. The stream remembers the last host's. */
static size_t find(const struct orr__host *host, uint32_t id, const struct orr_stream *stream) {
    if (stream->seen_cmd > 0 && stream->seen_host == id && stream->seen_index < host->seen_count &&
        host->seen[stream->seen_index].stream == stream->id)
        return stream->seen_index;
    if (stream->seen_cmd == 0 || stream->seen_host == id)
        return host->seen_count;
    size_t at = 0;
    while (at < host->seen_count && host->seen[at].stream != stream->id)
        at++;
    return at;
}

/* The host's next command will have an edge from this point's. */
static void list(struct orr_runtime *runtime, struct orr_stream *stream, struct orr_point point) {
    struct orr__host *host = &runtime->hosts[runtime->host];
    size_t at = find(host, runtime->host, stream);
    if (at == host->seen_count)
        append(host, stream->id, point.cmd);
    else if (host->seen[at].cmd < point.cmd)
        host->seen[at].cmd = point.cmd;
    stream->seen_index = (uint32_t)at;
}

static void add(struct orr_runtime *runtime, struct orr_point point) {
    struct orr_stream *stream = runtime->streams[point.stream];
    if (stream->seen_cmd >= point.cmd && stream->seen_host == runtime->host)
        return;
    if (runtime->writer)
        list(runtime, stream, point);
    stream->seen_host = runtime->host;
    stream->seen_cmd = point.cmd;
}

void orr__runtime_saw(struct orr_runtime *runtime, const struct orr_point *points, uint32_t count) {
    if (runtime->observer && count > 0)
        runtime->observer->observed(runtime->observer, runtime->host, points, count);
    bool keeps = runtime->writer || runtime->drop_wait > 0;
    for (uint32_t i = 0; keeps && i < count; i++)
        if (points[i].seq > 0 && points[i].cmd > 0)
            add(runtime, points[i]);
}

void orr__runtime_tell_seen(struct orr_runtime *runtime, uint64_t cmd) {
    struct orr__host *host = &runtime->hosts[runtime->host];
    for (size_t i = 0; i < host->seen_count; i++) {
        struct orr_record_edge edge = {
            .header = ORR_RECORD_HEADER(edge, EDGE), .src = host->seen[i].cmd, .dst = cmd};
        edge.header.a = ORR_EDGE_HOST;
        assert(edge.src < edge.dst);
        orr_record_push(runtime->writer, &edge);
    }
    host->seen_count = 0;
}

/* --- messages --- */

/* A message is a command of its poster: the trace then says with the same edges what it carries,
 * and who took it. */
static uint64_t post(struct orr_runtime *runtime) {
    uint64_t message = orr__runtime_host_command(
        runtime, ORR_COMMAND_MARKER, runtime->id_post, ORR_ID_NONE, ORR_ID_NONE,
        runtime->verbs->now(runtime->backend, runtime->host));
    if (runtime->observer)
        runtime->observer->posted(runtime->observer, runtime->host, message);
    return message;
}

static enum orr_status take(struct orr_runtime *runtime, uint32_t host, uint64_t message) {
    assert(message > 0 && message <= runtime->command_count && host < runtime->host_count);
    enum orr_status status = reserve(runtime, &runtime->hosts[host], 1);
    if (status != ORR_OK)
        return status;
    if (runtime->writer)
        append(&runtime->hosts[host], ORR_ID_NONE, message);
    if (runtime->observer)
        runtime->observer->taken(runtime->observer, host, message);
    return ORR_OK;
}

uint64_t orr_runtime_post(struct orr_runtime *runtime) {
    return post(runtime);
}

enum orr_status orr_runtime_take(struct orr_runtime *runtime, uint64_t message) {
    return take(runtime, runtime->host, message);
}

enum orr_status orr__runtime_greet(struct orr_runtime *runtime, uint32_t host) {
    return take(runtime, host, post(runtime));
}
