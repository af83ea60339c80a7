/* Recorded programs: their life, and what readers see of them. */
#include "runtime/program.h"

#include <assert.h>

#include "runtime/collective.h"
#include "runtime/program_internal.h"

/* --- creation --- */

static void link_program(struct orr_program *program) {
    struct orr_runtime *runtime = program->runtime;
    program->next = runtime->programs;
    if (program->next)
        program->next->previous = program;
    runtime->programs = program;
}

static void unlink_program(struct orr_program *program) {
    if (program->previous)
        program->previous->next = program->next;
    else
        program->runtime->programs = program->next;
    if (program->next)
        program->next->previous = program->previous;
}

static enum orr_status check_begin(struct orr_runtime *runtime) {
    if (runtime->capture) {
        const struct orr_program *open = (const struct orr_program *)(const void *)runtime->capture;
        const char *site = orr_names_text(runtime->names, open->site);
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "%s%sa program is being recorded already (since %s); one region "
                                 "at a time",
                                 runtime->site_text, *runtime->site_text ? ": " : "",
                                 *site ? site : "an unknown place");
    }
    if (runtime->program_count >= ORR__PROGRAMS_MAX)
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "a runtime records at most %d programs",
                                 ORR__PROGRAMS_MAX);
    return ORR_OK;
}

enum orr_status orr_program_begin(struct orr_runtime *runtime, struct orr_program **out_program) {
    *out_program = NULL;
    enum orr_status status = check_begin(runtime);
    if (status != ORR_OK)
        return status;
    uint32_t id_graph, id_join;
    status = orr__runtime_name(runtime, "graph launch", &id_graph);
    if (status == ORR_OK)
        status = orr__runtime_name(runtime, "graph join", &id_join);
    if (status != ORR_OK)
        return status;
    struct orr_program *program = orr_memory_alloc(runtime->memory, sizeof *program);
    if (!program)
        return orr__runtime_no_memory(runtime);
    program->runtime = runtime;
    program->id = (uint32_t)++runtime->program_count;
    program->site = runtime->site;
    program->id_graph = id_graph;
    program->id_join = id_join;
    program->recording = true;
    orr__program_capture_init(program);
    link_program(program);
    runtime->capture = &program->capture;
    *out_program = program;
    return ORR_OK;
}

enum orr_status orr_program_end(struct orr_program *program) {
    struct orr_runtime *runtime = program->runtime;
    if (!program->recording)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "the end of a program that is not being recorded");
    if (program->capture.host != runtime->host)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "host %u can't end the program that host %u records (code 908: "
                                 "attempt to end a capture from another thread)",
                                 (unsigned)runtime->host, (unsigned)program->capture.host);
    assert(runtime->capture == &program->capture);
    program->recording = false;
    runtime->capture = NULL;
    return ORR_OK;
}

/* --- the end --- */

/* `closing`: the runtime is going, and frees all buffers itself. */
static void free_program(struct orr_program *program, bool closing) {
    const struct orr_memory *memory = program->runtime->memory;
    assert(closing || (program->destroyed && program->in_flight == 0));
    if (!closing && program->runtime->verbs->graph_forget)
        program->runtime->verbs->graph_forget(program->runtime->backend, program->id);
    for (uint32_t i = 0; i < program->node_count; i++) {
        struct orr__pending *template = program->nodes[i].template;
        if (template->release)
            template->release(template->command.work);
        for (uint32_t k = 0; !closing && k < template->command.access_count; k++)
            orr__buffer_let_go(orr__pending_buffer(template, k));
        orr__pending_drop(template);
    }
    unlink_program(program);
    orr_memory_free(memory, program->nodes);
    orr_memory_free(memory, program->streams);
    orr_memory_free(memory, program->points);
    orr_memory_free(memory, program->waits);
    orr_memory_free(memory, program->outside);
    orr_memory_free(memory, program->lanes);
    orr_memory_free(memory, program->lane_of);
    orr_memory_free(memory, program->communicators);
    orr_memory_free(memory, program->scratch);
    orr_memory_free(memory, program->after);
    orr_memory_free(memory, program);
}

void orr_program_destroy(struct orr_program **handle) {
    struct orr_program *program = *handle;
    if (!program)
        return;
    assert(!program->destroyed);
    if (program->recording)
        program->runtime->capture = NULL;
    program->recording = false;
    program->destroyed = true;
    if (program->in_flight == 0)
        free_program(program, false);
    *handle = NULL;
}

void orr__program_retired(struct orr_program *program) {
    assert(program->in_flight > 0);
    if (--program->in_flight == 0 && program->destroyed)
        free_program(program, false);
}

void orr__programs_destroy(struct orr_runtime *runtime) {
    runtime->capture = NULL;
    while (runtime->programs)
        free_program(runtime->programs, true);
}

/* --- what readers see --- */

bool orr_runtime_is_capturing(const struct orr_runtime *runtime) {
    return orr__runtime_captures(runtime);
}

uint32_t orr_program_command_count(const struct orr_program *program) {
    return program->node_count;
}

uint64_t orr_program_launch_count(const struct orr_program *program) {
    return program->launch_count;
}

struct orr_program_command orr_program_at(const struct orr_program *program, uint32_t index) {
    assert(index < program->node_count);
    const struct orr__program_node *node = &program->nodes[index];
    struct orr__pending *template = node->template;
    const struct orr_record_command *record = &template->command.record;
    return (struct orr_program_command){
        .name = orr_names_text(program->runtime->names, record->name),
        .kind = (enum orr_command_kind)record->header.a,
        .stream = program->streams[index],
        .flops = record->flops,
        .bytes_read = record->bytes_read,
        .bytes_written = record->bytes_written,
        .access_count = template->command.access_count,
        .accesses = template->command.accesses,
        .buffers = template->command.access_count > 0 ? orr__pending_buffers(template) : NULL,
        .wait_count = node->wait_count,
        .waits = node->wait_count > 0 ? program->waits + node->waits_begin : NULL};
}
