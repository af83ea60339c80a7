/* Launchers of synthetic kernels: one that reads all ranges in their order, one that writes. */
#include "runtime/backend.h"
#include "runtime/cuda/queue.h"

enum { READ_SHARED = (4 + ORR__K_SYNTHETIC_TILE) * 8 };

/* The next ranges of a command, from access *next on, that are used in this way. */
static int32_t collect(const struct orr_task *task, enum orr_access_mode mode, uint32_t *next,
                       struct orr__k_range *ranges) {
    const struct orr_command *command = task->synthetic.command;
    int32_t count = 0;
    for (; *next < command->access_count && count < ORR__K_RANGES_MAX; (*next)++) {
        const struct orr_access *access = &command->accesses[*next];
        if (access->mode & (uint32_t)mode)
            ranges[count++] = (struct orr__k_range){task->synthetic.pointer(command, *next),
                                                    (int64_t)access->bytes};
    }
    return count;
}

static enum orr_status read_ranges(struct orr__cuda_queue *queue, const struct orr_task *task,
                                   uint64_t **out_digest, struct orr_error *error) {
    struct orr__k_synthetic_read a = {.begin = task->synthetic.digest, .begins = 1};
    enum orr_status status = ORR_OK;
    *out_digest = NULL;
    for (uint32_t next = 0; status == ORR_OK; a.begins = 0) {
        a.count = collect(task, ORR_ACCESS_READ, &next, a.ranges);
        if (a.count == 0)
            break;
        if (a.begins) {
            void *scratch;
            status = orr__cuda_scratch(queue, sizeof **out_digest, &scratch, error);
            *out_digest = a.digest = scratch;
        }
        if (status == ORR_OK)
            status = orr__cuda_launch(queue, ORR__K_synthetic_read, 1, ORR__CUDA_BLOCK, READ_SHARED,
                                      &a, error);
    }
    return status;
}

enum orr_status orr__cuda_synthetic(struct orr__cuda_queue *queue, const struct orr_task *task,
                                    struct orr_error *error) {
    uint64_t *digest;
    enum orr_status status = read_ranges(queue, task, &digest, error);
    struct orr__k_synthetic_write a = {.digest = digest, .begin = task->synthetic.digest};
    for (uint32_t next = 0; status == ORR_OK; a.first += a.count) {
        uint64_t most = 0;
        a.count = collect(task, ORR_ACCESS_WRITE, &next, a.ranges);
        if (a.count == 0)
            break;
        for (int32_t i = 0; i < a.count; i++)
            if ((uint64_t)a.ranges[i].bytes > most)
                most = (uint64_t)a.ranges[i].bytes;
        status = orr__cuda_launch(queue, ORR__K_synthetic_write,
                                  orr__cuda_grid(queue, most / 8 + (most % 8 != 0)),
                                  ORR__CUDA_BLOCK, 0, &a, error);
    }
    return status;
}
