/* Launching: the whole program in one call of the host.
 *
 *     launching stream   ...[graph]--[n0][n1]------[join]...
 *                              |        \             /
 *     other streams            +------->[n2][n3]-----+
 *
 * A call that has to stop in the middle (a full queue while other hosts have to run first, or no
 * memory) goes on where it stopped when it is repeated. */
#include <assert.h>
#include <string.h>

#include "runtime/program_internal.h"

/* --- may it be launched? --- */

static enum orr_status refuse(const struct orr_program *program, enum orr_status status,
                              const char *text) {
    struct orr_runtime *runtime = program->runtime;
    const char *site = orr_names_text(runtime->names, program->site);
    return orr__runtime_fail(runtime, status, "%s%sthe program recorded%s%s %s", runtime->site_text,
                             *runtime->site_text ? ": " : "", *site ? " at " : "", site, text);
}

static enum orr_status check_streams(const struct orr_program *program,
                                     const struct orr_stream *stream) {
    if (stream->destroyed)
        return refuse(program, ORR_INVALID, "is launched on a stream that was destroyed");
    for (size_t i = 0; i < program->lane_count; i++)
        if (program->lanes[i].stream->destroyed)
            return refuse(program, ORR_INVALID, "uses a stream that was destroyed");
    return ORR_OK;
}

