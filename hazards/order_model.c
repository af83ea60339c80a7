#include "hazards/order_model.h"

#include <assert.h>

enum { PAIRS_FIRST = 16 };

/* --- life --- */

static uint32_t find_device(const struct orr__order_model *model, uint32_t number) {
    uint32_t low = 0, high = model->device_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (model->devices[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->device_count && model->devices[low].number == number ? low : ORR_NONE;
}

static void sift_down(uint32_t *heap, uint32_t at, uint32_t count) {
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= heap[at])
            return;
        uint32_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
    }
}

static void sort_numbers(uint32_t *numbers, uint32_t count) {
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(numbers, i, count);
    for (uint32_t end = count; end-- > 1;) {
        uint32_t kept = numbers[0];
        numbers[0] = numbers[end];
        numbers[end] = kept;
        sift_down(numbers, 0, end);
    }
}

/* The numbers of devices that have streams, each once, in order. */
static enum orr_status list_devices(struct orr__order_model *model) {
    const struct orr_stream_program *program = model->program;
    uint32_t count = model->stream_count;
    uint32_t *numbers = orr_memory_alloc(program->memory, count * sizeof *numbers);
    model->devices = orr_memory_alloc(program->memory, count * sizeof *model->devices);
    if (!numbers || !model->devices) {
        orr_memory_free(program->memory, numbers);
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = program->streams[i].device;
    sort_numbers(numbers, count);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && numbers[i] == numbers[i - 1])
            continue;
        model->devices[model->device_count++] =
            (struct orr__order_device){.number = numbers[i],
                                       .newest = ORR_NONE,
                                       .legacy = ORR_NONE,
                                       .blocking.view.actor = ORR_NO_ACTOR,
                                       .all.view.actor = ORR_NO_ACTOR};
    }
    orr_memory_free(program->memory, numbers);
    return ORR_OK;
}

static void list_streams(struct orr__order_model *model) {
    for (uint32_t i = 0; i < model->stream_count; i++) {
        enum orr_stream_sync sync = model->program->streams[i].sync;
        uint32_t at = find_device(model, model->program->streams[i].device);
        struct orr__order_device *device = &model->devices[at];
        model->streams[i] = (struct orr__order_stream){.device = at,
                                                       .newer = ORR_NONE,
                                                       .older = device->newest,
                                                       .is_blocking = sync == ORR_STREAM_BL ||
                                                                      sync == ORR_STREAM_PTDS,
                                                       .is_legacy = sync == ORR_STREAM_LEGACY};
        if (device->newest != ORR_NONE)
            model->streams[device->newest].newer = i;
        device->newest = i;
        if (sync == ORR_STREAM_LEGACY)
            device->legacy = i;
    }
}

enum orr_status orr__order_model_init(struct orr__order_model *model,
                                      const struct orr_stream_program *program) {
    const struct orr_memory *memory = program->memory;
    const struct orr__name_table *names = program->names;
    *model = (struct orr__order_model){.program = program,
                                       .stream_count = names[ORR_NAME_STREAM].count,
                                       .host_count = names[ORR_NAME_HOST].count};
    uint32_t actors = model->stream_count + model->host_count;
    uint32_t events = names[ORR_NAME_EVENT].count, flags = names[ORR_NAME_FLAG].count;
    orr__clocks_init(&model->clocks, memory, actors);
    model->views = orr_memory_alloc(memory, actors * sizeof *model->views);
    model->streams = orr_memory_alloc(memory, model->stream_count * sizeof *model->streams);
    model->events = orr_memory_alloc(memory, events * sizeof *model->events);
    model->has_content = orr_memory_alloc(memory, events * sizeof *model->has_content);
    model->flags = orr_memory_alloc(memory, flags * sizeof *model->flags);
    enum orr_status status = list_devices(model);
    if (status != ORR_OK || !model->views || !model->streams || !model->events ||
        !model->has_content || !model->flags) {
        orr__order_model_clear(model);
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < actors; i++)
        model->views[i].actor = i;
    list_streams(model);
    return ORR_OK;
}

void orr__order_model_clear(struct orr__order_model *model) {
    const struct orr_memory *memory = model->program->memory;
    orr_memory_free(memory, model->views);
    orr_memory_free(memory, model->streams);
    orr_memory_free(memory, model->devices);
    orr_memory_free(memory, model->events);
    orr_memory_free(memory, model->has_content);
    orr_memory_free(memory, model->flags);
    orr_memory_free(memory, model->pairs);
    orr__clocks_clear(&model->clocks);
    *model = (struct orr__order_model){.program = model->program};
}

uint32_t orr__order_legacy(const struct orr__order_model *model, uint32_t device) {
    uint32_t at = find_device(model, device);
    return at == ORR_NONE ? ORR_NONE : model->devices[at].legacy;
}

/* --- streams of a device --- */

