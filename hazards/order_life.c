#include "hazards/order_check_internal.h"

static enum orr_status record_stream(struct orr__order_check *check,
                                     const struct orr_stream_op *op) {
    enum orr_status status =
        orr_memory_grow(check->program->memory, &check->recorded, &check->recorded_capacity,
                        (size_t)check->recorded_count + 1, sizeof *check->recorded, UINT32_MAX);
    if (status != ORR_OK)
        return status;
    struct orr__order_name_state *state = &check->states[op->object];
    check->recorded[check->recorded_count] = (struct orr__order_recorded){
        .stream = op->stream, .next = state->recorded_first, .op = check->index};
    state->recorded_first = check->recorded_count++;
    return ORR_OK;
}

static enum orr_status free_cached(struct orr__order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    struct orr__order_name_state *state = &check->states[op->object];
    state->at_free =
        orr__view_save(&model->clocks, &model->views[orr__order_host(model, op->host)]);
    enum orr_status status = ORR_OK;
    if (state->recorded_first == ORR_NONE)
        return status;
    bool is_reused = check->names.names[op->object].reused_by != ORR_NONE;
    /* A sum of several views belongs to nobody. */
    struct orr__view sum = {.actor = ORR_NO_ACTOR};
    status = orr__view_join(&model->clocks, &sum, &state->at_free, NULL);
    for (uint32_t i = state->recorded_first; status == ORR_OK && i != ORR_NONE;
         i = check->recorded[i].next) {
        const struct orr__view *view;
        status = orr__order_model_stream_view(model, check->recorded[i].stream, &view);
        bool changed = false;
        if (status == ORR_OK)
            status = orr__view_join(&model->clocks, &sum, view, &changed);
        if (check->effective && changed && is_reused)
            check->effective[check->recorded[i].op] = true;
    }
    orr__view_drop(&model->clocks, &state->at_free);
    state->at_free = sum;
    return status;
}

static enum orr_status alloc_cached(struct orr__order_check *check,
                                    const struct orr_stream_op *op) {
    if (op->other == ORR_NONE)
        return ORR_OK;
    struct orr__order_model *model = &check->model;
    return orr__view_join(&model->clocks, &model->views[orr__order_host(model, op->host)],
                          &check->states[op->other].at_free, NULL);
}

static enum orr_status alloc_async(struct orr__order_check *check, const struct orr_stream_op *op) {
    enum orr_status status = ORR_OK;
    if (op->other != ORR_NONE)
        status =
            orr__order_model_learn(&check->model, op->stream, &check->states[op->other].at_free);
    return status == ORR_OK ? orr__order_stream_action(check, op->stream, ORR__PART_ALL) : status;
}

static enum orr_status free_async(struct orr__order_check *check, const struct orr_stream_op *op) {
    struct orr__order_model *model = &check->model;
    struct orr__order_name_state *state = &check->states[op->object];
    struct orr__stamp stamp;
    enum orr_status status = orr__order_model_begin(model, op->stream, op->host, &stamp);
    const struct orr__view *view = &model->views[op->stream];
    if (status == ORR_OK && orr__order_is_before_alloc(check, op->object, view))
        status = orr__order_tell(check, ORR_CHECK_USE_BEFORE_ALLOC,
                                 check->names.names[op->object].intro, ORR_NONE, ORR_NONE);
    if (status == ORR_OK && !check->is_stopped &&
        !orr__stamps_known(&model->clocks, &state->uses, view))
        status = orr__order_tell_use(check, op->object, view);
    if (status == ORR_OK)
        status = orr__order_model_end(model, op->stream);
    if (status == ORR_OK)
        state->at_free = orr__view_save(&model->clocks, view);
    return status;
}

static enum orr_status free_on_host(struct orr__order_check *check,
                                    const struct orr_stream_op *op) {
    const struct orr__view *view = &check->model.views[orr__order_host(&check->model, op->host)];
    if (orr__stamps_known(&check->model.clocks, &check->states[op->object].uses, view))
        return ORR_OK;
    return orr__order_tell_use(check, op->object, view);
}

enum orr_status orr__order_take_life(struct orr__order_check *check,
                                     const struct orr_stream_op *op) {
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_ALLOC: return alloc_cached(check, op);
    case ORR_OP_FREE: return free_cached(check, op);
    case ORR_OP_RECORD_STREAM: return record_stream(check, op);
    case ORR_OP_ALLOC_ASYNC: return alloc_async(check, op);
    case ORR_OP_FREE_ASYNC: return free_async(check, op);
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: return free_on_host(check, op);
    default: return ORR_OK; /* alias, view, groups, creating and destroying streams: no effect */
    }
}
