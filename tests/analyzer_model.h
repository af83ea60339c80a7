/* Event models built by hand, for the analyzer's tests: like traces of other tools, without a
 * timeline.
 *
 *     struct model model;
 *     model_init(&model, &memory);
 *     uint32_t device = model_device(&model), stream = model_stream(&model, device);
 *     uint32_t thread = model_thread(&model, 0, "1/1");
 *     uint32_t call = model_call(&model, thread, 0, 10, "cudaLaunchKernel");
 *     model_op(&model, stream, call, 15, 40, "kernel");
 *     struct orr_analysis *analysis = model_analyze(&model, NULL);
 *     ...
 *     model_done(&model, &analysis);
 *
 * What a call is follows from its name, by the rules for CUDA and HIP calls. Failures fail the
 * test.
 *
 * Threads: one. */
#ifndef ORR_TESTS_ANALYZER_MODEL_H
#define ORR_TESTS_ANALYZER_MODEL_H

#include "analyzer/analysis.h"

struct model {
    struct orr_events events;
    const struct orr_memory *memory;
};

void model_init(struct model *model, const struct orr_memory *memory);
uint32_t model_device(struct model *model);
uint32_t model_stream(struct model *model, uint32_t device);
uint32_t model_thread(struct model *model, uint32_t process, const char *label);
uint32_t model_call(struct model *model, uint32_t thread, int64_t begin_ns, int64_t end_ns,
                    const char *name);
/* A kernel of the operator of that name (added when new); `call` may be ORR_EVENTS_NONE. The name
 * decides between compute, communication (nccl...) and copies (Memcpy..., Memset...). Correlations
 * count from 1. Returns the row, to change it before the next call; NULL for a bad record. */
struct orr_events_op *model_op(struct model *model, uint32_t stream, uint32_t call,
                               int64_t start_ns, int64_t end_ns, const char *name);
void model_wait(struct model *model, uint32_t stream, int64_t at_ns, uint32_t source,
                int64_t record_ns);
void model_overhead(struct model *model, uint32_t process, int64_t begin_ns, int64_t end_ns);
void model_sync(struct model *model, uint32_t call, enum orr_sync_target kind, uint32_t target);

/* Prepares and analyses; the model's events then belong to the analysis. `options` NULL: the
 * defaults. */
struct orr_analysis *model_analyze(struct model *model, const struct orr_analysis_options *options);
/* Frees both, each where it is. */
void model_done(struct model *model, struct orr_analysis **analysis);

/* A copy of a model that is not prepared, with its arrays in another order (a permutation of each
 * but devices, streams and threads) and `shift_ns` added to every time. `state` is a random
 * state. */
void model_copy(struct model *copy, const struct model *from, uint64_t *state, int64_t shift_ns);

#endif
