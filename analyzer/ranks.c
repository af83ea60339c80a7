/* Which traces are which ranks, and the order of the work. See ranks.h. */
#include "analyzer/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"

enum { MISSING_MAX = 1 << 20 }; /* size of a job that is believed */

const char *orr_ranks_how_text(enum orr_ranks_how how) {
    static const char *const texts[] = {
#define HOW_TEXT(name, text) text,
        ORR_RANKS_HOW_LIST(HOW_TEXT)
#undef HOW_TEXT
    };
    return how < ORR_RANKS_HOW_COUNT ? texts[how] : "";
}

static const struct orr_timeline_source *source_of(const struct orr__ranks_work *w, size_t part) {
    return &w->inputs[w->ranks->parts[part].input].timeline->source;
}

static char *next_note(struct orr_ranks *ranks) {
    for (unsigned i = 0; i + 1 < ORR_RANKS_NOTES_MAX; i++) {
        if (ranks->notes[i][0] == '\0') {
            return ranks->notes[i];
        }
    }
    return ranks->notes[ORR_RANKS_NOTES_MAX - 1];
}

/* ------------------------------------------------------------------------------------------------
 * Parts */

static bool says_rank(const struct orr_timeline_source *source) {
    return source->rank < ORR_ID_NONE;
}

static bool rank_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_ranks_input *inputs = context;
    return inputs[a].timeline->source.rank < inputs[b].timeline->source.rank;
}

/* By the numbers that the traces say if all say one, else as they were given. */
static enum orr_status order_parts(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    uint32_t *order = orr_memory_resize(w->memory, NULL, ranks->part_count * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    w->numbered = true;
    for (size_t i = 0; i < ranks->part_count; i++) {
        order[i] = (uint32_t)i;
        w->numbered = w->numbered && says_rank(&w->inputs[i].timeline->source);
    }
    enum orr_status status =
        w->numbered ? orr__sort_indices(w->memory, order, ranks->part_count, rank_before, w->inputs)
                    : ORR_OK;
    for (size_t i = 0; i < ranks->part_count; i++) {
        ranks->parts[i].input = order[i];
        ranks->parts[i].name = w->inputs[order[i]].name;
    }
    orr_memory_free(w->memory, order);
    return status;
}

/* A rank that is there twice is no set of ranks: several steps of one, perhaps. */
static void check_numbers(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    if (!w->numbered) {
        if (ranks->part_count > 1) {
            snprintf(next_note(ranks), ORR_RANKS_TEXT_MAX,
                     "not all traces say which rank they are: they are numbered in the order in "
                     "which they were given");
        }
        return;
    }
    for (size_t i = 1; i < ranks->part_count && ranks->refused[0] == '\0'; i++) {
        if (source_of(w, i - 1)->rank == source_of(w, i)->rank) {
            snprintf(ranks->refused, sizeof ranks->refused,
                     "rank %llu is there twice, as %.80s and %.80s: give one trace per rank",
                     (unsigned long long)source_of(w, i)->rank, ranks->parts[i - 1].name,
                     ranks->parts[i].name);
            w->numbered = false;
        }
    }
}

/* Times of traces with other zeros become comparable, where all say what their zero is. */
static void set_bases(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    bool all = true, none = true;
    for (size_t i = 0; i < ranks->part_count; i++) {
        all = all && source_of(w, i)->has_time_base;
        none = none && !source_of(w, i)->has_time_base;
    }
    for (size_t i = 0; i < ranks->part_count && all; i++) {
        /* Within bounds, so that it has a negative. */
        int64_t first = orr__ranks_add(source_of(w, 0)->time_base_ns, 0);
        ranks->parts[i].base_ns = orr__ranks_add(source_of(w, i)->time_base_ns, -first);
    }
    if (!all && !none) {
        snprintf(next_note(ranks), ORR_RANKS_TEXT_MAX,
                 "some traces say when their time 0 was and others do not: offsets contain the "
                 "difference");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Ranks of a part: (device, process) of its communication */

struct place {
    uint32_t device;
    uint64_t process;
};

static enum orr_status add_place(struct orr__ranks_work *w, size_t first, uint32_t part,
                                 struct place place, size_t *capacity) {
    struct orr_ranks *ranks = w->ranks;
    size_t low = first, high = ranks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct orr_rank *r = &ranks->items[middle];
        bool before =
            r->device != place.device ? r->device < place.device : r->process < place.process;
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < ranks->count && ranks->items[low].device == place.device &&
        ranks->items[low].process == place.process) {
        return ORR_OK;
    }
    enum orr_status status = orr_memory_grow(w->memory, &ranks->items, capacity, ranks->count + 1,
                                             sizeof *ranks->items, ORR_EVENTS_NONE - 1);
    if (status != ORR_OK) {
        return status;
    }
    memmove(&ranks->items[low + 1], &ranks->items[low],
            (ranks->count - low) * sizeof *ranks->items);
    ranks->items[low] =
        (struct orr_rank){.part = part, .device = place.device, .process = place.process};
    ranks->count++;
    return ORR_OK;
}

static enum orr_status add_ranks(struct orr__ranks_work *w, uint32_t part, size_t *capacity) {
    const struct orr_events *events = w->inputs[w->ranks->parts[part].input].events;
    size_t first = w->ranks->count;
    bool *seen = orr_memory_alloc(w->memory, events->stream_count + 1);
    enum orr_status status = seen ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->activity == ORR_ACTIVITY_COMM && !seen[op->stream]) {
            const struct orr_events_stream *stream = &events->streams[op->stream];
            struct place place = {events->devices[stream->device].id, stream->process};
            seen[op->stream] = true;
            status = add_place(w, first, part, place, capacity);
        }
    }
    orr_memory_free(w->memory, seen);
    if (status == ORR_OK && w->ranks->count == first) {
        status = add_place(w, first, part, (struct place){ORR_ID_NONE, 0}, capacity);
    }
    return status;
}

