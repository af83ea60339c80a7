#include "sim/perturb.h"

#include <stdio.h>

#include "runtime/splitmix.h"

typedef unsigned __int128 wide;

/* --- drawing --- */

static uint64_t seed_of(const struct orr__sim *sim) {
    const struct orr_perturb_rule *rule = orr_perturb_find(sim->perturb, ORR_PERTURB_SEED);
    return rule ? rule->number : sim->seed;
}

/* Evenly from 0 to ORR_PPM - 1, by a place: (kind, which, position). */
static uint64_t draw(const struct orr__sim *sim, enum orr_perturb_kind kind, uint32_t which,
                     uint64_t position) {
    uint64_t state = orr_splitmix_at(seed_of(sim) + (uint64_t)kind, which);
    return (uint64_t)(((wide)orr_splitmix_at(state, position) * ORR_PPM) >> 64);
}

static uint64_t scaled(uint64_t work, uint64_t ppm) {
    wide product = ((wide)work * ppm + ORR_PPM / 2) / ORR_PPM;
    return product > ORR__WORK_MAX ? ORR__WORK_MAX : (uint64_t)product;
}

/* 1 - x to 1 + x of the work. */
static uint64_t jitter(const struct orr__sim *sim, uint64_t work, uint32_t stream, uint64_t seq) {
    const struct orr_perturb_rule *rule = orr_perturb_find(sim->perturb, ORR_PERTURB_JITTER);
    if (!rule) {
        return work;
    }
    uint64_t spread = 2 * rule->ppm * draw(sim, ORR_PERTURB_JITTER, stream, seq) / ORR_PPM;
    return scaled(work, ORR_PPM - rule->ppm + spread);
}

/* --- which rule is meant --- */

static bool is_on(const struct orr_perturb_rule *rule, uint32_t device) {
    return rule->device == ORR_PERTURB_ANY || rule->device == device;
}

static bool is_counted(enum orr_command_kind kind) {
    return kind <= ORR_COMMAND_HOSTFN; /* no record, wait, marker */
}

/* True the nth time that the rule is concerned, or each time if it doesn't count. */
static bool comes_up(struct orr_perturb_rule *rule) {
    return ++rule->count == rule->nth || rule->nth == 0;
}

static bool delays(const struct orr__sim *sim, const struct orr_perturb_rule *rule,
                   const struct orr__stream *stream, const struct orr_command *command) {
    const struct orr_perturb *perturb = sim->perturb;
    return rule->kind == ORR_PERTURB_DELAY && is_on(rule, stream->device) &&
           (rule->name_id == 0 || rule->name_id == command->record.name) &&
           (rule->stream_id == 0 ||
            rule->stream_id == perturb->stream_name(perturb->context, stream->id));
}

bool orr__perturb_enqueued(struct orr__sim *sim, const struct orr__stream *stream,
                           const struct orr_command *command, struct orr__work *work) {
    bool fails = false;
    if (!is_counted((enum orr_command_kind)command->record.header.a)) {
        return false;
    }
    if (work) {
        work->work = jitter(sim, work->work, stream->id, stream->submitted);
    }
    for (uint32_t i = 0; i < sim->perturb->count; i++) {
        struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (work && delays(sim, rule, stream, command) && comes_up(rule)) {
            wide sum = (wide)work->work + ((wide)(uint64_t)rule->ns << ORR__WORK_BITS);
            work->work = sum > ORR__WORK_MAX ? ORR__WORK_MAX : (uint64_t)sum;
        }
        if (rule->kind == ORR_PERTURB_DEVICE_ERROR && rule->nth > 0 &&
            is_on(rule, stream->device)) {
            fails |= comes_up(rule);
        }
    }
    return fails;
}

/* --- links --- */

static bool is_link(const struct orr_perturb_rule *rule, uint32_t a, uint32_t b) {
    uint32_t peer = rule->peer == ORR_PERTURB_HOST ? ORR_ID_NONE : rule->peer;
    bool any = rule->peer == ORR_PERTURB_ANY;
    return (rule->device == a && (any || peer == b)) || (rule->device == b && (any || peer == a));
}

