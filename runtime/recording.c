#include "runtime/recording.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/autograd_internal.h"
#include "runtime/recording_internal.h"

enum {
    CALLS_MAX = 1 << 24,
    VALUES_MAX = 1 << 26,
    MORE = ORR_INPUTS_MAX + ORR_OUTPUTS_MAX /* values that one call adds at most */
};

/* A value that is still on the devices. */
struct pending {
    uint32_t value;
    struct orr_tensor *tensor; /* one reference */
    struct orr_future *future; /* NULL: not asked for yet */
};

struct orr_recording {
    const struct orr_memory *memory;
    struct orr_runtime *runtime; /* NULL: ended */
    struct orr_recording *next;  /* open ones of the runtime */
    uint64_t bytes, bytes_max;
    struct orr_names *sites;
    struct orr__variables numbers; /* of tensors: indices of values */
    struct orr_recorded_value *values;
    size_t value_count, value_capacity;
    struct orr_recorded_call *calls;
    size_t call_count, call_capacity;
    struct pending *pending; /* of the last call, or of several while the host is blocked */
    size_t pending_count, pending_capacity;
    enum orr_status status; /* the first failure */
    struct orr_error error;
};

/* Keeps the first failure and stops adding. */
static void fail(struct orr_recording *recording, enum orr_status status, const char *text) {
    if (recording->status == ORR_OK) {
        recording->status = orr_error_set(&recording->error, status, "%s", text);
    }
}

static void drop_pending(struct orr_recording *recording) {
    for (size_t i = 0; i < recording->pending_count; i++) {
        orr_future_destroy(&recording->pending[i].future);
        orr__tensor_release(recording->pending[i].tensor);
    }
    recording->pending_count = 0;
}

static void unlink_from_runtime(struct orr_recording *recording) {
    struct orr_recording **at = &recording->runtime->recordings;
    while (*at != recording) {
        at = &(*at)->next;
    }
    *at = recording->next;
    recording->runtime = NULL;
}

enum orr_status orr_recording_begin(struct orr_runtime *runtime, uint64_t bytes_max,
                                    struct orr_recording **out_recording) {
    *out_recording = NULL;
    orr_error_clear(&runtime->error);
    if (runtime->timing_only) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "values are recorded, but timing-only runs have no values");
    }
    if (runtime->region || runtime->capture) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "values are recorded outside of compiled functions and captured "
                                 "programs, where operators run");
    }
    struct orr_recording *recording = orr_memory_alloc(runtime->memory, sizeof *recording);
    if (!recording) {
        return orr__runtime_no_memory(runtime);
    }
    *recording = (struct orr_recording){.memory = runtime->memory,
                                        .runtime = runtime,
                                        .next = runtime->recordings,
                                        .bytes_max = bytes_max};
    if (orr_names_create(runtime->memory, &recording->sites) != ORR_OK) {
        orr_memory_free(runtime->memory, recording);
        return orr__runtime_no_memory(runtime);
    }
    runtime->recordings = recording;
    *out_recording = recording;
    return ORR_OK;
}

/* --- values on their way --- */

static uint64_t bytes_of(const struct orr_operand_info *info) {
    return (uint64_t)orr_shape_count(&info->shape) * orr_dtype_size(info->dtype);
}

/* Brings one value to the host. */
static enum orr_status fetch(struct orr_recording *recording, struct pending *pending) {
    struct orr_recorded_value *value = &recording->values[pending->value];
    uint64_t bytes = bytes_of(&value->info);
    enum orr_status status = ORR_OK;
    if (!pending->future) {
        status = orr_tensor_future(pending->tensor, &pending->future);
    }
    if (status == ORR_OK && !value->data) {
        value->data = orr_memory_alloc(recording->memory, bytes + 1);
        if (!value->data) {
            return orr__runtime_no_memory(recording->runtime);
        }
    }
    return status == ORR_OK ? orr_future_get(pending->future, value->data, bytes) : status;
}

/* Only ORR_BLOCKED is returned; what else fails is kept. */
static enum orr_status flush(struct orr_recording *recording) {
    for (size_t i = 0; i < recording->pending_count && recording->status == ORR_OK; i++) {
        struct pending *pending = &recording->pending[i];
        if (recording->values[pending->value].data && !pending->future) {
            continue; /* done before a block */
        }
        enum orr_status status = fetch(recording, pending);
        if (status == ORR_BLOCKED) {
            return status;
        }
        orr_future_destroy(&pending->future);
        if (status != ORR_OK) {
            fail(recording, status, orr_runtime_error(recording->runtime)->text);
        }
    }
    drop_pending(recording);
    return ORR_OK;
}

/* --- calls --- */

/* The index of a tensor's value, which is fetched if it is new; `maker` as in the value. */
static uint32_t number_of(struct orr_recording *recording, struct orr_tensor *tensor,
                          int64_t maker) {
    const struct orr__variable *known = orr__variables_find(&recording->numbers, tensor);
    if (known) {
        return known->number;
    }
    uint32_t number = orr__variables_add(&recording->numbers, tensor, false);
    assert(number == recording->value_count);
    struct orr_recorded_value *value = &recording->values[recording->value_count++];
    *value = (struct orr_recorded_value){.info = tensor->info, .maker = maker};
    orr_layout_text(&tensor->layout, value->place);
    recording->bytes += bytes_of(&tensor->info);
    recording->pending[recording->pending_count++] =
        (struct pending){.value = number, .tensor = orr_tensor_retain(tensor)};
    return number;
}