/* A single trace's ranks are its devices, if each has one process. */
static bool by_device(const struct orr_ranks *ranks) {
    bool unique = ranks->part_count == 1;
    for (size_t i = 0; i < ranks->count && unique; i++) {
        unique = ranks->items[i].device != ORR_ID_NONE &&
                 (i == 0 || ranks->items[i - 1].device != ranks->items[i].device);
    }
    return unique;
}

uint32_t orr_ranks_of_device(const struct orr_timeline *timeline, uint32_t device) {
    char key[32];
    if (!orr_timeline_meta(timeline, "ranks")) {
        return device;
    }
    snprintf(key, sizeof key, "rank of device %u", device);
    const char *text = orr_timeline_meta(timeline, key);
    unsigned long long rank = text ? strtoull(text, NULL, 10) : ORR_ID_NONE;
    return rank < ORR_ID_NONE ? (uint32_t)rank : device;
}

static void number_ranks(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    bool devices = by_device(ranks) && !w->numbered;
    if (ranks->count > ranks->part_count) {
        devices = by_device(ranks);
        w->numbered = false;
    }
    for (size_t i = 0; i < ranks->count; i++) {
        struct orr_rank *r = &ranks->items[i];
        r->rank = w->numbered ? (uint32_t)source_of(w, r->part)->rank
                  : devices   ? orr_ranks_of_device(w->inputs[0].timeline, r->device)
                              : (uint32_t)i;
    }
    for (size_t i = ranks->count; i > 0; i--) {
        ranks->parts[ranks->items[i - 1].part].rank = ranks->items[i - 1].rank;
    }
}

/* Marks the ranks that have a trace. A timeline of several says which ones it has. */
static void mark_present(const struct orr__ranks_work *w, bool *present) {
    const struct orr_ranks *ranks = w->ranks;
    for (size_t i = 0; i < ranks->count && w->numbered; i++) {
        present[ranks->items[i].rank] = true;
    }
    const char *text = w->numbered ? NULL : orr_timeline_meta(w->inputs[0].timeline, "ranks");
    while (text && *text != '\0') {
        char *end;
        unsigned long long rank = strtoull(text, &end, 10);
        if (rank < ranks->world_size) {
            present[rank] = true;
        }
        text = end == text ? NULL : *end == ',' ? end + 1 : NULL;
    }
}

