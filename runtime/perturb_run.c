/* A run and its perturbations: rules are checked against the machine, those about memory are kept
 * here, the others by the backend. */
#include "runtime/perturb.h"

#include <assert.h>
#include <string.h>

#include "runtime/runtime_internal.h"

static uint32_t stream_name(void *context, uint32_t stream) {
    const struct orr_runtime *runtime = context;
    return stream < runtime->stream_count ? runtime->streams[stream]->name : 0;
}

static bool is_memory(enum orr_perturb_kind kind) {
    return kind == ORR_PERTURB_MEMORY || kind == ORR_PERTURB_FAIL_ALLOC ||
           kind == ORR_PERTURB_ALLOCATOR;
}

static bool is_about_time(enum orr_perturb_kind kind) {
    return kind == ORR_PERTURB_JITTER || kind == ORR_PERTURB_HOST_JITTER ||
           kind == ORR_PERTURB_STRAGGLER || kind == ORR_PERTURB_SLOW_LINK ||
           kind == ORR_PERTURB_LATE_RANK || kind == ORR_PERTURB_STALL_HOST ||
           kind == ORR_PERTURB_DELAY || kind == ORR_PERTURB_SEED;
}

/* Where a program is run in every order nothing takes time: rules about it say nothing there. */
static bool is_kept(const struct orr_runtime *runtime, enum orr_perturb_kind kind) {
    return runtime->verbs->perturb || is_memory(kind) ||
           (is_about_time(kind) && runtime->verbs->rewind);
}

static enum orr_status check_device(struct orr_runtime *runtime,
                                    const struct orr_perturb_rule *rule, uint32_t device) {
    if (device >= ORR_PERTURB_HOST || device < runtime->device_count)
        return ORR_OK;
    return orr__runtime_fail(
        runtime, ORR_INVALID, "perturb: %s: there is no device %u; this run has %u, counted from 0",
        orr_perturb_key(rule->kind), (unsigned)device, (unsigned)runtime->device_count);
}

static enum orr_status check_rule(struct orr_runtime *runtime,
                                  const struct orr_perturb_rule *rule) {
    enum orr_status status = check_device(runtime, rule, rule->device);
    if (status == ORR_OK)
        status = check_device(runtime, rule, rule->peer);
    if (status == ORR_OK && rule->peer == rule->device && rule->peer != ORR_PERTURB_ANY)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "perturb: %s: device %u has no link to itself",
                                 orr_perturb_key(rule->kind), (unsigned)rule->device);
    if (status == ORR_OK && !is_kept(runtime, rule->kind))
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "perturb: backend '%s' has no %s",
                                 runtime->verbs->name, orr_perturb_key(rule->kind));
    return status;
}

static enum orr_status check_rules(struct orr_runtime *runtime, const struct orr_perturb *perturb) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < perturb->count && status == ORR_OK; i++)
        status = check_rule(runtime, &perturb->rules[i]);
    return status;
}

static enum orr_status intern_names(struct orr_runtime *runtime, struct orr_perturb *perturb) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < perturb->count && status == ORR_OK; i++) {
        struct orr_perturb_rule *rule = &perturb->rules[i];
        status = orr__runtime_name(runtime, rule->name, &rule->name_id);
        if (status == ORR_OK)
            status = orr__runtime_name(runtime, rule->stream, &rule->stream_id);
    }
    return status;
}

static void lower_capacity(struct orr__device *device, uint64_t bytes) {
    bytes = bytes / ORR__BLOCK_ALIGN * ORR__BLOCK_ALIGN;
    if (bytes < device->allocator->capacity) {
        device->allocator->capacity = bytes;
        device->spec.memory_bytes = bytes;
    }
}

static void keep_memory_rules(struct orr_runtime *runtime) {
    for (uint32_t i = 0; i < runtime->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &runtime->perturb->rules[i];
        for (uint32_t d = 0; d < runtime->device_count; d++) {
            struct orr__device *device = &runtime->devices[d];
            if (rule->kind == ORR_PERTURB_MEMORY &&
                (rule->device == ORR_PERTURB_ANY || rule->device == d))
                lower_capacity(device, rule->bytes);
            if (rule->kind == ORR_PERTURB_ALLOCATOR)
                device->allocator->adversarial = rule->number != 0;
        }
    }
}