/* Does the head, a copy, go over the rule's link? */
static bool copies_over(const struct orr__sim *sim, struct orr__stream *stream,
                        const struct orr_perturb_rule *rule) {
    const struct orr__sim_command *head = orr__stream_head(stream);
    const struct orr_command *command = head->command;
    for (uint32_t i = 0; (head->bits & ORR__SLOT_ENGINE) && i < command->access_count; i++) {
        uint32_t other = sim->memories[command->accesses[i].memory].device;
        if (other != stream->device && is_link(rule, stream->device, other)) {
            return true;
        }
    }
    return false;
}

static const struct orr_collective *member(const struct orr__sim *sim,
                                           const struct orr__group *group, uint32_t index) {
    return orr__stream_head(sim->streams[group->streams[index]])->command->collective;
}

static uint32_t member_device(const struct orr__sim *sim, const struct orr__group *group,
                              uint32_t index) {
    return sim->streams[group->streams[index]]->device;
}

/* The device of a rank that takes part. */
static uint32_t rank_device(const struct orr__sim *sim, const struct orr__group *group,
                            uint32_t rank) {
    for (uint32_t i = 0; i < group->count; i++) {
        if (member(sim, group, i)->rank == rank) {
            return member_device(sim, group, i);
        }
    }
    return ORR_ID_NONE;
}

static bool sends_over(const struct orr__sim *sim, const struct orr__group *group,
                       const struct orr_perturb_rule *rule) {
    const struct orr_collective *sends = member(sim, group, 0);
    for (uint32_t i = 0; i < sends->transfer_count; i++) {
        const struct orr_transfer *transfer = &sends->transfers[i];
        if (transfer->source != transfer->target &&
            is_link(rule, rank_device(sim, group, transfer->source),
                    rank_device(sim, group, transfer->target))) {
            return true;
        }
    }
    return false;
}

/* A collective uses all links between its members. */
static bool reduces_over(const struct orr__sim *sim, const struct orr__group *group,
                         const struct orr_perturb_rule *rule) {
    const struct orr_collective *collective = member(sim, group, 0);
    if (collective && collective->kind == ORR_COLLECTIVE_SEND_RECEIVE) {
        return sends_over(sim, group, rule);
    }
    bool has_device = false, has_peer = false;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t device = member_device(sim, group, i);
        has_device |= device == rule->device;
        has_peer |=
            device != rule->device && (rule->peer == ORR_PERTURB_ANY || device == rule->peer);
    }
    return has_device && has_peer;
}

/* --- slower --- */

uint64_t orr__perturb_work(const struct orr__sim *sim, struct orr__stream *stream, uint64_t work,
                           int64_t start_ns) {
    const struct orr__sim_command *head = orr__stream_head(stream);
    bool moves = (head->bits & ORR__SLOT_ENGINE) != 0;
    for (uint32_t i = 0; work > 0 && i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        bool straggles = rule->kind == ORR_PERTURB_STRAGGLER && !moves &&
                         head->kind != ORR_COMMAND_HOSTFN && rule->device == stream->device &&
                         (rule->name_id == 0 || rule->name_id == head->command->record.name);
        bool slow = rule->kind == ORR_PERTURB_SLOW_LINK && copies_over(sim, stream, rule);
        if ((straggles || slow) && start_ns >= rule->at_ns) {
            work = scaled(work, rule->ppm);
        }
    }
    return work;
}

uint64_t orr__perturb_group_work(const struct orr__sim *sim, const struct orr__group *group,
                                 int64_t start_ns) {
    uint64_t most = group->work.work;
    for (uint32_t i = 0; i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (rule->kind != ORR_PERTURB_SLOW_LINK || start_ns < rule->at_ns ||
            !reduces_over(sim, group, rule)) {
            continue;
        }
        uint64_t work = scaled(group->work.work, rule->ppm); /* its slowest link counts */
        most = work > most ? work : most;
    }
    return most;
}

