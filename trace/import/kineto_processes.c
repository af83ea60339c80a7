/* Files in which calls of several processes share correlations, because somebody joined traces.
 *
 * A profiler writes one process a file, and work of a device does not say whose it is. So calls are
 * told apart by their pid only where a correlation is used by more than one of them; then work goes
 * to the only pid that used its correlation, or to the pid whose calls alone the rest of its stream
 * is of. What is left has no call, and is counted. */
#include "trace/import/builder_internal.h"
#include "trace/import/kineto_internal.h"

enum { NO_PROCESS = 0, SEVERAL = UINT32_MAX };

struct owner { /* of a correlation */
    uint64_t correlation;
    uint32_t process; /* host's label up to '/', a number from 1; SEVERAL */
};

struct processes {
    struct orr__kineto *k;
    struct orr_timeline *timeline;
    uint32_t *of_host;
    uint32_t *of_stream; /* NO_PROCESS, one, or SEVERAL */
    struct owner *owners;
    size_t owner_count, owner_capacity;
    struct orr__index index;
    bool shared; /* a correlation is */
};

static size_t pid_length(const char *label) {
    return strcspn(label, "/");
}

/* Numbers the pids of hosts; *out_count is how many there are. */
static enum orr_status number_pids(struct processes *p, uint32_t *out_count) {
    const struct orr_timeline *t = p->timeline;
    struct orr__index index = {0}; /* of hosts, the first of each pid */
    enum orr_status status = ORR_OK;
    *out_count = 0;
    for (size_t i = 0; status == ORR_OK && i < t->host_count; i++) {
        const char *label = t->hosts[i].label;
        size_t length = pid_length(label);
        uint64_t hash = orr__hash_bytes(label, length);
        size_t at = orr__index_start(&index, hash);
        uint32_t item;
        while ((item = orr__index_item(&index, &at, hash)) != ORR__INDEX_NONE &&
               (pid_length(t->hosts[item].label) != length ||
                memcmp(t->hosts[item].label, label, length) != 0))
            at++;
        p->of_host[i] = item == ORR__INDEX_NONE ? ++*out_count : p->of_host[item];
        if (item == ORR__INDEX_NONE)
            status = orr__index_add(&index, p->k->memory, hash, (uint32_t)i);
    }
    orr__index_free(&index, p->k->memory);
    return status;
}

static struct owner *find_owner(const struct processes *p, uint64_t correlation) {
    uint64_t hash = orr__hash_mix(correlation, 1);
    size_t at = orr__index_start(&p->index, hash);
    uint32_t item;
    while ((item = orr__index_item(&p->index, &at, hash)) != ORR__INDEX_NONE) {
        if (p->owners[item].correlation == correlation)
            return &p->owners[item];
        at++;
    }
    return NULL;
}

static enum orr_status index_calls(struct processes *p) {
    const struct orr_timeline *t = p->timeline;
    for (size_t i = 0; i < t->call_count; i++) {
        uint64_t correlation = t->calls[i].correlation;
        if (correlation == ORR_CORRELATION_NONE)
            continue;
        uint32_t process = p->of_host[t->calls[i].host];
        struct owner *owner = find_owner(p, correlation);
        if (owner) {
            p->shared = p->shared || owner->process != process;
            owner->process = owner->process == process ? process : SEVERAL;
            continue;
        }
        enum orr_status status = orr_memory_grow(p->k->memory, &p->owners, &p->owner_capacity,
                                                 p->owner_count + 1, sizeof *p->owners, INT32_MAX);
        if (status == ORR_OK)
            status = orr__index_add(&p->index, p->k->memory, orr__hash_mix(correlation, 1),
                                    (uint32_t)p->owner_count);
        if (status != ORR_OK)
            return status;
        p->owners[p->owner_count++] = (struct owner){correlation, process};
    }
    return ORR_OK;
}

static uint32_t owner_of(const struct processes *p, uint64_t correlation) {
    const struct owner *owner =
        correlation == ORR_CORRELATION_NONE ? NULL : find_owner(p, correlation);
    return owner ? owner->process : NO_PROCESS;
}