static enum orr_status reserve(struct orr_runtime *runtime) {
    if (runtime->command_count > 0 || runtime->buffer_count > 0)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "perturb: comes before the first call to a device");
    if (!runtime->perturb)
        runtime->perturb = orr_memory_alloc(runtime->memory, sizeof *runtime->perturb);
    if (!runtime->perturb)
        return orr__runtime_no_memory(runtime);
    runtime->perturb->stream_name = stream_name;
    runtime->perturb->context = runtime;
    return ORR_OK;
}

enum orr_status orr_runtime_perturb(struct orr_runtime *runtime,
                                    const struct orr_perturb *perturb) {
    struct orr_error error = {0};
    enum orr_status status = reserve(runtime);
    if (status == ORR_OK)
        status = check_rules(runtime, perturb);
    if (status != ORR_OK)
        return status;
    status = orr_perturb_merge(runtime->perturb, perturb, &error);
    if (status != ORR_OK)
        return orr__runtime_fail(runtime, status, "%s", error.text);
    status = intern_names(runtime, runtime->perturb);
    if (status != ORR_OK)
        return status;
    keep_memory_rules(runtime);
    if (runtime->verbs->perturb)
        status = runtime->verbs->perturb(runtime->backend, runtime->perturb, &error);
    if (status != ORR_OK)
        return orr__runtime_fail(runtime, status, "%s", error.text);
    char text[ORR_PERTURB_TEXT_MAX];
    orr_runtime_meta(runtime, "perturb", orr_perturb_text(runtime->perturb, text, sizeof text));
    return ORR_OK;
}

static bool is_fault(enum orr_perturb_kind kind) {
    return kind == ORR_PERTURB_FAIL_LINK || kind == ORR_PERTURB_LOSE_LINK ||
           kind == ORR_PERTURB_DEVICE_ERROR || kind == ORR_PERTURB_LOSE_DEVICE ||
           kind == ORR_PERTURB_LOSE_RANK || kind == ORR_PERTURB_FAIL_ALLOC;
}

const char *orr_runtime_idle_perturbation(const struct orr_runtime *runtime, char *text,
                                          size_t size) {
    const struct orr_perturb *perturb = runtime->perturb;
    for (uint32_t i = 0; perturb && i < perturb->count; i++) {
        const struct orr_perturb_rule *rule = &perturb->rules[i];
        bool is_idle = rule->kind == ORR_PERTURB_DELAY ? rule->count == 0 || rule->count < rule->nth
                                                       : is_fault(rule->kind) && !perturb->fault[0];
        if (is_idle)
            return orr_perturb_rule_text(rule, text, size);
    }
    return NULL;
}

const char *orr_runtime_fault(const struct orr_runtime *runtime) {
    return runtime->perturb && runtime->perturb->fault[0] ? runtime->perturb->fault : NULL;
}

const char *orr__perturb_fails_alloc(struct orr_runtime *runtime, uint32_t device) {
    for (uint32_t i = 0; runtime->perturb && i < runtime->perturb->count; i++) {
        struct orr_perturb_rule *rule = &runtime->perturb->rules[i];
        if (rule->kind != ORR_PERTURB_FAIL_ALLOC || rule->device != device ||
            ++rule->count != rule->nth)
            continue;
        orr_perturb_note(runtime->perturb, rule, "an allocation found no memory");
        return runtime->perturb->fault;
    }
    return NULL;
}

const char *orr__perturb_short_of(struct orr_runtime *runtime, uint32_t device) {
    for (uint32_t i = 0; runtime->perturb && i < runtime->perturb->count; i++) {
        const struct orr_perturb_rule *rule = &runtime->perturb->rules[i];
        if (rule->kind == ORR_PERTURB_MEMORY &&
            (rule->device == ORR_PERTURB_ANY || rule->device == device)) {
            orr_perturb_note(runtime->perturb, rule, "its capacity was lowered");
            return runtime->perturb->fault;
        }
    }
    return NULL;
}
