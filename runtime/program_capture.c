/* Recording: commands on their way to a stream go into a program instead.
 *
 * Points handed out here name a command of the program (ORR__POINT_RECORDED); when one comes back
 * in a wait list it becomes an edge between nodes. Other points are older than the region. */
#include <assert.h>
#include <string.h>

#include "runtime/program_internal.h"

/* --- points of recorded commands --- */

enum { INDEX_BITS = 32 };

static bool is_recorded(struct orr_point point) {
    return (point.seq & ORR__POINT_RECORDED) != 0;
}

static uint32_t program_of(struct orr_point point) {
    return (uint32_t)((point.seq & ~ORR__POINT_RECORDED) >> INDEX_BITS);
}

static uint32_t index_of(struct orr_point point) {
    assert(is_recorded(point) && (point.seq & UINT32_MAX) > 0);
    return (uint32_t)(point.seq & UINT32_MAX) - 1;
}

static struct orr_point point_of(const struct orr_program *program, uint32_t index) {
    assert(index < program->node_count);
    return (struct orr_point){.stream = program->streams[index]->id,
                              .seq = ORR__POINT_RECORDED | (uint64_t)program->id << INDEX_BITS |
                                     (index + 1)};
}

static struct orr_program *find_program(const struct orr_runtime *runtime, uint32_t id) {
    struct orr_program *program = runtime->programs;
    while (program && program->id != id)
        program = program->next;
    return program;
}

struct orr_point orr__capture_last(const struct orr_stream *stream) {
    const struct orr_program *program =
        (const struct orr_program *)(const void *)stream->runtime->capture;
    uint32_t lane = stream->id < program->lane_of_capacity ? program->lane_of[stream->id] : 0;
    return lane > 0 ? point_of(program, program->lanes[lane - 1].last) : stream->last;
}

static const char *separator(const struct orr_runtime *runtime) {
    return *runtime->site_text ? ": " : "";
}

static enum orr_status misuse(struct orr_runtime *runtime, struct orr_point point) {
    const struct orr_program *program = find_program(runtime, program_of(point));
    const char *site = program ? orr_names_text(runtime->names, program->site) : "";
    return orr__runtime_fail(
        runtime, ORR_INVALID,
        "%s%soperation not permitted on an event last recorded in a capturing stream (code 907): "
        "command %u of %s%s; outside of it, wait for the stream that launches it, or record the "
        "event again",
        runtime->site_text, separator(runtime), (unsigned)index_of(point),
        *site ? "the program recorded at " : "a recorded program", site);
}

enum orr_status orr__points_check(struct orr_runtime *runtime, const struct orr_point *points,
                                  uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (is_recorded(points[i]))
            return misuse(runtime, points[i]);
    return ORR_OK;
}

enum orr_status orr__capture_check_host(struct orr_runtime *runtime) {
    if (!orr__runtime_captures(runtime))
        return ORR_OK;
    const struct orr_program *program = (const struct orr_program *)(const void *)runtime->capture;
    const char *site = orr_names_text(runtime->names, program->site);
    return orr__runtime_fail(
        runtime, ORR_UNSUPPORTED,
        "%s%soperation not permitted when stream is capturing (code 900): the host can't wait, ask "
        "or read inside a program that is being recorded%s%s: end and launch it first",
        runtime->site_text, separator(runtime), *site ? " since " : "", site);
}

/* --- room: everything that can fail comes before the first change --- */

static bool grow(struct orr_program *program, void *items, size_t *capacity, size_t needed,
                 size_t item_size, size_t max) {
    return orr_memory_grow(program->runtime->memory, items, capacity, needed, item_size, max) ==
           ORR_OK;
}

static bool reserve_nodes(struct orr_program *program, size_t needed) {
    return grow(program, &program->nodes, &program->node_capacity, needed, sizeof *program->nodes,
                ORR__PROGRAM_COMMANDS_MAX) &&
           grow(program, &program->streams, &program->stream_capacity, needed,
                sizeof(struct orr_stream *), ORR__PROGRAM_COMMANDS_MAX) &&
           grow(program, &program->points, &program->point_capacity, needed,
                sizeof *program->points, ORR__PROGRAM_COMMANDS_MAX);
}