/* The stream's view has changed: it goes to the front of its device's list. */
static void touch(struct orr__order_model *model, uint32_t stream) {
    struct orr__order_stream *streams = model->streams, *s = &streams[stream];
    struct orr__order_device *device = &model->devices[s->device];
    s->changed = ++model->serial;
    if (device->newest == stream)
        return;
    streams[s->newer].older = s->older;
    if (s->older != ORR_NONE)
        streams[s->older].newer = s->newer;
    s->newer = ORR_NONE;
    s->older = device->newest;
    streams[device->newest].newer = stream;
    device->newest = stream;
}

/* Brings a sum up to date. What blocking streams have not fetched yet is in the legacy stream's
 * own view, which is in every sum that they are in. */
static enum orr_status gather(struct orr__order_model *model, struct orr__order_device *device,
                              struct orr__order_sum *sum) {
    bool every_kind = sum == &device->all;
    for (uint32_t i = device->newest; i != ORR_NONE; i = model->streams[i].older) {
        const struct orr__order_stream *stream = &model->streams[i];
        if (stream->changed <= sum->gathered)
            break;
        if (!every_kind && !stream->is_blocking && !stream->is_legacy)
            continue;
        enum orr_status status = orr__view_join(&model->clocks, &sum->view, &model->views[i], NULL);
        if (status != ORR_OK)
            return status;
    }
    sum->gathered = model->serial;
    return ORR_OK;
}

/* A stream joins a view. */
static enum orr_status join(struct orr__order_model *model, uint32_t stream,
                            const struct orr__view *view) {
    bool changed;
    enum orr_status status = orr__view_join(&model->clocks, &model->views[stream], view, &changed);
    model->effects += changed;
    if (changed)
        touch(model, stream);
    return status;
}

/* What a stream knows before a call does anything with it: a blocking stream fetches what the
 * legacy stream has published. That is nothing new for a sum, so it counts as no change. */
static enum orr_status fetch(struct orr__order_model *model, uint32_t stream) {
    struct orr__order_stream *s = &model->streams[stream];
    struct orr__order_device *device = &model->devices[s->device];
    if (!s->is_blocking || s->fetched == device->publications)
        return ORR_OK;
    s->fetched = device->publications;
    return orr__view_join(&model->clocks, &model->views[stream], &device->published, NULL);
}

/* Step 1 of a stream action, and step 2. */
static enum orr_status enter(struct orr__order_model *model, uint32_t stream, uint32_t host) {
    struct orr__order_stream *s = &model->streams[stream];
    struct orr__order_device *device = &model->devices[s->device];
    enum orr_status status = fetch(model, stream);
    if (status == ORR_OK && s->is_legacy)
        status = gather(model, device, &device->blocking);
    if (status == ORR_OK && s->is_legacy)
        status = join(model, stream, &device->blocking.view);
    if (status == ORR_OK)
        status = join(model, stream, &model->views[orr__order_host(model, host)]);
    return status;
}

enum orr_status orr__order_model_begin(struct orr__order_model *model, uint32_t stream,
                                       uint32_t host, struct orr__stamp *out_stamp) {
    enum orr_status status = enter(model, stream, host);
    if (status != ORR_OK)
        return status;
    *out_stamp = orr__view_tick(&model->views[stream]);
    touch(model, stream);
    return ORR_OK;
}

enum orr_status orr__order_model_end(struct orr__order_model *model, uint32_t stream) {
    struct orr__order_stream *s = &model->streams[stream];
    if (!s->is_legacy)
        return ORR_OK;
    struct orr__order_device *device = &model->devices[s->device];
    model->effects += device->published.time != model->views[stream].time;
    orr__view_drop(&model->clocks, &device->published);
    device->published = orr__view_save(&model->clocks, &model->views[stream]);
    device->publications++;
    return ORR_OK;
}

struct orr__stamp orr__order_model_host_action(struct orr__order_model *model, uint32_t host) {
    return orr__view_tick(&model->views[orr__order_host(model, host)]);
}

enum orr_status orr__order_model_learn(struct orr__order_model *model, uint32_t stream,
                                       const struct orr__view *view) {
    enum orr_status status = fetch(model, stream);
    return status == ORR_OK ? join(model, stream, view) : status;
}

enum orr_status orr__order_model_stream_view(struct orr__order_model *model, uint32_t stream,
                                             const struct orr__view **out_view) {
    *out_view = &model->views[stream];
    return fetch(model, stream);
}

/* --- events and waits --- */

/* The view that stands for everything in a stream: of a legacy stream, the blocking ones too. */
static enum orr_status contents(struct orr__order_model *model, uint32_t stream,
                                const struct orr__view **out_view) {
    struct orr__order_stream *s = &model->streams[stream];
    struct orr__order_device *device = &model->devices[s->device];
    *out_view = s->is_legacy ? &device->blocking.view : &model->views[stream];
    return s->is_legacy ? gather(model, device, &device->blocking) : fetch(model, stream);
}

enum orr_status orr__order_model_record(struct orr__order_model *model, uint32_t event,
                                        uint32_t stream, uint32_t host) {
    const struct orr__view *view;
    enum orr_status status = fetch(model, stream);
    if (status == ORR_OK)
        status = join(model, stream, &model->views[orr__order_host(model, host)]);
    if (status == ORR_OK)
        status = contents(model, stream, &view);
    if (status != ORR_OK)
        return status;
    orr__order_model_event_clear(model, event);
    model->events[event] = orr__view_save(&model->clocks, view);
    model->has_content[event] = true;
    return ORR_OK;
}

