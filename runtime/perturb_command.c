/* Rules about commands, for backends that can delay a command and fail an nth one, and no more. */
#include "runtime/perturb.h"
#include "runtime/record.h"

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

struct orr__perturbed orr__perturb_command(struct orr_perturb *perturb,
                                           const struct orr_record_command *record) {
    struct orr__perturbed perturbed = {0};
    if (!perturb || record->header.a > ORR_COMMAND_HOSTFN)
        return perturbed;
    for (uint32_t i = 0; i < perturb->count; i++) {
        struct orr_perturb_rule *rule = &perturb->rules[i];
        if (delays(perturb, rule, record) && comes_up(rule))
            perturbed.delay_ns += rule->ns;
        if (rule->kind == ORR_PERTURB_DEVICE_ERROR && rule->device == record->device &&
            comes_up(rule)) {
            perturbed.fault = rule;
            orr_perturb_note(perturb, rule, "a command failed");
        }
    }
    return perturbed;
}

enum orr_status orr__perturb_fail(const struct orr_perturb_rule *fault, uint32_t device,
                                  struct orr_error *error) {
    char text[ORR_PERTURB_TEXT_MAX];
    return orr_error_set(error, ORR_DEVICE_FAILED, "device %u failed it (perturb %s)",
                         (unsigned)device, orr_perturb_rule_text(fault, text, sizeof text));
}

enum orr_status orr__perturb_check_commands(const struct orr_perturb *perturb, const char *machine,
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
                                 "perturb: device_error: %s fail an nth command only", machine);
        default:
            return orr_error_set(error, ORR_UNSUPPORTED, "perturb: %s have no %s", machine,
                                 orr_perturb_key(rule->kind));
        }
    }
    return ORR_OK;
}
