#include "hazards/redundant.h"

#include <assert.h>

#include "hazards/order_internal.h"

enum { STEPS_DEFAULT = 50000000 };

bool orr_redundant_is_candidate(const struct orr_stream_program *program, uint32_t op) {
    switch ((enum orr_stream_op_kind)program->ops[op].kind) {
    case ORR_OP_RECORD:
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK:
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_STREAM_QUERY_OK:
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_NOTIFY:
    case ORR_OP_AWAIT:
    case ORR_OP_RECORD_STREAM: return true;
    default: return false;
    }
}

const char *orr_redundant_why_text(enum orr_redundant_why why) {
    static const char *const texts[] = {"nothing-new", "not-needed"};
    assert((unsigned)why < 2);
    return texts[why];
}

void orr_redundant_clear(struct orr_redundant *redundant, const struct orr_memory *memory) {
    orr_memory_free(memory, redundant->items);
    *redundant = (struct orr_redundant){0};
}

static bool found_one(void *context, const struct orr_order_finding *finding) {
    (void)finding;
    *(bool *)context = true;
    return false;
}

/* Whether the program is well-formed and without findings, some operations left out. */
static enum orr_status is_safe(const struct orr_stream_program *program, const bool *skip,
                               bool *effective, bool *out_is_safe) {
    bool is_found = false;
    struct orr__order_request request = {
        .found = found_one, .context = &is_found, .effective = effective, .skip = skip};
    struct orr_order_malformed malformed;
    enum orr_status status = orr__order_check(program, &request, &malformed);
    *out_is_safe = status == ORR_OK && !is_found && malformed.op == ORR_NONE;
    return status;
}

static enum orr_status add(const struct orr_stream_program *program, uint32_t op,
                           enum orr_redundant_why why, bool together,
                           struct orr_redundant *redundant) {
    enum orr_status status =
        orr_memory_grow(program->memory, &redundant->items, &redundant->capacity,
                        (size_t)redundant->count + 1, sizeof *redundant->items, UINT32_MAX);
    if (status == ORR_OK)
        redundant->items[redundant->count++] =
            (struct orr_redundant_item){.op = op, .why = why, .together = together};
    return status;
}

/* What the search keeps per operation. */
struct search {
    const struct orr_stream_program *program;
    bool *effective;
    bool *alone;    /* the one that is tried */
    bool *together; /* what can go at once, so far */
    uint64_t steps_left;
};

/* An operation that has an effect: whether a check misses it. */
static enum orr_status try_without(struct search *search, uint32_t op,
                                   struct orr_redundant *redundant) {
    bool alone = false, together = false;
    uint64_t steps = 2 * (uint64_t)search->program->op_count;
    if (search->steps_left < steps) {
        redundant->untried++;
        return ORR_OK;
    }
    search->steps_left -= steps;
    search->alone[op] = true;
    enum orr_status status = is_safe(search->program, search->alone, NULL, &alone);
    search->alone[op] = false;
    if (status != ORR_OK || !alone)
        return status;
    search->together[op] = true;
    status = is_safe(search->program, search->together, NULL, &together);
    search->together[op] = together;
    return status == ORR_OK
               ? add(search->program, op, ORR_REDUNDANT_NOT_NEEDED, together, redundant)
               : status;
}

static enum orr_status search_all(struct search *search, struct orr_redundant *redundant) {
    const struct orr_stream_program *program = search->program;
    for (uint32_t i = 0; i < program->op_count; i++)
        search->together[i] = orr_redundant_is_candidate(program, i) && !search->effective[i];
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < program->op_count; i++) {
        if (!orr_redundant_is_candidate(program, i))
            continue;
        if (!search->effective[i])
            status = add(program, i, ORR_REDUNDANT_NOTHING_NEW, true, redundant);
        else
            status = try_without(search, i, redundant);
    }
    return status;
}

static enum orr_status find(struct search *search, uint64_t steps_max,
                            struct orr_redundant *redundant) {
    enum orr_status status = is_safe(search->program, NULL, search->effective, &redundant->is_safe);
    if (status != ORR_OK || !redundant->is_safe)
        return status;
    search->steps_left = steps_max > 0 ? steps_max : STEPS_DEFAULT;
    return search_all(search, redundant);
}

enum orr_status orr_redundant_find(const struct orr_stream_program *program, uint64_t steps_max,
                                   struct orr_redundant *out_redundant) {
    const struct orr_memory *memory = program->memory;
    uint32_t count = program->op_count;
    struct search search = {.program = program,
                            .effective = orr_memory_alloc(memory, count * sizeof(bool)),
                            .alone = orr_memory_alloc(memory, count * sizeof(bool)),
                            .together = orr_memory_alloc(memory, count * sizeof(bool))};
    *out_redundant = (struct orr_redundant){0};
    enum orr_status status = ORR_NO_MEMORY;
    if (search.effective && search.alone && search.together)
        status = find(&search, steps_max, out_redundant);
    orr_memory_free(memory, search.effective);
    orr_memory_free(memory, search.alone);
    orr_memory_free(memory, search.together);
    if (status != ORR_OK)
        orr_redundant_clear(out_redundant, memory);
    return status;
}
