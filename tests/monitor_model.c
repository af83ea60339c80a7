#include "tests/monitor_model.h"

#include <string.h>

#include "tests/support.h"

static void add(struct model_set *set, const struct model_set *other) {
    for (size_t i = 0; i < MODEL_ACTIONS / 64; i++)
        set->words[i] |= other->words[i];
}

static void add_one(struct model_set *set, uint32_t action) {
    set->words[action / 64] |= UINT64_C(1) << action % 64;
}

static bool has(const struct model_set *set, uint32_t action) {
    return set->words[action / 64] >> action % 64 & 1;
}

static uint64_t below(struct model *model, uint64_t count) {
    return random_below(&model->seed, count);
}

void model_begin(struct model *model, struct orr_observer *observer, uint64_t seed) {
    memset(model, 0, sizeof *model);
    model->observer = observer;
    model->seed = seed;
    model->host_count = 1 + (uint32_t)below(model, MODEL_HOSTS);
    for (uint32_t i = 0; i < MODEL_STREAMS; i++) {
        struct orr_record_stream stream = {.id = i, .device = 0};
        observer->stream(observer, &stream);
    }
    for (uint32_t i = 0; i < model->host_count; i++)
        observer->host(observer, &(struct orr_observed_host){.id = i, .name = "h"});
}

/* --- accesses --- */

static uint32_t new_action(struct model *model, uint64_t cmd, const struct model_set *before) {
    uint32_t action = model->action_count++;
    model->cmds[action] = cmd;
    model->before[action] = *before;
    model->done[action] = *before;
    add_one(&model->done[action], action);
    return action;
}

/* The action's touch of a byte: does it conflict with an earlier one? */
static void touch(struct model *model, uint32_t action, const struct model_buffer *buffer,
                  uint64_t byte, bool writes) {
    struct model_touch *touches = model->touches[buffer->memory][byte];
    uint32_t *count = &model->touch_counts[buffer->memory][byte];
    for (uint32_t i = 0; i < *count; i++)
        if (touches[i].action != action && !touches[i].settled && (writes || touches[i].writes) &&
            !has(&model->before[action], touches[i].action))
            model->conflicts[model->cmds[action]] = true;
    touches[(*count)++] = (struct model_touch){action, buffer->id, writes, false};
}

bool model_is_pair(const struct model *model, uint64_t a, uint64_t b) {
    for (uint32_t memory = 0; memory < MODEL_MEMORIES; memory++)
        for (uint32_t byte = 0; byte < MODEL_BYTES; byte++) {
            const struct model_touch *touches = model->touches[memory][byte];
            uint32_t count = model->touch_counts[memory][byte];
            for (uint32_t i = 0; i < count; i++)
                for (uint32_t k = 0; k < count; k++)
                    if (model->cmds[touches[i].action] == a &&
                        model->cmds[touches[k].action] == b &&
                        (touches[i].writes || touches[k].writes) &&
                        !has(&model->before[touches[k].action], touches[i].action) &&
                        !has(&model->before[touches[i].action], touches[k].action))
                        return true;
        }
    return false;
}

static struct model_buffer *any_buffer(struct model *model) {
    uint64_t start = below(model, MODEL_BUFFERS);
    for (uint64_t i = 0; i < MODEL_BUFFERS; i++) {
        struct model_buffer *buffer = &model->buffers[(start + i) % MODEL_BUFFERS];
        if (buffer->live)
            return buffer;
    }
    return NULL;
}

/* Up to two accesses, of different buffers, as the command will tell them. */
static uint32_t draw_accesses(struct model *model, struct orr_observed_access *out) {
    uint32_t count = 0;
    for (int i = 0; i < 2; i++) {
        const struct model_buffer *buffer = any_buffer(model);
        if (!buffer || below(model, 4) == 0 || (count > 0 && out[0].buffer == buffer->id))
            continue;
        uint64_t offset = below(model, 2) ? 0 : below(model, buffer->bytes);
        uint64_t bytes =
            below(model, 2) ? buffer->bytes - offset : 1 + below(model, buffer->bytes - offset);
        out[count++] = (struct orr_observed_access){buffer->id, offset, bytes,
                                                    (enum orr_access_mode)(1 + below(model, 3))};
    }
    return count;
}

static void touch_all(struct model *model, uint32_t action,
                      const struct orr_observed_access *accesses, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct model_buffer *buffer = &model->buffers[accesses[i].buffer - 1];
        for (uint64_t k = 0; k < accesses[i].bytes; k++)
            touch(model, action, buffer, buffer->base + accesses[i].offset + k,
                  accesses[i].mode & ORR_ACCESS_WRITE);
    }
}

/* --- calls --- */

static struct orr_point any_point(struct model *model) {
    struct orr_point none = {0};
    return model->action_count > 0 ? model->points[below(model, model->action_count)] : none;
}

