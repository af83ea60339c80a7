/* Delays and failed commands of CPU devices: a command that is concerned gets another function
 * around its own, when it is submitted. */
#include <stddef.h>
#include <time.h>

#include "runtime/cpu/cpu_internal.h"

static void rest(int64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static enum orr_status run_perturbed(const struct orr_command *command, struct orr_error *error) {
    const struct cpu_slot *slot =
        (const void *)((const char *)command - offsetof(struct cpu_slot, command));
    if (slot->delay_ns > 0)
        rest(slot->delay_ns);
    if (slot->fault) {
        char text[ORR_PERTURB_TEXT_MAX];
        return orr_error_set(error, ORR_DEVICE_FAILED, "device %u failed it (perturb %s)",
                             (unsigned)command->record.device,
                             orr_perturb_rule_text(slot->fault, text, sizeof text));
    }
    return slot->own_run ? slot->own_run(command, error) : ORR_OK;
}

/* True the nth time that the rule is concerned, or each time if it doesn't count. */
static bool comes_up(struct orr_perturb_rule *rule) {
    return ++rule->count == rule->nth || rule->nth == 0;
}

static bool delays(const struct orr_perturb *perturb, const struct orr_perturb_rule *rule,
                   const struct orr_record_command *record) {
    return rule->kind == ORR_PERTURB_DELAY &&
           (rule->device == ORR_PERTURB_ANY || rule->device == record->device) &&
           (rule->name_id == 0 || rule->name_id == record->name) &&
           (rule->stream_id == 0 ||
            rule->stream_id == perturb->stream_name(perturb->context, record->stream));
}

void orr__cpu_perturb_slot(struct cpu_backend *backend, struct cpu_slot *slot) {
    struct orr_perturb *perturb = backend->perturb;
    const struct orr_record_command *record = &slot->command.record;
    slot->delay_ns = 0;
    slot->fault = NULL;
    for (uint32_t i = 0; record->header.a <= ORR_COMMAND_HOSTFN && i < perturb->count; i++) {
        struct orr_perturb_rule *rule = &perturb->rules[i];
        if (delays(perturb, rule, record) && comes_up(rule))
            slot->delay_ns += rule->ns;
        if (rule->kind == ORR_PERTURB_DEVICE_ERROR && rule->device == record->device &&
            comes_up(rule)) {
            slot->fault = rule;
            orr_perturb_note(perturb, rule, "a command failed");
        }
    }
    if (slot->delay_ns == 0 && !slot->fault)
        return;
    slot->own_run = slot->run;
    slot->run = run_perturbed;
}

enum orr_status orr__cpu_perturb(struct orr_backend *base, struct orr_perturb *perturb,
                                 struct orr_error *error) {
    for (uint32_t i = 0; i < perturb->count; i++) {
        const struct orr_perturb_rule *rule = &perturb->rules[i];
        switch (rule->kind) {
        case ORR_PERTURB_SEED:
        case ORR_PERTURB_ALLOCATOR:
        case ORR_PERTURB_MEMORY:
        case ORR_PERTURB_FAIL_ALLOC:
        case ORR_PERTURB_DELAY: break;
        case ORR_PERTURB_DEVICE_ERROR:
            if (rule->nth > 0)
                break;
            return orr_error_set(error, ORR_UNSUPPORTED,
                                 "perturb: device_error: CPU devices fail an nth command only");
        default:
            return orr_error_set(error, ORR_UNSUPPORTED, "perturb: CPU devices have no %s",
                                 orr_perturb_key(rule->kind));
        }
    }
    orr__cpu(base)->perturb = perturb;
    return ORR_OK;
}
