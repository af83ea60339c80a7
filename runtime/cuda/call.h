/* Attributes of an operator's call by name, for launchers: runtime/operators/ keeps their places to
 * itself.
 *
 *     bool causal = orr__call_integer(call, "causal") != 0;
 *
 * The operator must have the attribute. Threads: pure functions. */
#ifndef ORR_RUNTIME_CUDA_CALL_H
#define ORR_RUNTIME_CUDA_CALL_H

#include "runtime/task.h"

/* Integers, booleans and dtypes. */
int64_t orr__call_integer(const struct orr_task_operator *call, const char *attribute);
double orr__call_real(const struct orr_task_operator *call, const char *attribute);
/* Borrowed from the call. */
const struct orr_shape *orr__call_shape(const struct orr_task_operator *call,
                                        const char *attribute);

#endif