/* The capacities count items, and a stream's new entry must be 0 already: new items are zeroed. */
static bool reserve_lanes(struct orr_program *program, uint32_t count) {
    return grow(program, &program->lane_of, &program->lane_of_capacity,
                program->runtime->stream_count, sizeof *program->lane_of, ORR__STREAMS_MAX) &&
           grow(program, &program->lanes, &program->lane_capacity, program->lane_count + count,
                sizeof *program->lanes, ORR__STREAMS_MAX);
}

static bool reserve_waits(struct orr_program *program, uint32_t wait_count, uint32_t count) {
    size_t scratch =
        wait_count > program->lane_count + count ? wait_count : program->lane_count + count;
    return grow(program, &program->waits, &program->wait_capacity, program->wait_count + wait_count,
                sizeof *program->waits, ORR__PROGRAM_WAITS_MAX) &&
           grow(program, &program->outside, &program->outside_capacity,
                program->outside_count + wait_count, sizeof *program->outside,
                ORR__PROGRAM_WAITS_MAX) &&
           grow(program, &program->scratch, &program->scratch_capacity, scratch + 1,
                sizeof *program->scratch, ORR__PROGRAM_WAITS_MAX);
}

static enum orr_status reserve(struct orr_program *program, uint32_t count, uint32_t wait_count) {
    bool complete = reserve_nodes(program, (size_t)program->node_count + count) &&
                    reserve_lanes(program, count) && reserve_waits(program, wait_count, count) &&
                    grow(program, &program->communicators, &program->communicator_capacity,
                         program->communicator_count + 1, sizeof *program->communicators,
                         ORR__PROGRAM_COMMANDS_MAX);
    return complete ? ORR_OK : orr__runtime_no_memory(program->runtime);
}

/* --- one more node --- */

static void add_waits(struct orr_program *program, struct orr__program_node *node,
                      const struct orr_point *waits, uint32_t count) {
    node->waits_begin = program->wait_count;
    node->outside_begin = program->outside_count;
    assert(program->wait_count + count <= program->wait_capacity);
    assert(program->outside_count + count <= program->outside_capacity);
    for (uint32_t i = 0; i < count; i++) {
        if (is_recorded(waits[i]))
            program->waits[program->wait_count++] = index_of(waits[i]); /* of an earlier node */
        else if (waits[i].seq > 0)
            program->outside[program->outside_count++] = waits[i];
    }
    node->wait_count = (uint32_t)(program->wait_count - node->waits_begin);
    node->outside_count = (uint32_t)(program->outside_count - node->outside_begin);
}

/* True if it is the first node of its stream. */
static bool enter_lane(struct orr_program *program, struct orr_stream *stream, uint32_t index) {
    assert(stream->id < program->lane_of_capacity);
    uint32_t *lane = &program->lane_of[stream->id];
    bool first = *lane == 0;
    assert(!first || program->lane_count < program->lane_capacity);
    if (first) {
        program->lanes[program->lane_count++] =
            (struct orr__program_lane){.stream = stream, .first = index};
        *lane = (uint32_t)program->lane_count;
    }
    program->lanes[*lane - 1].last = index;
    return first;
}

static void add_communicator(struct orr_program *program, uint32_t id) {
    struct orr__program_communicator *list = program->communicators;
    size_t at = program->communicator_count;
    while (at > 0 && list[at - 1].id > id)
        at--;
    if (at > 0 && list[at - 1].id == id)
        return;
    memmove(&list[at + 1], &list[at], (program->communicator_count - at) * sizeof *list);
    list[at] = (struct orr__program_communicator){.id = id};
    program->communicator_count++;
}

static void add_node(struct orr_program *program, struct orr_stream *stream,
                     struct orr__pending *pending, const struct orr__program_node *like) {
    uint32_t index = program->node_count++;
    assert(index < program->node_capacity && index < program->point_capacity);
    assert(program->recording && pending->command.record.id == 0);
    struct orr__program_node *node = &program->nodes[index];
    *node = *like;
    node->program = program;
    node->template = pending;
    node->forks = enter_lane(program, stream, index);
    program->streams[index] = stream;
    program->points[index] = (struct orr_point){.stream = stream->id};
    for (uint32_t i = 0; i < pending->command.access_count; i++)
        orr__buffer_hold(orr__pending_buffer(pending, i));
}

