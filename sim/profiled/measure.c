/* Commands on the inner machine, each alone. */
#include <assert.h>

#include "runtime/names.h"
#include "sim/profiled/profiled_internal.h"

enum { COLD_RUNS = 3 };

void orr__profiled_retired(void *context, const struct orr_command *command,
                           const struct orr_error *error) {
    struct profiled *profiled = context;
    struct profiled_job *job = command->context;
    job->record = command->record;
    job->retired = true;
    if (error && profiled->cause.status == ORR_OK)
        profiled->cause = *error;
}

/* The inner machine has copies whose context is a job; the host layer knows the originals. */
static enum orr_status run_outer(const struct orr_command *command, struct orr_error *error) {
    const struct profiled_job *job = command->context;
    return job->outer->run(job->outer, error);
}

/* Without a host layer that describes commands, the inner machine has no such callback either. */
void orr__profiled_describe(const struct orr_command *command, struct orr_task *out_task) {
    const struct profiled_job *job = command->context;
    job->describe(job->outer, out_task);
}

static struct orr_command inner_command(const struct profiled *profiled,
                                        const struct orr_command *command,
                                        struct profiled_job *job) {
    *job = (struct profiled_job){.outer = command, .describe = profiled->describe};
    struct orr_command inner = *command;
    inner.record.enqueue_ns = ORR_TIME_NONE;
    inner.record.host = 0;
    inner.flags = 0;
    inner.run = command->run ? run_outer : NULL;
    inner.context = job;
    inner.in_place = NULL;
    return inner;
}

/* "embedding: index 9 is out of range" */
static enum orr_status fail(const struct profiled *profiled, const struct orr_command *command,
                            struct orr_error *error) {
    const char *name =
        profiled->names ? orr_names_text(profiled->names, command->record.name) : "command";
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s: %s", name, profiled->cause.text);
}

static enum orr_status wait_for(struct profiled *profiled, const struct orr_command *command,
                                const struct orr_point *points, uint32_t count,
                                struct orr_error *error) {
    enum orr_status status =
        profiled->on->wait(profiled->inner, 0, points, count, ORR_WAIT_ALL, ORR_TIME_MAX, error);
    bool failed = status == ORR_OK && profiled->cause.status != ORR_OK;
    return failed ? fail(profiled, command, error) : status;
}

static enum orr_status run_once(struct profiled *profiled, const struct orr_command *command,
                                uint32_t stream, int64_t *out_ns, struct orr_error *error) {
    struct profiled_job job;
    struct orr_command inner = inner_command(profiled, command, &job);
    struct orr_point point;
    enum orr_status status =
        profiled->on->submit(profiled->inner, stream, &inner, NULL, 0, &point, error);
    if (status == ORR_OK)
        status = wait_for(profiled, command, &point, 1, error);
    if (status != ORR_OK)
        return status;
    assert(job.retired);
    profiled->counters.runs++;
    *out_ns = job.record.finish_ns - job.record.start_ns;
    return ORR_OK;
}

static bool overlap(const struct orr_access *a, const struct orr_access *b) {
    return a->memory == b->memory && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Running it again changes nothing: it reads nothing that it writes. */
static bool can_be_repeated(const struct orr_command *command) {
    if (command->record.header.a != ORR_COMMAND_KERNEL)
        return false;
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *read = &command->accesses[i];
        for (uint32_t k = 0; (read->mode & ORR_ACCESS_READ) && k < command->access_count; k++)
            if ((command->accesses[k].mode & ORR_ACCESS_WRITE) &&
                overlap(read, &command->accesses[k]))
                return false;
    }
    return command->access_count > 0;
}

/* Copies that cross a link take the time of the simulator's model of it. */
static bool is_modelled(const struct profiled *profiled, const struct orr_command *command) {
    bool crosses = false;
    for (uint32_t i = 1; i < command->access_count; i++)
        crosses |= profiled->memory_devices[command->accesses[i].memory] !=
                   profiled->memory_devices[command->accesses[0].memory];
    return crosses && command->record.header.a == ORR_COMMAND_COPY;
}

static enum orr_status measure(struct profiled *profiled, const struct orr_command *command,
                               uint32_t stream, int64_t *out_ns, struct orr_error *error) {
    struct profiled_duration *known =
        orr__profiled_duration(&profiled->durations, &command->record);
    if (!known)
        return orr_error_set(error, ORR_NO_MEMORY, "profiled: out of host memory");
    bool cold = known->ns == ORR_TIME_MAX;
    int runs = cold && can_be_repeated(command) ? COLD_RUNS : 1;
    for (int i = 0; i < runs; i++) {
        int64_t ns;
        enum orr_status status = run_once(profiled, command, stream, &ns, error);
        if (status != ORR_OK)
            return status;
        ns = ns > 0 ? ns : 1;
        known->ns = ns < known->ns ? ns : known->ns;
    }
    profiled->counters.measured++;
    profiled->counters.kinds = profiled->durations.count;
    *out_ns = known->ns;
    return ORR_OK;
}

enum orr_status orr__profiled_run(struct profiled *profiled, const struct orr_command *command,
                                  uint32_t stream, int64_t *out_ns, struct orr_error *error) {
    *out_ns = command->service_ns;
    if (!command->run)
        return ORR_OK;
    if (!is_modelled(profiled, command))
        return measure(profiled, command, stream, out_ns, error);
    int64_t unused;
    profiled->counters.modelled++;
    return run_once(profiled, command, stream, &unused, error);
}

static bool reserve(struct profiled *profiled, uint32_t count) {
    if (count <= profiled->group_capacity)
        return true;
    const struct orr_memory *memory = profiled->memory;
    orr_memory_free(memory, profiled->commands);
    orr_memory_free(memory, profiled->jobs);
    orr_memory_free(memory, profiled->points);
    profiled->commands = orr_memory_alloc(memory, count * sizeof *profiled->commands);
    profiled->jobs = orr_memory_alloc(memory, count * sizeof *profiled->jobs);
    profiled->points = orr_memory_alloc(memory, count * sizeof *profiled->points);
    bool there = profiled->commands && profiled->jobs && profiled->points;
    profiled->group_capacity = there ? count : 0;
    return there;
}

enum orr_status orr__profiled_run_group(struct profiled *profiled, const uint32_t *streams,
                                        const struct orr_command *commands, uint32_t count,
                                        struct orr_error *error) {
    if (!reserve(profiled, count))
        return orr_error_set(error, ORR_NO_MEMORY, "profiled: out of host memory");
    for (uint32_t i = 0; i < count; i++)
        profiled->commands[i] = inner_command(profiled, &commands[i], &profiled->jobs[i]);
    enum orr_status status = profiled->on->submit_group(
        profiled->inner, streams, profiled->commands, count, NULL, 0, profiled->points, error);
    profiled->counters.modelled++;
    return status == ORR_OK ? wait_for(profiled, &commands[0], profiled->points, count, error)
                            : status;
}
