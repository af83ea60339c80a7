/* Commands as data, for backends whose memory host code can't reach (runtime/task.h). */
#include "runtime/program_internal.h"
#include "runtime/runtime_internal.h"
#include "runtime/task.h"

static void *pointer_of(const struct orr_command *command, uint32_t access) {
    return orr__pending_pointer(command->context, access);
}

static void describe_kernel(const struct orr__pending *pending, struct orr_task *out_task) {
    out_task->kind = ORR_TASK_HOST_ONLY;
    if (pending->describe)
        pending->describe(pending->command.work, out_task);
}

static void describe_copy(const struct orr__pending *pending, struct orr_task *out_task) {
    out_task->kind = ORR_TASK_COPY;
    out_task->copy.from = orr__pending_pointer(pending, 0);
    out_task->copy.to = orr__pending_pointer(pending, 1);
    out_task->copy.bytes = pending->command.accesses[0].bytes;
}

static void describe_fill(const struct orr__pending *pending, struct orr_task *out_task) {
    out_task->kind = ORR_TASK_FILL;
    out_task->fill.to = orr__pending_pointer(pending, 0);
    out_task->fill.bytes = pending->command.accesses[0].bytes;
    out_task->fill.value = pending->value;
}

void orr__runtime_describe(const struct orr_command *command, struct orr_task *out_task) {
    *out_task = (struct orr_task){.kind = ORR_TASK_NONE};
    const struct orr_command *recorded = orr__program_template(command);
    const struct orr__pending *pending = recorded ? recorded->context : command->context;
    if (!command->run)
        return;
    switch ((enum orr_command_kind)command->record.header.a) {
    case ORR_COMMAND_KERNEL:
        if (orr__stream_is_synthetic(&pending->command)) {
            out_task->kind = ORR_TASK_SYNTHETIC;
            out_task->synthetic.digest = pending->name_digest;
            out_task->synthetic.command = &pending->command;
            out_task->synthetic.pointer = pointer_of;
        } else {
            describe_kernel(pending, out_task);
        }
        return;
    case ORR_COMMAND_COPY: describe_copy(pending, out_task); return;
    case ORR_COMMAND_FILL: describe_fill(pending, out_task); return;
    default: out_task->kind = ORR_TASK_HOST; return;
    }
}