static const struct model_set *done_at(const struct model *model, const struct orr_point *point) {
    static const struct model_set nothing;
    for (uint32_t i = 0; i < model->action_count; i++)
        if (point->seq > 0 && model->points[i].stream == point->stream &&
            model->points[i].seq == point->seq)
            return &model->done[i];
    return &nothing;
}

static struct orr_observed_command command_for(struct model *model, uint32_t host,
                                               uint32_t stream) {
    uint64_t id = ++model->cmd_count;
    return (struct orr_observed_command){.id = id,
                                         .seq = stream == ORR_ID_NONE ? 0 : ++model->seqs[stream],
                                         .kind = ORR_COMMAND_KERNEL,
                                         .host = host,
                                         .stream = stream,
                                         .site = (uint32_t)id,
                                         .communicator = ORR_ID_NONE,
                                         .rank = ORR_ID_NONE};
}

static void stream_command(struct model *model, uint32_t host) {
    struct orr_observed_access accesses[2];
    uint32_t stream = (uint32_t)below(model, MODEL_STREAMS);
    struct orr_observed_command command = command_for(model, host, stream);
    struct orr_point waits[2];
    command.wait_count = (uint32_t)below(model, 3);
    for (uint32_t i = 0; i < command.wait_count; i++)
        waits[i] = any_point(model);
    command.access_count = draw_accesses(model, accesses);
    command.accesses = accesses;
    command.waits = waits;
    struct model_set *known = &model->streams[stream];
    add(known, &model->hosts[host]);
    for (uint32_t i = 0; i < command.wait_count; i++)
        add(known, done_at(model, &waits[i]));
    uint32_t action = new_action(model, command.id, known);
    add_one(known, action);
    model->points[action] = (struct orr_point){.stream = stream, .seq = command.seq};
    touch_all(model, action, accesses, command.access_count);
    model->observer->command(model->observer, &command);
}

/* Two members, on streams of their own. */
static void collective(struct model *model, uint32_t host) {
    uint32_t first = (uint32_t)below(model, MODEL_STREAMS);
    uint32_t streams[2] = {first, (first + 1) % MODEL_STREAMS}, actions[2];
    struct orr_observed_access accesses[2][2];
    struct orr_observed_command commands[2];
    bool barrier = below(model, 2), joint = barrier || model->joint;
    struct model_set both = {0};
    for (int i = 0; i < 2; i++) {
        commands[i] = command_for(model, host, streams[i]);
        commands[i].kind = ORR_COMMAND_COLLECTIVE;
        commands[i].collective_kind = barrier ? ORR_COLLECTIVE_BARRIER : ORR_COLLECTIVE_ALL_REDUCE;
        commands[i].members = 2;
        commands[i].communicator = 0;
        commands[i].rank = (uint32_t)i;
        commands[i].collective = model->collective_count;
        commands[i].access_count = draw_accesses(model, accesses[i]);
        commands[i].accesses = accesses[i];
        add(&model->streams[streams[i]], &model->hosts[host]);
        add(&both, &model->streams[streams[i]]);
    }
    model->collective_count++;
    for (int i = 0; i < 2; i++) {
        if (joint)
            add(&model->streams[streams[i]], &both);
        actions[i] = new_action(model, commands[i].id, &model->streams[streams[i]]);
        add_one(&model->streams[streams[i]], actions[i]);
        model->points[actions[i]] =
            (struct orr_point){.stream = streams[i], .seq = commands[i].seq};
        touch_all(model, actions[i], accesses[i], commands[i].access_count);
    }
    for (int i = 0; joint && i < 2; i++) { /* what follows one follows both */
        add_one(&model->streams[streams[i]], actions[!i]);
        add_one(&model->done[actions[i]], actions[!i]);
    }
    for (int i = 0; i < 2; i++)
        model->observer->command(model->observer, &commands[i]);
}

static void host_access(struct model *model, uint32_t host) {
    struct orr_observed_access accesses[2];
    struct orr_observed_command command = command_for(model, host, ORR_ID_NONE);
    command.kind = ORR_COMMAND_HOSTWRITE;
    command.access_count = draw_accesses(model, accesses);
    command.accesses = accesses;
    uint32_t action = new_action(model, command.id, &model->hosts[host]);
    add_one(&model->hosts[host], action);
    touch_all(model, action, accesses, command.access_count);
    model->observer->command(model->observer, &command);
}

static bool overlaps_live(const struct model *model, uint32_t memory, uint64_t base,
                          uint64_t bytes) {
    for (uint32_t i = 0; i < MODEL_BUFFERS; i++) {
        const struct model_buffer *it = &model->buffers[i];
        if (it->live && it->memory == memory && it->base < base + bytes &&
            base < it->base + it->bytes)
            return true;
    }
    return false;
}