static enum orr_status find_missing(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    for (size_t i = 0; i < ranks->part_count; i++) {
        uint64_t size = source_of(w, i)->world_size;
        if (size != ORR_SOURCE_NONE && size > ranks->world_size) {
            ranks->world_size = size;
        }
    }
    bool joined =
        ranks->part_count == 1 && orr_timeline_meta(w->inputs[0].timeline, "ranks") != NULL;
    bool beyond = w->numbered && ranks->items[ranks->count - 1].rank >= ranks->world_size;
    if ((!w->numbered && !joined) || beyond || ranks->world_size > MISSING_MAX) {
        return ORR_OK;
    }
    bool *present = orr_memory_alloc(w->memory, (size_t)ranks->world_size + 1);
    ranks->missing =
        orr_memory_resize(w->memory, NULL, (size_t)ranks->world_size * sizeof *ranks->missing + 1);
    if (present && ranks->missing) {
        mark_present(w, present);
        for (uint32_t r = 0; r < ranks->world_size; r++) {
            if (!present[r]) {
                ranks->missing[ranks->missing_count++] = r;
            }
        }
    }
    enum orr_status status = present && ranks->missing ? ORR_OK : ORR_NO_MEMORY;
    orr_memory_free(w->memory, present);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

static enum orr_status find_ranks(struct orr__ranks_work *w, size_t count) {
    struct orr_ranks *ranks = w->ranks;
    size_t capacity = 0;
    ranks->parts = orr_memory_alloc(w->memory, count * sizeof *ranks->parts);
    if (!ranks->parts) {
        return ORR_NO_MEMORY;
    }
    ranks->part_count = count;
    enum orr_status status = order_parts(w);
    if (status != ORR_OK) {
        return status;
    }
    check_numbers(w);
    set_bases(w);
    for (uint32_t p = 0; p < count && status == ORR_OK; p++) {
        status = add_ranks(w, p, &capacity);
    }
    if (status == ORR_OK) {
        number_ranks(w);
        status = find_missing(w);
    }
    return status;
}

enum orr_status orr_ranks_compute(const struct orr_ranks_input *inputs, size_t count,
                                  const struct orr_memory *memory, struct orr_ranks *out_ranks,
                                  struct orr_error *error) {
    *out_ranks = (struct orr_ranks){0};
    struct orr__ranks_work work = {.inputs = inputs, .memory = memory, .ranks = out_ranks};
    enum orr_status status = find_ranks(&work, count);
    if (status == ORR_OK && (count > 1 || out_ranks->count > 1)) {
        status = orr__ranks_collect(&work);
    }
    if (status == ORR_OK && out_ranks->refused[0] == '\0') {
        status = orr__ranks_match(&work);
    }
    if (status == ORR_OK) {
        status = orr__ranks_align(&work);
    }
    if (status == ORR_OK) {
        orr__ranks_wait(&work);
    }
    orr__ranks_work_free(&work);
    if (status != ORR_OK) {
        orr_ranks_free(memory, out_ranks);
        return orr_error_set(error, status, "ranks: %zu traces do not fit in memory", count);
    }
    return ORR_OK;
}

void orr_ranks_free(const struct orr_memory *memory, struct orr_ranks *ranks) {
    orr_memory_free(memory, ranks->parts);
    orr_memory_free(memory, ranks->items);
    orr_memory_free(memory, ranks->collectives);
    orr_memory_free(memory, ranks->members);
    orr_memory_free(memory, ranks->refusals);
    orr_memory_free(memory, ranks->missing);
    *ranks = (struct orr_ranks){0};
}

int64_t orr_ranks_shift(const struct orr_ranks *ranks, const struct orr_ranks_part *part) {
    return ranks->aligned ? orr__ranks_add(part->offset_ns, -part->base_ns) : -part->base_ns;
}

const struct orr_rank *orr_ranks_straggler(const struct orr_ranks *ranks) {
    const struct orr_rank *worst = NULL;
    for (size_t i = 0; i < ranks->count; i++) {
        const struct orr_rank *r = &ranks->items[i];
        if (r->wait_caused_ns > 0 && (!worst || r->wait_caused_ns > worst->wait_caused_ns)) {
            worst = r;
        }
    }
    return ranks->missing_count == 0 && ranks->aligned ? worst : NULL;
}