/* --- what does not end, or not well --- */

static bool loses_device(struct orr__sim *sim, const struct orr_perturb_rule *rule, uint32_t device,
                         int64_t now_ns) {
    if (rule->kind != ORR_PERTURB_LOSE_DEVICE || rule->device != device || now_ns <= rule->at_ns) {
        return false;
    }
    char what[ORR_FAULT_TEXT_MAX];
    snprintf(what, sizeof what, "device %u was lost at %lld ns", (unsigned)device,
             (long long)rule->at_ns);
    orr_perturb_note(sim->perturb, rule, what);
    return true;
}

bool orr__perturb_lost(struct orr__sim *sim, const struct orr__stream *stream, int64_t now_ns) {
    for (uint32_t i = 0; i < sim->perturb->count; i++) {
        if (loses_device(sim, &sim->perturb->rules[i], stream->device, now_ns)) {
            return true;
        }
    }
    return false;
}

static enum orr__fate link_fate(struct orr__sim *sim, const struct orr_perturb_rule *rule,
                                struct orr_error *error) {
    char what[ORR_FAULT_TEXT_MAX];
    bool loses = rule->kind == ORR_PERTURB_LOSE_LINK;
    snprintf(what, sizeof what, "a link of device %u %s at %lld ns", (unsigned)rule->device,
             loses ? "was lost" : "failed", (long long)rule->at_ns);
    orr_perturb_note(sim->perturb, rule, what);
    if (loses) {
        return ORR__FATE_LOST;
    }
    char text[ORR_PERTURB_TEXT_MAX];
    (void)orr_error_set(error, ORR_DEVICE_FAILED, "%s (perturb %s)", what,
                        orr_perturb_rule_text(rule, text, sizeof text));
    return ORR__FATE_FAILS;
}

static enum orr__fate device_fate(struct orr__sim *sim, const struct orr_perturb_rule *rule,
                                  uint32_t device, struct orr_error *error) {
    char what[ORR_FAULT_TEXT_MAX], text[ORR_PERTURB_TEXT_MAX];
    snprintf(what, sizeof what, "device %u failed it", (unsigned)device);
    orr_perturb_note(sim->perturb, rule, what);
    (void)orr_error_set(error, ORR_DEVICE_FAILED, "%s (perturb %s)", what,
                        orr_perturb_rule_text(rule, text, sizeof text));
    return ORR__FATE_FAILS;
}

/* Of a command that was counted when it was enqueued, or ends too late. */
static bool fails_on(const struct orr_perturb_rule *rule, struct orr__stream *stream,
                     int64_t finish_ns) {
    if (rule->kind != ORR_PERTURB_DEVICE_ERROR || !is_on(rule, stream->device)) {
        return false;
    }
    const struct orr__sim_command *head = orr__stream_head(stream);
    return rule->nth > 0 ? (head->bits & ORR__SLOT_FAILS) != 0
                         : is_counted(head->kind) && finish_ns > rule->at_ns;
}

static bool breaks_link(const struct orr_perturb_rule *rule, int64_t finish_ns) {
    return (rule->kind == ORR_PERTURB_FAIL_LINK || rule->kind == ORR_PERTURB_LOSE_LINK) &&
           finish_ns > rule->at_ns;
}

enum orr__fate orr__perturb_fate(struct orr__sim *sim, struct orr__stream *stream,
                                 int64_t finish_ns, struct orr_error *error) {
    if (orr__perturb_lost(sim, stream, finish_ns)) {
        return ORR__FATE_LOST;
    }
    for (uint32_t i = 0; !stream->skipped && i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (breaks_link(rule, finish_ns) && copies_over(sim, stream, rule)) {
            return link_fate(sim, rule, error);
        }
        if (fails_on(rule, stream, finish_ns)) {
            return device_fate(sim, rule, stream->device, error);
        }
    }
    return ORR__FATE_ENDS;
}