static void vote(struct processes *p) {
    const struct orr_timeline *t = p->timeline;
    for (size_t i = 0; i < t->command_count; i++) {
        uint32_t process = owner_of(p, t->commands[i].correlation);
        uint32_t *of_stream = &p->of_stream[t->commands[i].stream];
        if (process != NO_PROCESS && process != SEVERAL)
            *of_stream = *of_stream == NO_PROCESS || *of_stream == process ? process : SEVERAL;
    }
}

/* The process of something with that correlation on a stream; NO_PROCESS if it cannot be told. */
static uint32_t decide(const struct processes *p, uint64_t correlation, uint32_t stream) {
    uint32_t process = owner_of(p, correlation);
    if (process == SEVERAL || process == NO_PROCESS)
        process = stream == ORR_ID_NONE ? NO_PROCESS : p->of_stream[stream];
    return process == SEVERAL ? NO_PROCESS : process;
}

/* The same stream, of the process. */
static uint32_t stream_of(struct processes *p, uint32_t stream, uint32_t process) {
    if (stream == ORR_ID_NONE)
        return stream;
    struct orr__stream_key key = p->k->builder->stream_keys[stream];
    return orr__builder_stream(p->k->builder, key.device, process, key.context, key.number);
}

static void separate(struct processes *p, size_t *out_ambiguous) {
    struct orr__builder *b = p->k->builder;
    struct orr_timeline *t = p->timeline;
    for (size_t i = 0; i < t->host_count; i++)
        t->hosts[i].process = p->of_host[i];
    for (size_t i = 0; i < t->command_count; i++) {
        struct orr_timeline_command *command = &t->commands[i];
        uint32_t process = decide(p, command->correlation, command->stream);
        *out_ambiguous += process == NO_PROCESS && owner_of(p, command->correlation) == SEVERAL;
        command->stream = stream_of(p, command->stream, process);
    }
    for (size_t i = 0; i < t->stream_wait_count; i++) {
        struct orr__wait *wait = &b->waits[i];
        wait->process = decide(p, wait->correlation, wait->stream);
        t->stream_waits[i].stream = stream_of(p, wait->stream, (uint32_t)wait->process);
        t->stream_waits[i].source = stream_of(p, wait->source, (uint32_t)wait->process);
    }
    for (size_t i = 0; i < b->sync_link_count; i++) {
        struct orr__sync_link *link = &b->sync_links[i];
        struct orr_timeline_sync *sync = &t->syncs[link->sync - 1];
        link->process = decide(p, link->correlation, sync->stream);
        sync->stream = stream_of(p, sync->stream, (uint32_t)link->process);
    }
}

static enum orr_status run(struct processes *p) {
    struct orr_timeline *t = p->timeline;
    p->of_host = orr_memory_alloc(p->k->memory, t->host_count * sizeof *p->of_host);
    p->of_stream = orr_memory_alloc(p->k->memory, t->stream_count * sizeof *p->of_stream);
    if (!p->of_host || !p->of_stream)
        return ORR_NO_MEMORY;
    uint32_t pids;
    enum orr_status status = number_pids(p, &pids);
    if (status != ORR_OK || pids < 2)
        return status;
    status = index_calls(p);
    if (status != ORR_OK || !p->shared)
        return status;
    size_t ambiguous = 0;
    vote(p);
    separate(p, &ambiguous);
    orr__builder_finding(p->k->builder, "import_processes", "warning",
                         "record a file for each process",
                         "calls of several processes share correlation ids: they are told apart "
                         "by pid; %llu items of work could be of more than one and have no call",
                         (unsigned long long)ambiguous);
    return ORR_OK;
}

enum orr_status orr__kineto_separate(struct orr__kineto *k) {
    struct processes p = {.k = k, .timeline = k->builder->timeline};
    if (orr__builder_failed(k->builder) || p.timeline->host_count < 2)
        return ORR_OK;
    enum orr_status status = run(&p);
    orr_memory_free(k->memory, p.of_host);
    orr_memory_free(k->memory, p.of_stream);
    orr_memory_free(k->memory, p.owners);
    orr__index_free(&p.index, k->memory);
    return status;
}
