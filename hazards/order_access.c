#include "hazards/order_check_internal.h"

/* --- findings --- */

enum orr_status orr__order_tell(struct orr__order_check *check, enum orr_check_verdict_kind kind,
                                uint32_t op_a, uint32_t access_a, uint32_t access_b) {
    for (uint32_t i = 0; i < check->reported_count; i++)
        if (check->reported[i].kind == kind && check->reported[i].op_a == op_a)
            return ORR_OK;
    enum orr_status status =
        orr_memory_grow(check->program->memory, &check->reported, &check->reported_capacity,
                        (size_t)check->reported_count + 1, sizeof *check->reported, UINT32_MAX);
    if (status != ORR_OK)
        return status;
    struct orr_order_finding finding = {.kind = kind,
                                        .op_a = op_a,
                                        .op_b = check->index,
                                        .access_a = access_a,
                                        .access_b = access_b};
    check->reported[check->reported_count++] = finding;
    check->is_stopped = !check->found(check->context, &finding);
    return ORR_OK;
}

static struct orr__stamp stamp_of(const struct orr__order_check *check, uint32_t op,
                                  bool is_write) {
    return is_write ? check->stamps[op].write : check->stamps[op].read;
}

/* The first access before the operation at hand that conflicts with `access` and that the view does
 * not know. */
static enum orr_status report_history(struct orr__order_check *check, uint32_t access_b,
                                      const struct orr__view *view) {
    const struct orr_stream_program *program = check->program;
    const struct orr_stream_access *b = &program->accesses[access_b];
    uint32_t block = orr__order_block(&check->names, b->buffer, check->index);
    for (uint32_t op = 0; op < check->index; op++) {
        for (uint32_t i = 0; i < program->ops[op].access_count; i++) {
            uint32_t access_a = program->ops[op].access_first + i;
            const struct orr_stream_access *a = &program->accesses[access_a];
            if (a->lo < b->hi && b->lo < a->hi && (a->is_write || b->is_write) &&
                !orr__order_is_void(program, a) &&
                orr__order_block(&check->names, a->buffer, op) == block &&
                !orr__view_knows(&check->model.clocks, view, stamp_of(check, op, a->is_write)))
                return orr__order_tell(
                    check, a->buffer == b->buffer ? ORR_CHECK_RACE : ORR_CHECK_USE_AFTER_FREE, op,
                    access_a, access_b);
        }
    }
    return ORR_OK; /* only after earlier findings, whose accesses replaced others all the same */
}

/* The first use of a name that the view, of who ends its life, does not know. What was accessed
 * by this name while it meant another block does not count. */
enum orr_status orr__order_tell_use(struct orr__order_check *check, uint32_t name,
                                    const struct orr__view *view) {
    const struct orr_stream_program *program = check->program;
    uint32_t block = check->names.names[name].block;
    for (uint32_t op = 0; op < check->index; op++) {
        for (uint32_t i = 0; i < program->ops[op].access_count; i++) {
            uint32_t access_a = program->ops[op].access_first + i;
            const struct orr_stream_access *a = &program->accesses[access_a];
            if (a->buffer == name && !orr__order_is_void(program, a) &&
                orr__order_block(&check->names, name, op) == block &&
                !orr__view_knows(&check->model.clocks, view, stamp_of(check, op, a->is_write)))
                return orr__order_tell(check, ORR_CHECK_USE_AFTER_FREE, op, access_a, ORR_NONE);
        }
    }
    return ORR_OK;
}

bool orr__order_is_before_alloc(const struct orr__order_check *check, uint32_t name,
                                const struct orr__view *view) {
    uint32_t intro = check->names.names[name].intro;
    return intro < check->index && check->program->ops[intro].kind == ORR_OP_ALLOC_ASYNC &&
           !orr__view_knows(&check->model.clocks, view, check->stamps[intro].write);
}

static enum orr_status check_access(struct orr__order_check *check, uint32_t index,
                                    const struct orr__view *view) {
    const struct orr_stream_access *access = &check->program->accesses[index];
    const struct orr__order_name *name = &check->names.names[access->buffer];
    if (orr__order_is_void(check->program, access))
        return ORR_OK;
    if (orr__order_is_before_alloc(check, access->buffer, view))
        return orr__order_tell(check, ORR_CHECK_USE_BEFORE_ALLOC, name->intro, ORR_NONE, index);
    if (orr__order_is_ended(&check->names, access->buffer, check->index))
        return orr__order_tell(check, ORR_CHECK_USE_AFTER_FREE, name->end, ORR_NONE, index);
    uint32_t block = orr__order_block(&check->names, access->buffer, check->index);
    if (orr__access_is_ordered(&check->trees, &check->model.clocks, block, access, view))
        return ORR_OK;
    return report_history(check, index, view);
}

static enum orr_status add_access(struct orr__order_check *check, uint32_t index,
                                  struct orr__stamp stamp, bool is_ordered) {
    const struct orr_stream_access *access = &check->program->accesses[index];
    struct orr__order_name_state *state = &check->states[access->buffer];
    if (orr__order_is_void(check->program, access))
        return ORR_OK;
    uint32_t block = orr__order_block(&check->names, access->buffer, check->index);
    enum orr_status status = ORR_OK;
    if (state->end_is_checked && block == check->names.names[access->buffer].block)
        status = orr__stamps_add(&check->model.clocks, &state->uses, stamp);
    if (status != ORR_OK)
        return status;
    return orr__access_add(&check->trees, &check->model.clocks, block, access, stamp, is_ordered);
}

/* --- actions --- */

static bool is_in(enum orr__order_part part, const struct orr_stream_access *access) {
    return part == ORR__PART_ALL || access->is_write == (part == ORR__PART_WRITES);
}

/* Step 4 of an action: all accesses are checked, and then added. */
static enum orr_status take_accesses(struct orr__order_check *check, const struct orr__view *view,
                                     struct orr__stamp stamp, enum orr__order_part part) {
    const struct orr_stream_op *op = &check->program->ops[check->index];
    struct orr__order_stamps *stamps = &check->stamps[check->index];
    uint32_t reported = check->reported_count, end = op->access_first + op->access_count;
    enum orr_status status = ORR_OK;
    if (part != ORR__PART_WRITES)
        stamps->read = stamp;
    if (part != ORR__PART_READS)
        stamps->write = stamp;
    for (uint32_t i = op->access_first; status == ORR_OK && !check->is_stopped && i < end; i++)
        if (is_in(part, &check->program->accesses[i]))
            status = check_access(check, i, view);
    bool is_ordered = check->reported_count == reported;
    for (uint32_t i = op->access_first; status == ORR_OK && !check->is_stopped && i < end; i++)
        if (is_in(part, &check->program->accesses[i]))
            status = add_access(check, i, stamp, is_ordered);
    return status;
}

enum orr_status orr__order_stream_action(struct orr__order_check *check, uint32_t stream,
                                         enum orr__order_part part) {
    struct orr__stamp stamp;
    enum orr_status status = orr__order_model_begin(&check->model, stream,
                                                    check->program->ops[check->index].host, &stamp);
    if (status == ORR_OK)
        status = take_accesses(check, &check->model.views[stream], stamp, part);
    return status == ORR_OK ? orr__order_model_end(&check->model, stream) : status;
}

enum orr_status orr__order_host_action(struct orr__order_check *check, enum orr__order_part part) {
    uint32_t host = check->program->ops[check->index].host;
    struct orr__stamp stamp = orr__order_model_host_action(&check->model, host);
    return take_accesses(check, &check->model.views[orr__order_host(&check->model, host)], stamp,
                         part);
}