void orr__order_model_event_clear(struct orr__order_model *model, uint32_t event) {
    orr__view_drop(&model->clocks, &model->events[event]);
    model->has_content[event] = false;
}

enum orr_status orr__order_model_wait(struct orr__order_model *model, uint32_t stream,
                                      uint32_t event, uint32_t host) {
    if (!model->has_content[event])
        return ORR_OK;
    enum orr_status status = enter(model, stream, host);
    if (status == ORR_OK)
        status = join(model, stream, &model->events[event]);
    return status == ORR_OK ? orr__order_model_end(model, stream) : status;
}

static enum orr_status host_join(struct orr__order_model *model, uint32_t host,
                                 const struct orr__view *view) {
    bool changed;
    enum orr_status status =
        orr__view_join(&model->clocks, &model->views[orr__order_host(model, host)], view, &changed);
    model->effects += changed;
    return status;
}

enum orr_status orr__order_model_sync_event(struct orr__order_model *model, uint32_t host,
                                            uint32_t event) {
    return model->has_content[event] ? host_join(model, host, &model->events[event]) : ORR_OK;
}

enum orr_status orr__order_model_sync_stream(struct orr__order_model *model, uint32_t host,
                                             uint32_t stream) {
    const struct orr__view *view;
    enum orr_status status = contents(model, stream, &view);
    return status == ORR_OK ? host_join(model, host, view) : status;
}

enum orr_status orr__order_model_sync_device(struct orr__order_model *model, uint32_t host,
                                             uint32_t device) {
    uint32_t at = find_device(model, device);
    if (at == ORR_NONE)
        return ORR_OK;
    struct orr__order_device *found = &model->devices[at];
    enum orr_status status = gather(model, found, &found->all);
    return status == ORR_OK ? host_join(model, host, &found->all.view) : status;
}

enum orr_status orr__order_model_notify(struct orr__order_model *model, uint32_t host,
                                        uint32_t flag) {
    (void)orr__order_model_host_action(model, host);
    orr__view_drop(&model->clocks, &model->flags[flag]);
    model->flags[flag] =
        orr__view_save(&model->clocks, &model->views[orr__order_host(model, host)]);
    return ORR_OK;
}

enum orr_status orr__order_model_await(struct orr__order_model *model, uint32_t host,
                                       uint32_t flag) {
    return host_join(model, host, &model->flags[flag]);
}

/* --- communicators --- */

/* splitmix64's last step (Vigna, public domain). */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The pair's place in a table that has a free one. */
static struct orr__order_pair *find_pair(struct orr__order_pair *pairs, size_t slots,
                                         uint64_t key) {
    size_t i = mix(key) & (slots - 1);
    while (pairs[i].key != 0 && pairs[i].key != key)
        i = (i + 1) & (slots - 1);
    return &pairs[i];
}

/* Keys are above 0. */
static uint64_t pair_key(uint32_t comm, uint32_t host) {
    return ((uint64_t)comm + 1) << 32 | host;
}

static enum orr_status grow_pairs(struct orr__order_model *model) {
    if (2 * (model->pair_count + 1) <= model->pair_slots)
        return ORR_OK;
    const struct orr_memory *memory = model->program->memory;
    size_t slots = model->pair_slots > 0 ? 2 * model->pair_slots : PAIRS_FIRST;
    struct orr__order_pair *pairs = orr_memory_alloc(memory, slots * sizeof *pairs);
    if (!pairs)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < model->pair_slots; i++)
        if (model->pairs[i].key != 0)
            *find_pair(pairs, slots, model->pairs[i].key) = model->pairs[i];
    orr_memory_free(memory, model->pairs);
    model->pairs = pairs;
    model->pair_slots = slots;
    return ORR_OK;
}

enum orr_status orr__order_model_comm_enter(struct orr__order_model *model, uint32_t comm,
                                            uint32_t host, uint32_t stream) {
    if (model->pair_slots == 0)
        return ORR_OK;
    struct orr__order_pair *pair = find_pair(model->pairs, model->pair_slots, pair_key(comm, host));
    return pair->key == 0 ? ORR_OK : orr__order_model_learn(model, stream, &pair->view);
}

enum orr_status orr__order_model_comm_leave(struct orr__order_model *model, uint32_t comm,
                                            uint32_t host, uint32_t stream) {
    enum orr_status status = grow_pairs(model);
    if (status != ORR_OK)
        return status;
    struct orr__order_pair *pair = find_pair(model->pairs, model->pair_slots, pair_key(comm, host));
    model->pair_count += pair->key == 0;
    orr__view_drop(&model->clocks, &pair->view);
    *pair = (struct orr__order_pair){.key = pair_key(comm, host),
                                     .view = orr__view_save(&model->clocks, &model->views[stream])};
    return ORR_OK;
}
