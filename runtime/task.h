/* What a command does, as data: for backends whose memory host code can't reach.
 *
 * Simulated devices and CPU threads compute a command by calling its `run`. A machine with memory
 * of its own asks the host layer for the command's task instead, and launches kernels of its own:
 *
 *     struct orr_task task;
 *     config->describe(command, &task);
 *     switch (task.kind) {
 *     case ORR_TASK_FILL: memset_async(task.fill.to, task.fill.value, task.fill.bytes, stream); ...
 *
 * All addresses are as memory_pointer of runtime/backend.h gives them: a device's memory at the
 * device's addresses, pinned host memory at the host's. A task is borrowed until its command has
 * retired; a collective's is in the command itself.
 *
 * Threads: plain data. */
#ifndef ORR_RUNTIME_TASK_H
#define ORR_RUNTIME_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/operators/fused.h"

struct orr_command;

enum orr_task_kind {
    ORR_TASK_NONE,      /* nothing to compute: markers, waits, runs that are timing only */
    ORR_TASK_HOST,      /* the command's `run`, on the host, in stream order */
    ORR_TASK_HOST_ONLY, /* a kernel that has host code only: can't be done where this is asked */
    ORR_TASK_OPERATOR,  /* a row of the table of operators */
    ORR_TASK_FUSED,     /* several of them in one kernel */
    ORR_TASK_SYNTHETIC, /* runtime/synthetic.h, over the command's accesses in their order */
    ORR_TASK_MOVE,      /* cuts of elements between places of one device */
    ORR_TASK_COPY,      /* bytes, from and to any memory */
    ORR_TASK_FILL       /* one byte value */
};

struct orr_task_operator {
    const struct orr_operator *op;
    const struct orr_attributes *attributes; /* this rank's */
    int input_count;
    const struct orr_tensor_view *inputs;
    const struct orr_tensor_view *outputs; /* op->outputs of them */
};

struct orr_task_fused {
    const struct orr_fused *fused;
    const struct orr_tensor_view *operands; /* fused->operand_count */
    const struct orr_tensor_view *result;
};

/* Rows of `width` bytes in `rank` loops, outermost first; rank 0: one row. */
struct orr_task_cut {
    int rank;
    uint64_t counts[ORR_RANK_MAX], to_strides[ORR_RANK_MAX], from_strides[ORR_RANK_MAX]; /* bytes */
    uint64_t width;
    void *to;         /* the first row */
    const void *from; /* NULL: zeros; rank is 0 then */
};

/* Cuts in order; later ones may overwrite earlier zeros, nothing else overlaps. */
struct orr_task_move {
    uint32_t count;
    const void *cuts;
    void (*cut)(const void *cuts, uint32_t index, struct orr_task_cut *out_cut);
};

struct orr_task {
    enum orr_task_kind kind;
    union {
        struct orr_task_operator call;
        struct orr_task_fused fused;
        struct orr_task_move move;
        struct {
            uint64_t digest; /* of the kernel's name: orr__synthetic_begin */
            /* Whose accesses it reads and writes, and where they are. */
            const struct orr_command *command;
            void *(*pointer)(const struct orr_command *command, uint32_t access);
        } synthetic;
        struct {
            void *to;
            const void *from;
            uint64_t bytes;
        } copy;
        struct {
            void *to;
            uint64_t bytes;
            uint8_t value;
        } fill;
    };
};

#endif