enum orr__fate orr__perturb_group_fate(struct orr__sim *sim, const struct orr__group *group,
                                       int64_t finish_ns, struct orr_error *error) {
    for (uint32_t i = 0; i < group->count; i++) {
        if (orr__perturb_lost(sim, sim->streams[group->streams[i]], finish_ns)) {
            return ORR__FATE_LOST;
        }
    }
    for (uint32_t i = 0; !group->skipped && i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (breaks_link(rule, finish_ns) && reduces_over(sim, group, rule)) {
            return link_fate(sim, rule, error);
        }
        for (uint32_t k = 0; k < group->count; k++) {
            struct orr__stream *stream = sim->streams[group->streams[k]];
            if (fails_on(rule, stream, finish_ns)) {
                return device_fate(sim, rule, stream->device, error);
            }
        }
    }
    return ORR__FATE_ENDS;
}

/* --- hosts --- */

/* Dispatch hosts are nobody's rank. */
static bool is_rank(const struct orr__sim *sim, const struct orr_perturb_rule *rule,
                    uint32_t host) {
    uint32_t rank = host == 0 ? ORR_PERTURB_ANY : host - sim->first_rank;
    return (host == 0 || host >= sim->first_rank) && rule->rank == rank;
}

/* No clock passes 2^61 ns, which no trace could tell. */
static int64_t add_ns(const struct orr__sim *sim, uint32_t host, int64_t sum_ns, int64_t ns) {
    int64_t left_ns = (INT64_C(1) << 61) - sim->hosts[host].now_ns - sum_ns;
    return sum_ns + (ns < left_ns ? ns : left_ns > 0 ? left_ns : 0);
}

int64_t orr__perturb_call(struct orr__sim *sim, uint32_t host, int64_t ns) {
    uint64_t call = ++sim->hosts[host].calls;
    int64_t sum_ns = ns;
    for (uint32_t i = 0; i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (rule->kind == ORR_PERTURB_HOST_JITTER) {
            uint64_t ppm = rule->ppm * draw(sim, rule->kind, host, call) / ORR_PPM;
            sum_ns = add_ns(sim, host, sum_ns, (int64_t)((wide)(uint64_t)ns * ppm / ORR_PPM));
        }
        if (rule->kind == ORR_PERTURB_STALL_HOST && is_rank(sim, rule, host) &&
            (rule->nth == 0 || rule->nth == call)) {
            sum_ns = add_ns(sim, host, sum_ns, rule->ns);
        }
    }
    return sum_ns;
}

int64_t orr__perturb_late(const struct orr__sim *sim, uint32_t host) {
    int64_t late_ns = 0;
    for (uint32_t i = 0; i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (rule->kind == ORR_PERTURB_LATE_RANK && is_rank(sim, rule, host)) {
            late_ns += rule->ns;
        }
    }
    return late_ns;
}

bool orr__perturb_host_lost(struct orr__sim *sim, uint32_t host) {
    for (uint32_t i = 0; !sim->perturb->finishing && i < sim->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &sim->perturb->rules[i];
        if (rule->kind != ORR_PERTURB_LOSE_RANK || !is_rank(sim, rule, host) ||
            sim->hosts[host].now_ns < rule->at_ns) {
            continue;
        }
        char who[32] = "the program", what[ORR_FAULT_TEXT_MAX];
        if (host > 0) {
            snprintf(who, sizeof who, "rank %u", (unsigned)(host - sim->first_rank));
        }
        snprintf(what, sizeof what, "%s was lost at %lld ns", who, (long long)rule->at_ns);
        orr_perturb_note(sim->perturb, rule, what);
        return true;
    }
    return false;
}

/* --- the verb --- */

enum orr_status orr__sim_perturb(struct orr_backend *backend, struct orr_perturb *perturb,
                                 struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    (void)error;
    sim->perturb = perturb;
    int64_t late_ns = orr__perturb_late(sim, 0);
    sim->hosts[0].now_ns += late_ns - sim->late_ns;
    sim->late_ns = late_ns;
    return ORR_OK;
}
