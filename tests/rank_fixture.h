/* Traces of the ranks of a job, made by hand the way importers make them.
 *
 *     struct rank_job job;
 *     job_begin(&job, &memory.table, 3);                 // 3 ranks of 3
 *     job_kernel(&job, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 200);
 *     ...
 *     job_end(&job);                                     // timelines and models
 *     job_ranks(&job);                                   // job.ranks
 *     job_free(&job);
 *
 * Kernels have a call on their rank's thread, 20 to 10 ns before their start. Whatever fails, fails
 * the test, unless job.may_fail is set: then job.failed is.
 *
 * Threads: one. */
#ifndef ORR_TESTS_RANK_FIXTURE_H
#define ORR_TESTS_RANK_FIXTURE_H

#include "analyzer/ranks.h"
#include "trace/import/builder.h"
#include "trace/merge.h"

#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define SEND_RECV  "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
#define BROADCAST  "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

enum { JOB_RANKS_MAX = 64, JOB_STREAM = 7, JOB_COMM_STREAM = 20 };

struct rank_job {
    const struct orr_memory *memory;
    struct orr__builder *builders[JOB_RANKS_MAX];
    struct orr_timeline *timelines[JOB_RANKS_MAX];
    struct orr_events events[JOB_RANKS_MAX];
    struct orr_ranks_input inputs[JOB_RANKS_MAX];
    int64_t shifts[JOB_RANKS_MAX]; /* added to all times of a rank: its clock */
    uint64_t correlations[JOB_RANKS_MAX];
    struct orr_ranks ranks;
    struct orr_timeline *merged;
    struct orr_error error;
    size_t count, made; /* ranks; models */
    bool may_fail, failed;
};

/* Ranks 0 .. count - 1 of `world_size`, in this order. */
void job_begin(struct rank_job *job, const struct orr_memory *memory, size_t count,
               uint64_t world_size);
/* Adds a kernel to the trace at `place`: its command's id. */
uint64_t job_kernel(struct rank_job *job, size_t place, const char *name, int64_t start_ns,
                    int64_t end_ns);
/* The same in the stream of communication. */
uint64_t job_comm(struct rank_job *job, size_t place, const char *name, int64_t start_ns,
                  int64_t end_ns);
/* A group of ranks: the communicator's id in that trace. */
uint32_t job_group(struct rank_job *job, size_t place, const char *name, const uint32_t *ranks,
                   size_t count);
/* What the profiler says of a communication kernel; seq 0, source and destination ORR_ID_NONE: not
 * recorded. */
void job_collective(struct rank_job *job, size_t place, uint64_t command, uint32_t group,
                    const char *kind, uint64_t seq, uint32_t source, uint32_t destination);
/* Timelines, models, inputs. */
void job_end(struct rank_job *job);
void job_ranks(struct rank_job *job);
/* job->merged, by job->ranks. */
void job_merge(struct rank_job *job);
void job_free(struct rank_job *job);

#endif
