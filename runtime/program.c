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
    for (uint32_t i = 0; i < program->node_count; i++) {
        struct orr__pending *template = program->nodes[i].template;
        if (template->release)
            template->release(template->work);
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
    orr__program_caches_destroy(runtime); /* not the programs in them */
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

/* --- the hash --- */

/* One round of a multiply and shift hash, not cryptographic. The constant: 2^64 / golden ratio. */
static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return mix(hash, 256); /* no byte: ends the text */
}

static uint64_t mix_collective(uint64_t hash, const struct orr_collective *collective) {
    hash = mix(hash, (uint64_t)collective->kind);
    hash = mix(hash, (uint64_t)collective->dtype);
    hash = mix(hash, collective->communicator);
    hash = mix(hash, collective->rank);
    hash = mix(hash, collective->ranks);
    hash = mix(hash, collective->root);
    hash = mix(hash, (uint64_t)collective->reduction);
    uint64_t length =
        collective->counts ? orr_collective_counts_length(collective->kind, collective->ranks) : 0;
    for (uint64_t i = 0; i < length; i++)
        hash = mix(hash, collective->counts[i]);
    for (uint32_t i = 0; i < collective->transfer_count; i++) {
        hash = mix(hash, collective->transfers[i].source);
        hash = mix(hash, collective->transfers[i].target);
        hash = mix(hash, collective->transfers[i].count);
    }
    return mix(hash, collective->count);
}

static uint64_t mix_command(uint64_t hash, const struct orr__pending *template,
                            const struct orr_names *names) {
    const struct orr_command *command = &template->command;
    const struct orr_record_command *record = &command->record;
    hash = mix(hash, record->header.a);
    hash = mix(hash, record->header.b);
    hash = mix(hash, record->header.d);
    hash = mix_text(hash, orr_names_text(names, record->name));
    hash = mix_text(hash, orr_names_text(names, record->event));
    hash = mix(hash, record->flops);
    hash = mix(hash, record->bytes_read);
    hash = mix(hash, record->bytes_written);
    hash = mix(hash, (uint64_t)command->service_ns);
    hash = mix(hash, command->access_count);
    for (uint32_t i = 0; i < command->access_count; i++) {
        hash = mix(hash, command->accesses[i].memory);
        hash = mix(hash, command->accesses[i].mode);
        hash = mix(hash, command->accesses[i].offset);
        hash = mix(hash, command->accesses[i].bytes);
    }
    if (record->header.a == ORR_COMMAND_FILL)
        hash = mix(hash, template->value);
    return command->collective ? mix_collective(hash, command->collective) : hash;
}

uint64_t orr_program_hash(const struct orr_program *program) {
    uint64_t hash = mix(0, program->node_count);
    for (uint32_t i = 0; i < program->node_count; i++) {
        const struct orr__program_node *node = &program->nodes[i];
        hash = mix(hash, program->streams[i]->id);
        hash = mix(hash, program->streams[i]->device);
        hash = mix(hash, node->group_first);
        hash = mix_command(hash, node->template, program->runtime->names);
        hash = mix(hash, node->wait_count);
        for (uint32_t k = 0; k < node->wait_count; k++)
            hash = mix(hash, program->waits[node->waits_begin + k]);
    }
    return hash;
}