/* A point of another program, or of an earlier region, can't become an edge. */
static enum orr_status check_waits(const struct orr_program *program, const struct orr_point *waits,
                                   uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (is_recorded(waits[i]) && program_of(waits[i]) != program->id)
            return misuse(program->runtime, waits[i]);
    return ORR_OK;
}

bool orr__capture_uses(const struct orr_stream *stream) {
    const struct orr_program *program =
        (const struct orr_program *)(const void *)stream->runtime->capture;
    return program && stream->id < program->lane_of_capacity && program->lane_of[stream->id] > 0;
}

/* races.md rule 27. */
static enum orr_status check_legacy(const struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    if (stream->sync != ORR_STREAM_LEGACY)
        return ORR_OK;
    return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                             "%s%soperation not permitted when stream is capturing (code 900): "
                             "commands of the legacy default stream of device %u can't be recorded",
                             runtime->site_text, separator(runtime), (unsigned)stream->device);
}

static enum orr_status record(struct orr_program *program, struct orr_stream *const *streams,
                              struct orr__pending *const *pending, uint32_t count, bool grouped,
                              const struct orr_point *waits, uint32_t wait_count,
                              struct orr_point *out_points) {
    struct orr_runtime *runtime = program->runtime;
    enum orr_status status = check_waits(program, waits, wait_count);
    for (uint32_t i = 0; status == ORR_OK && i < count; i++)
        status = check_legacy(streams[i]);
    if (status == ORR_OK)
        status = reserve(program, count, wait_count);
    if (status != ORR_OK) {
        for (uint32_t i = count; i-- > 0;)
            orr__pending_drop(pending[i]);
        return status;
    }
    struct orr__program_node like = {
        .grouped = grouped, .group_first = program->node_count, .group_count = count};
    add_waits(program, &like, waits, wait_count);
    if (pending[0]->communicator)
        add_communicator(program, pending[0]->communicator->id);
    for (uint32_t i = 0; i < count; i++) {
        add_node(program, streams[i], pending[i], &like);
        out_points[i] = point_of(program, program->node_count - 1);
    }
    if (runtime->operator_depth > 0) /* recorded operators cost nothing, too */
        runtime->operator_charge_ns = 0;
    return ORR_OK;
}

/* --- the hooks --- */

static struct orr_program *program_from(struct orr__capture *capture) {
    return (struct orr_program *)(void *)capture;
}

static enum orr_status take_command(struct orr__capture *capture, struct orr_stream *stream,
                                    struct orr__pending *pending, const struct orr_point *waits,
                                    uint32_t wait_count, struct orr_point *out_point,
                                    bool *out_taken) {
    struct orr_program *program = program_from(capture);
    *out_taken = capture->host == program->runtime->host;
    if (!*out_taken)
        return ORR_OK;
    return record(program, &stream, &pending, 1, false, waits, wait_count, out_point);
}

static enum orr_status take_group(struct orr__capture *capture, struct orr_stream *const *streams,
                                  struct orr__pending *const *pending, uint32_t count,
                                  const struct orr_point *waits, uint32_t wait_count,
                                  struct orr_point *out_points, bool *out_taken) {
    struct orr_program *program = program_from(capture);
    *out_taken = capture->host == program->runtime->host;
    if (!*out_taken)
        return ORR_OK;
    return record(program, streams, pending, count, true, waits, wait_count, out_points);
}

static enum orr_status refuse_wait(struct orr__capture *capture, const struct orr_point *points,
                                   uint32_t count, bool *out_taken) {
    (void)points;
    (void)count;
    enum orr_status status = orr__capture_check_host(program_from(capture)->runtime);
    *out_taken = status != ORR_OK;
    return status;
}

void orr__program_capture_init(struct orr_program *program) {
    assert((void *)program == (void *)&program->capture);
    program->capture = (struct orr__capture){.host = program->runtime->host,
                                             .command = take_command,
                                             .group = take_group,
                                             .host_wait = refuse_wait};
}