static struct orr__program_communicator *find_communicator(struct orr_program *program,
                                                           uint32_t id) {
    size_t low = 0, high = program->communicator_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (program->communicators[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < program->communicator_count && program->communicators[low].id == id;
    return found ? &program->communicators[low] : NULL;
}

/* Collectives are numbered by their communicator, so that it must outlive the launches. */
static enum orr_status check_communicators(struct orr_program *program) {
    size_t found = 0;
    struct orr_communicator *it =
        program->communicator_count ? program->runtime->communicators : NULL;
    for (; it; it = it->next) {
        struct orr__program_communicator *entry = find_communicator(program, it->id);
        if (!entry)
            continue;
        entry->found = it;
        found++;
    }
    return found == program->communicator_count
               ? ORR_OK
               : refuse(program, ORR_INVALID, "uses a communicator that was destroyed");
}

static enum orr_status check_launch(struct orr_program *program, const struct orr_stream *stream) {
    const struct orr_runtime *runtime = program->runtime;
    const struct orr__program_launch *launch = &program->launch;
    if (program->recording)
        return refuse(program, ORR_INVALID, "has not been ended yet");
    if (orr__runtime_captures(runtime))
        return refuse(program, ORR_UNSUPPORTED,
                      "can't be launched while another one is being recorded");
    if (launch->open && (launch->host != runtime->host || launch->stream != stream))
        return refuse(program, ORR_INVALID,
                      "is being launched by another call, which is not complete yet");
    enum orr_status status = check_streams(program, stream);
    return status == ORR_OK ? check_communicators(program) : status;
}

/* --- commands of a launch --- */

static void retired(void *work) {
    orr__program_retired(work);
}

static void node_retired(void *work) {
    orr__program_retired(((struct orr__program_node *)work)->program);
}

/* Its context is the fresh pending object; the one that the kernel knows is the template. */
static enum orr_status run_node(const struct orr_command *command, struct orr_error *error) {
    const struct orr__pending *pending = command->context;
    const struct orr__program_node *node = pending->command.work;
    return node->template->command.run(&node->template->command, error);
}

const struct orr_command *orr__program_template(const struct orr_command *command) {
    if (command->run != run_node)
        return NULL;
    const struct orr__program_node *node = command->work;
    return &node->template->command;
}

/* The launch's own commands: the graph and the join. */
static enum orr_status submit_own(struct orr_program *program, enum orr_command_kind kind,
                                  uint32_t name, int64_t submit_ns, uint32_t flags,
                                  uint32_t wait_count, struct orr_point *out_point) {
    struct orr_runtime *runtime = program->runtime;
    struct orr__pending *pending = orr__pending_take(runtime, kind, name, 0);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    pending->command.submit_ns = submit_ns;
    pending->command.flags = flags;
    pending->command.work = program;
    pending->release = retired;
    runtime->hosts[runtime->host].first_ns = program->launch.begin_ns;
    program->in_flight++;
    enum orr_status status = orr__runtime_submit(program->launch.stream, pending, program->scratch,
                                                 wait_count, out_point);
    if (status != ORR_OK)
        program->in_flight--;
    return status;
}

static struct orr__pending *take_node(struct orr_program *program, uint32_t index) {
    struct orr_runtime *runtime = program->runtime;
    struct orr__program_node *node = &program->nodes[index];
    const struct orr__pending *template = node->template;
    const struct orr_command *recorded = &template->command;
    const struct orr_record *header = &recorded->record.header;
    struct orr__pending *pending = orr__pending_take(runtime, (enum orr_command_kind)header->a,
                                                     recorded->record.name, recorded->access_count);
    if (!pending)
        return NULL;
    assert(pending->capacity >= recorded->access_count && index < program->node_count);
    struct orr_command *command = &pending->command;
    command->record = recorded->record;
    command->record.host = runtime->host;
    command->record.caller = runtime->dispatches ? runtime->host + 1 : 0;
    command->submit_ns = 0;
    command->service_ns = recorded->service_ns;
    command->flags = recorded->flags | ORR_COMMAND_GRAPH_NODE;
    command->run = recorded->run ? run_node : NULL;
    command->collective = recorded->collective;
    command->access_count = recorded->access_count;
    for (uint32_t i = 0; i < recorded->access_count; i++) {
        orr__pending_accesses(pending)[i] = recorded->accesses[i];
        orr__pending_buffers(pending)[i] = orr__pending_buffer(template, i);
    }
    if (template->communicator)
        pending->communicator =
            find_communicator(program, recorded->collective->communicator)->found;
    pending->command.work = node;
    pending->release = node_retired;
    return pending;
}

/* The waits of a node, or of its whole group, in program->scratch; returns their number. */
static uint32_t gather_waits(struct orr_program *program, const struct orr__program_node *node) {
    uint32_t count = 0;
    bool forks = false;
    for (uint32_t i = 0; i < node->group_count; i++) {
        uint32_t index = node->group_first + i;
        forks |= program->nodes[index].forks && program->streams[index] != program->launch.stream;
    }
    if (forks)
        program->scratch[count++] = program->launch.fork;
    for (uint32_t i = 0; i < node->wait_count; i++)
        program->scratch[count++] = program->points[program->waits[node->waits_begin + i]];
    for (uint32_t i = 0; program->launch_count == 0 && i < node->outside_count; i++)
        program->scratch[count++] = program->outside[node->outside_begin + i];
    assert(count <= program->scratch_capacity);
    return count;
}

static enum orr_status submit_alone(struct orr_program *program, uint32_t index) {
    struct orr_runtime *runtime = program->runtime;
    uint32_t wait_count = gather_waits(program, &program->nodes[index]);
    struct orr__pending *pending = take_node(program, index);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    runtime->hosts[runtime->host].first_ns = program->launch.begin_ns;
    program->in_flight++;
    enum orr_status status = orr__runtime_submit(program->streams[index], pending, program->scratch,
                                                 wait_count, &program->points[index]);
    if (status != ORR_OK)
        program->in_flight--;
    return status;
}

static enum orr_status submit_group(struct orr_program *program, uint32_t first) {
    struct orr_runtime *runtime = program->runtime;
    uint32_t count = program->nodes[first].group_count, taken = 0;
    uint32_t wait_count = gather_waits(program, &program->nodes[first]);
    struct orr__pending **pending = runtime->group_pending;
    while (taken < count && (pending[taken] = take_node(program, first + taken)) != NULL)
        taken++;
    if (taken < count) {
        while (taken > 0)
            orr__pending_drop(pending[--taken]);
        return orr__runtime_no_memory(runtime);
    }
    runtime->hosts[runtime->host].first_ns = program->launch.begin_ns;
    program->in_flight += count;
    enum orr_status status =
        orr__runtime_submit_group(runtime, &program->streams[first], pending, count,
                                  program->scratch, wait_count, &program->points[first]);
    if (status != ORR_OK)
        program->in_flight -= count;
    return status;
}

/* --- the launch --- */

enum orr_status orr__program_launch_after(struct orr_program *program, struct orr_point point) {
    if (orr_memory_grow(program->runtime->memory, &program->after, &program->after_capacity,
                        program->after_count + 1, sizeof *program->after,
                        ORR__PROGRAM_WAITS_MAX) != ORR_OK)
        return orr__runtime_no_memory(program->runtime);
    program->after[program->after_count++] = point;
    return ORR_OK;
}

/* Rule 31: after the last launch, which in its own stream comes first anyway. */
static uint32_t gather_launch_waits(struct orr_program *program, const struct orr_stream *stream) {
    uint32_t count = 0;
    if (program->end.seq > 0 && program->end.stream != stream->id)
        program->scratch[count++] = program->end;
    for (size_t i = 0; i < program->after_count; i++)
        program->scratch[count++] = program->after[i];
    program->after_count = 0;
    assert(count <= program->scratch_capacity);
    return count;
}

static enum orr_status begin_launch(struct orr_program *program, struct orr_stream *stream) {
    struct orr_runtime *runtime = program->runtime;
    struct orr__program_launch *launch = &program->launch;
    int64_t begin_ns = runtime->hosts[runtime->host].first_ns;
    if (begin_ns == ORR_TIME_NONE) /* else the call is a repetition */
        begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    *launch =
        (struct orr__program_launch){.host = runtime->host, .stream = stream, .begin_ns = begin_ns};
    if (orr_memory_grow(runtime->memory, &program->scratch, &program->scratch_capacity,
                        program->after_count + 1, sizeof *program->scratch,
                        ORR__PROGRAM_WAITS_MAX) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    uint32_t wait_count = gather_launch_waits(program, stream);
    int64_t ns = runtime->devices[stream->device].spec.host_graph_ns;
    enum orr_status status = submit_own(program, ORR_COMMAND_GRAPH, program->id_graph,
                                        ns > 1 ? ns : 1, 0, wait_count, &launch->fork);
    launch->open = status == ORR_OK;
    if (status != ORR_OK || !runtime->verbs->graph_begin)
        return status;
    status = runtime->verbs->graph_begin(runtime->backend, program->id, launch->fork,
                                         program->node_count, &runtime->scratch);
    return status == ORR_OK ? ORR_OK : orr__runtime_backend_failed(runtime, status);
}

static enum orr_status submit_nodes(struct orr_program *program) {
    struct orr__program_launch *launch = &program->launch;
    while (launch->next < program->node_count) {
        const struct orr__program_node *node = &program->nodes[launch->next];
        enum orr_status status = node->grouped ? submit_group(program, launch->next)
                                               : submit_alone(program, launch->next);
        if (status != ORR_OK)
            return status;
        assert(node->group_first == launch->next && node->group_count > 0);
        launch->next += node->group_count;
    }
    return ORR_OK;
}

/* A machine that takes launches as a whole hears that this one is complete. */
static enum orr_status end_graph(struct orr_program *program) {
    struct orr_runtime *runtime = program->runtime;
    if (!runtime->verbs->graph_end || program->launch.ended)
        return ORR_OK;
    program->launch.ended = true;
    enum orr_status status =
        runtime->verbs->graph_end(runtime->backend, program->id, &runtime->scratch);
    return status == ORR_OK ? ORR_OK : orr__runtime_backend_failed(runtime, status);
}

/* Later commands of the launching stream come after all nodes. */
static enum orr_status end_launch(struct orr_program *program) {
    struct orr__program_launch *launch = &program->launch;
    uint32_t count = 0;
    assert(launch->open && launch->next == program->node_count);
    for (size_t i = 0; i < program->lane_count; i++)
        if (program->lanes[i].stream != launch->stream)
            program->scratch[count++] = program->points[program->lanes[i].last];
    enum orr_status status = end_graph(program);
    if (status != ORR_OK)
        return status;
    if (count > 0)
        status = submit_own(program, ORR_COMMAND_MARKER, program->id_join, 0,
                            ORR_COMMAND_GRAPH_NODE, count, &program->end);
    else
        program->end = launch->stream->last;
    if (status != ORR_OK)
        return status;
    program->launch_count++;
    launch->open = false;
    return ORR_OK;
}

enum orr_status orr__program_launch_begin(struct orr_program *program, struct orr_stream *stream) {
    assert(stream->runtime == program->runtime && !program->destroyed);
    enum orr_status status = check_launch(program, stream);
    if (status == ORR_OK && !program->launch.open)
        status = begin_launch(program, stream);
    return status;
}

enum orr_status orr_program_launch(struct orr_program *program, struct orr_stream *stream) {
    enum orr_status status = orr__program_launch_begin(program, stream);
    if (status == ORR_OK)
        status = submit_nodes(program);
    return status == ORR_OK ? end_launch(program) : status;
}
