#include "hazards/hang_state.h"

struct hashing {
    const struct orr__hang_run *run;
    const struct orr__hang_model *model;
    uint32_t *places; /* of entries in streams that are not fixed: how many are before it */
    struct orr__hang_hash hash;
};

static void mix(struct hashing *in, uint64_t value) {
    orr__hang_mix(&in->hash, value);
}

/* With room for everything, what is ready and plain finishes as soon as it is its turn. */
static bool is_nothing(const struct hashing *in, uint32_t entry) {
    const struct orr__hang_run *run = in->run;
    return in->model->has_room && in->model->entries[entry].kind <= ORR__HANG_WAIT &&
           orr__hang_first_unfinished(run, run->words[run->waits + entry]) == ORR_NONE;
}

static void number_places(struct hashing *in) {
    const struct orr__hang_run *run = in->run;
    for (uint32_t s = 0; s < in->model->stream_count; s++) {
        if (in->model->streams[s].is_fixed)
            continue;
        uint32_t place = 0;
        for (uint32_t e = run->words[run->head + s]; e != ORR_NONE; e = run->words[run->next + e]) {
            place += !is_nothing(in, e);
            in->places[e] = place; /* of nothing: that of what it follows */
        }
    }
}

static void mix_list(struct hashing *in, uint32_t list) {
    const struct orr__hang_run *run = in->run;
    uint64_t count = 0;
    for (uint32_t i = 1; list != ORR_NONE && i <= run->lists[list]; i++) {
        uint32_t entry = run->lists[list + i];
        if (run->words[run->status + entry] == ORR__HANG_FINISHED)
            continue;
        uint32_t stream = in->model->entries[entry].stream;
        bool is_fixed = in->model->streams[stream].is_fixed;
        mix(in, (uint64_t)stream << 32 | (is_fixed ? entry : in->places[entry]));
        count++;
    }
    mix(in, count << 1 | (list != ORR_NONE));
}

static void mix_member(struct hashing *in, uint32_t member) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_member *info = &in->model->members[member];
    const struct orr_stream_op *op = &in->model->program->ops[info->op];
    mix(in, (uint64_t)info->counter << 32 | run->words[run->instance + member]);
    if (in->model->may_mismatch)
        mix(in, (uint64_t)op->word << 32 | op->count);
}

static void mix_entry(struct hashing *in, uint32_t entry) {
    const struct orr__hang_run *run = in->run;
    const struct orr__hang_entry *info = &in->model->entries[entry];
    mix(in, (uint64_t)info->member_count << 8 | info->kind);
    for (uint32_t i = 0; i < info->member_count; i++)
        mix_member(in, in->model->entry_members[info->member_first + i]);
    if (info->kind == ORR__HANG_BODY)
        mix(in, info->op);
    mix_list(in, run->words[run->waits + entry]);
}

static void mix_streams(struct hashing *in) {
    const struct orr__hang_run *run = in->run;
    number_places(in);
    for (uint32_t s = 0; s < in->model->stream_count; s++) {
        uint32_t head = run->words[run->head + s];
        if (in->model->streams[s].is_fixed) {
            mix(in, (uint64_t)head << 32 | run->words[run->progress + s]);
            continue;
        }
        mix(in, run->words[run->progress + s]);
        for (uint32_t e = head; e != ORR_NONE; e = run->words[run->next + e])
            if (!is_nothing(in, e))
                mix_entry(in, e);
        mix(in, UINT64_MAX);
    }
}

static bool is_used_later(const struct hashing *in, uint32_t event) {
    const struct orr__hang_model *model = in->model;
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_USE, event)];
    for (; user != ORR_NONE; user = model->users[user].next)
        if (in->run->words[in->run->pc + model->users[user].process] <= model->users[user].last)
            return true;
    return false;
}

/* Numbers that were taken in a group that has not ended; of those in streams, entries tell. */
static void mix_kept(struct hashing *in) {
    const struct orr__hang_run *run = in->run;
    for (uint32_t m = 0; m < in->model->member_count; m++) {
        uint32_t entry = in->model->members[m].entry;
        if (in->model->counters[in->model->members[m].counter].is_shared &&
            run->words[run->instance + m] != ORR_NONE &&
            (entry == ORR_NONE || run->words[run->status + entry] == ORR__HANG_ABSENT))
            mix(in, (uint64_t)m << 32 | run->words[run->instance + m]);
    }
}

struct orr__hang_hash orr__hang_state(const struct orr__hang_run *run, uint32_t *places) {
    const struct orr__hang_model *model = run->model;
    struct hashing in = {.run = run, .model = model, .places = places, .hash = {.a = 1, .b = 2}};
    for (uint32_t h = 0; h < model->host_count; h++)
        mix(&in, run->words[run->pc + h]);
    mix_streams(&in);
    for (uint32_t l = 0; l < model->lock_count; l++)
        mix(&in, run->words[run->lock + l]);
    for (uint32_t e = 0; e < model->event_count; e++)
        if (!model->event_is_fixed[e] && is_used_later(&in, e)) {
            mix(&in, e);
            mix_list(&in, run->words[run->event + e]);
        }
    if (model->shares_counters)
        mix_kept(&in);
    return in.hash;
}
