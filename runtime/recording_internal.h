/* What operators tell the open recordings of their runtime; nothing to do without one.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_RECORDING_INTERNAL_H
#define ORR_RUNTIME_RECORDING_INTERNAL_H

#include "runtime/recording.h"
#include "runtime/tensor_internal.h"

/* Before an operator acts: copies what the last one made, if the host was blocked then, and
 * `changed` (may be NULL), whose memory the operator takes over. ORR_BLOCKED again; other failures
 * are kept for orr_recording_end. */
enum orr_status orr__recordings_turn(struct orr_runtime *runtime,
                                     struct orr_tensor *changed) ORR_MUST_CHECK;
/* An operator has been applied; `op` NULL: a redistribution. */
void orr__recordings_add(struct orr_runtime *runtime, const struct orr__stage *stage);
/* With the runtime. */
void orr__recordings_detach(struct orr_runtime *runtime);

#endif
