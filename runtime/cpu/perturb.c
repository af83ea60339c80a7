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
    if (slot->perturbed.delay_ns > 0)
        rest(slot->perturbed.delay_ns);
    if (slot->perturbed.fault)
        return orr__perturb_fail(slot->perturbed.fault, command->record.device, error);
    return slot->own_run ? slot->own_run(command, error) : ORR_OK;
}

void orr__cpu_perturb_slot(struct cpu_backend *backend, struct cpu_slot *slot) {
    slot->perturbed = orr__perturb_command(backend->perturb, &slot->command.record);
    if (slot->perturbed.delay_ns == 0 && !slot->perturbed.fault)
        return;
    slot->own_run = slot->run;
    slot->run = run_perturbed;
}

enum orr_status orr__cpu_perturb(struct orr_backend *base, struct orr_perturb *perturb,
                                 struct orr_error *error) {
    enum orr_status status = orr__perturb_check_commands(perturb, "CPU devices", error);
    if (status == ORR_OK)
        orr__cpu(base)->perturb = perturb;
    return status;
}