static enum orr_status reserve(struct orr_recording *recording) {
    enum orr_status status = orr__variables_reserve(&recording->numbers, recording->memory, MORE);
    if (status == ORR_OK) {
        status =
            orr_memory_grow(recording->memory, &recording->values, &recording->value_capacity,
                            recording->value_count + MORE, sizeof *recording->values, VALUES_MAX);
    }
    if (status == ORR_OK) {
        status = orr_memory_grow(recording->memory, &recording->pending,
                                 &recording->pending_capacity, recording->pending_count + MORE,
                                 sizeof *recording->pending, VALUES_MAX);
    }
    if (status == ORR_OK) {
        status = orr_memory_grow(recording->memory, &recording->calls, &recording->call_capacity,
                                 recording->call_count + 1, sizeof *recording->calls, CALLS_MAX);
    }
    return status;
}

static void check_bytes(struct orr_recording *recording, const struct orr_recorded_call *call) {
    if (recording->bytes > recording->bytes_max) {
        char text[ORR_ERROR_TEXT_MAX];
        snprintf(text, sizeof text,
                 "recorded values need more than %" PRIu64 " bytes, at operator %zu, '%s', %s",
                 recording->bytes_max, recording->call_count, call->op,
                 call->site[0] ? call->site : "of unknown site");
        fail(recording, ORR_INVALID, text);
    }
}

static void add(struct orr_recording *recording, const struct orr__stage *stage) {
    const char *site = recording->runtime->site_text;
    uint32_t id;
    if (reserve(recording) != ORR_OK ||
        orr_names_intern(recording->sites, site, strlen(site), &id) != ORR_OK) {
        fail(recording, ORR_NO_MEMORY, "out of memory for recorded values");
        return;
    }
    const char *moved = stage->shift.by ? "shift" : "redistribute";
    struct orr_recorded_call call = {.op = stage->op ? stage->op->name : moved,
                                     .site = orr_names_text(recording->sites, id),
                                     .row = stage->op,
                                     .attributes = stage->attributes,
                                     .input_count = stage->input_count,
                                     .output_count = stage->op ? stage->op->outputs : 1};
    for (int i = 0; i < call.input_count; i++) {
        call.inputs[i] = number_of(recording, stage->inputs[i], -1);
    }
    for (int i = 0; i < call.output_count; i++) {
        call.outputs[i] = number_of(recording, stage->outputs[i], (int64_t)recording->call_count);
    }
    recording->calls[recording->call_count++] = call;
    check_bytes(recording, &call);
}

enum orr_status orr__recordings_turn(struct orr_runtime *runtime, struct orr_tensor *changed) {
    enum orr_status status = ORR_OK;
    for (struct orr_recording *at = runtime->recordings; at && status == ORR_OK; at = at->next) {
        if (changed && at->status == ORR_OK) {
            if (reserve(at) == ORR_OK) {
                (void)number_of(at, changed, -1);
            } else {
                fail(at, ORR_NO_MEMORY, "out of memory for recorded values");
            }
        }
        status = flush(at);
    }
    return status;
}

void orr__recordings_add(struct orr_runtime *runtime, const struct orr__stage *stage) {
    for (struct orr_recording *at = runtime->recordings; at; at = at->next) {
        if (at->status == ORR_OK) {
            add(at, stage);
            (void)flush(at); /* blocked: the next turn, or the end */
        }
    }
}

/* --- its end --- */

enum orr_status orr_recording_end(struct orr_recording *recording) {
    struct orr_runtime *runtime = recording->runtime;
    if (!runtime) {
        return recording->status;
    }
    orr_error_clear(&runtime->error);
    if (flush(recording) == ORR_BLOCKED) {
        return ORR_BLOCKED;
    }
    unlink_from_runtime(recording);
    return recording->status == ORR_OK
               ? ORR_OK
               : orr__runtime_fail(runtime, recording->status, "%s", recording->error.text);
}

void orr__recordings_detach(struct orr_runtime *runtime) {
    while (runtime->recordings) {
        drop_pending(runtime->recordings);
        fail(runtime->recordings, ORR_INVALID, "the run ended before its recording");
        unlink_from_runtime(runtime->recordings);
    }
}

void orr_recording_destroy(struct orr_recording **recording) {
    struct orr_recording *gone = *recording;
    if (!gone) {
        return;
    }
    *recording = NULL;
    if (gone->runtime) {
        drop_pending(gone);
        unlink_from_runtime(gone);
    }
    for (size_t i = 0; i < gone->value_count; i++) {
        orr_memory_free(gone->memory, gone->values[i].data);
    }
    orr_names_destroy(&gone->sites);
    orr_memory_free(gone->memory, gone->numbers.slots);
    orr_memory_free(gone->memory, gone->values);
    orr_memory_free(gone->memory, gone->pending);
    orr_memory_free(gone->memory, gone->calls);
    orr_memory_free(gone->memory, gone);
}

bool orr_recording_is_good(const struct orr_recording *recording) {
    return !recording->runtime && recording->status == ORR_OK;
}

uint32_t orr_recording_call_count(const struct orr_recording *recording) {
    return (uint32_t)recording->call_count;
}

const struct orr_recorded_call *orr_recording_call(const struct orr_recording *recording,
                                                   uint32_t index) {
    assert(index < recording->call_count);
    return &recording->calls[index];
}

const struct orr_recorded_value *orr_recording_value(const struct orr_recording *recording,
                                                     uint32_t index) {
    assert(index < recording->value_count);
    return &recording->values[index];
}

uint64_t orr_recording_bytes(const struct orr_recording *recording) {
    return recording->bytes;
}