/* These actions come before all that happens to the buffer's bytes. */
static void settle(struct model *model, const struct model_buffer *buffer,
                   const struct model_set *done) {
    for (uint64_t byte = buffer->base; byte < buffer->base + buffer->bytes; byte++)
        for (uint32_t i = 0; i < model->touch_counts[buffer->memory][byte]; i++) {
            struct model_touch *touch = &model->touches[buffer->memory][byte][i];
            touch->settled |= has(done, touch->action);
        }
}

static void alloc(struct model *model, uint32_t host) {
    uint32_t memory = (uint32_t)below(model, MODEL_MEMORIES);
    uint64_t base = below(model, MODEL_BYTES), bytes = 1 + below(model, MODEL_BYTES - base);
    if (model->buffer_count == MODEL_BUFFERS || overlaps_live(model, memory, base, bytes))
        return;
    uint64_t id = ++model->buffer_count;
    struct orr_point after = any_point(model);
    struct orr_observed_buffer told = {.id = id,
                                       .base = base,
                                       .bytes = bytes,
                                       .cmd = ++model->cmd_count,
                                       .memory = memory,
                                       .stream = memory, /* each memory is one stream's pool */
                                       .host = host,
                                       .after = &after,
                                       .after_count = below(model, 4) == 0};
    model->buffers[id - 1] = (struct model_buffer){
        .id = id, .base = base, .bytes = bytes, .memory = memory, .stream = memory, .live = true};
    if (told.after_count && model->reuse_orders_hosts)
        add(&model->hosts[host], done_at(model, &after));
    else if (told.after_count)
        settle(model, &model->buffers[id - 1], done_at(model, &after));
    for (uint64_t i = base; i < base + bytes; i++) {
        if (model->reuse_orders_hosts)
            add(&model->hosts[host], &model->freed[memory][i]);
        else
            settle(model, &model->buffers[id - 1], &model->freed[memory][i]);
        memset(&model->freed[memory][i], 0, sizeof model->freed[memory][i]);
    }
    model->observer->buffer(model->observer, &told);
}

static void record_stream(struct model *model) {
    struct model_buffer *buffer = any_buffer(model);
    uint32_t stream = (uint32_t)below(model, MODEL_STREAMS);
    if (!buffer)
        return;
    buffer->recorded[stream] = true;
    model->observer->record_stream(model->observer, buffer->id, stream);
}

static bool is_ordered(const struct model *model, const struct model_buffer *buffer, uint32_t host,
                       uint32_t action) {
    bool ordered = has(&model->streams[buffer->stream], action) || has(&model->hosts[host], action);
    for (uint32_t i = 0; i < MODEL_STREAMS; i++)
        ordered |= buffer->recorded[i] && has(&model->streams[i], action);
    return ordered;
}

static void free_buffer(struct model *model, uint32_t host) {
    struct model_buffer *buffer = any_buffer(model);
    if (!buffer)
        return;
    uint64_t cmd = ++model->cmd_count;
    for (uint64_t byte = buffer->base; byte < buffer->base + buffer->bytes; byte++) {
        for (uint32_t i = 0; i < model->touch_counts[buffer->memory][byte]; i++) {
            const struct model_touch *it = &model->touches[buffer->memory][byte][i];
            if (it->buffer == buffer->id && !is_ordered(model, buffer, host, it->action))
                model->frees[cmd] = true;
        }
        model->freed[buffer->memory][byte] = model->hosts[host];
    }
    buffer->live = false;
    model->observer->free(model->observer, buffer->id, cmd, host, (uint32_t)cmd);
}

static void message(struct model *model, uint32_t host) {
    uint64_t id = below(model, MODEL_MESSAGES);
    if (model->pending[id]) {
        add(&model->hosts[host], &model->messages[id]);
        model->pending[id] = false;
        model->observer->taken(model->observer, host, id + 1);
    } else {
        model->messages[id] = model->hosts[host];
        model->pending[id] = true;
        model->observer->posted(model->observer, host, id + 1);
    }
}

bool model_step(struct model *model) {
    uint32_t host = (uint32_t)below(model, model->host_count);
    if (model->action_count + 2 > MODEL_ACTIONS)
        return false;
    switch (below(model, 16)) {
    case 0: collective(model, host); break;
    case 1: host_access(model, host); break;
    case 2:
    case 3: alloc(model, host); break;
    case 4: free_buffer(model, host); break;
    case 5: record_stream(model); break;
    case 6: message(model, host); break;
    case 7: {
        struct orr_point point = any_point(model);
        add(&model->hosts[host], done_at(model, &point));
        model->observer->observed(model->observer, host, &point, 1);
        break;
    }
    default: stream_command(model, host); break;
    }
    return true;
}
