/* Regions: operators collected into a logical graph and run together, fused, or captured and
 * replayed.
 *
 * A compiled function is a piece of a program that calls operators on tensors. The first call with
 * operands of some shapes, dtypes and placements traces it: its operators go into a logical graph
 * instead of running; then the graph is fused as asked, and run, or captured into a recorded
 * program (runtime/program.h) and launched. Later calls with the same guards replay the program
 * with one launch. A call whose guards differ captures again and is counted.
 *
 *     orr_compiled_create(runtime, "layer", ORR_FUSION_EPILOGUE, true, &layer);
 *     orr_compiled_call(layer, &x, 1, trace_layer, context, outputs, 1, &count);   // captures
 *     orr_compiled_call(layer, &x2, 1, trace_layer, context, outputs, 1, &count);  // replays
 *
 * Tensors made inside live in the program: a replay overwrites its results, as with CUDA graphs,
 * and an operand that is another tensor than the captured one is copied over it first. What is made
 * inside and not returned is never visible outside (using it later is ORR_INVALID).
 *
 * A host read inside breaks the region in two: what came before is launched, the read happens, and
 * the rest becomes a region of its own. It is reported as finding "graph-break" with its site; such
 * a function is traced again by every call, because its host code must run. A redistribute breaks
 * it in the same way: its collectives are not part of a captured region.
 *
 * Several hosts: a call takes its host's turn once, at the beginning, and acts as one. A replay
 * that is blocked by a full queue answers ORR_BLOCKED and goes on there when it is repeated;
 * another host that calls the function meanwhile gets ORR_INVALID. Tracing can't be repeated:
 * where it would have to let another host run (a full queue, memory that is to be freed, a host
 * read inside) it is ORR_UNSUPPORTED.
 *
 * Fusion changes times, never numbers. Tracing itself costs the modelled host nothing.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_REGION_H
#define ORR_RUNTIME_REGION_H

#include "runtime/operators/fused.h"
#include "runtime/program.h"
#include "runtime/tensor.h"

enum { ORR_REGION_OPERANDS_MAX = 64 };

struct orr_compiled;

/* Calls operators on `inputs` and hands over the results: at most `output_max` tensors, owned by
 * the caller. Other tensors it made it destroys, or keeps handles of that are dead afterwards. */
typedef enum orr_status (*orr_traced)(void *context, struct orr_tensor *const *inputs,
                                      int input_count, struct orr_tensor **outputs, int output_max,
                                      int *out_output_count);

/* `capture` false: every call traces and runs the fused kernels eagerly. `name` is copied. */
enum orr_status orr_compiled_create(struct orr_runtime *runtime, const char *name,
                                    enum orr_fusion_mode fusion, bool capture,
                                    struct orr_compiled **out_compiled) ORR_MUST_CHECK;

/* Nulls; accepts NULL. Results handed out stay valid. */
void orr_compiled_destroy(struct orr_compiled **compiled);

/* Calls it; see above. `outputs` has room for `output_max` tensors, owned by the caller. Errors are
 * those of the operators; regions don't nest (ORR_INVALID). */
enum orr_status orr_compiled_call(struct orr_compiled *compiled, struct orr_tensor *const *inputs,
                                  int input_count, orr_traced traced, void *context,
                                  struct orr_tensor **outputs, int output_max,
                                  int *out_output_count) ORR_MUST_CHECK;

struct orr_compiled_counts {
    uint64_t captures;   /* traced and recorded */
    uint64_t replays;    /* launched again */
    uint64_t mismatches; /* captured again because a guard differed */
    uint64_t breaks;     /* host reads and redistributes inside */
};
struct orr_compiled_counts orr_compiled_counts(const struct orr_compiled *compiled);

#endif
