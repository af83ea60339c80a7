/* Tensors: operands with memory behind them, made by operators, asynchronously.
 *
 * A tensor is an operand (shape, dtype, mesh, placements) and one blob for each rank of its mesh:
 * the memory of its piece. Applying an operator infers the result, allocates its blobs, enqueues
 * one kernel per device on that device's compute stream, and returns at once. Each operator runs
 * once, in the order of the calls. Where a kernel reads what another stream writes, the wait is put
 * in.
 *
 *     struct orr_tensor *y;
 *     orr_tensor_apply(runtime, orr_operator_find("matmul"), (struct orr_tensor *[]){x, w}, 2,
 *                      &attributes, NULL, &y);
 *     struct orr_future *future;
 *     orr_tensor_future(y, &future);                 // to host, asynchronously
 *     orr_future_get(future, values, sizeof values); // blocks until it is there
 *     orr_future_destroy(&future);
 *     orr_tensor_destroy(&y);
 *
 * Memory: a tensor's blobs are released when it is destroyed and its last consumer has retired. A
 * reshape shares its operand's blobs.
 *
 * Host time: an operator costs spec.host_operator_ns for its first kernel and host_launch_ns for
 * that of every further device (with dispatch hosts: see orr_runner).
 *
 * Inside a region (runtime/region.h) operators only add to the logical graph; its end runs them.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_TENSOR_H
#define ORR_RUNTIME_TENSOR_H

#include "runtime/placement.h"

struct orr_tensor;
struct orr_future;

/* Applies an operator. `inputs` are borrowed for the call. `layout` says where the result of a
 * SOURCE operator goes (NULL: all devices, replicated) and must be NULL for others, whose
 * placements follow from their operands' by the operator's rule. `out_outputs` has op->outputs
 * entries, owned by the caller. ORR_INVALID for shapes, dtypes or placements that don't fit, named;
 * ORR_DEVICE_MEMORY. On failure nothing is left behind. */
enum orr_status orr_tensor_apply(struct orr_runtime *runtime, const struct orr_operator *op,
                                 struct orr_tensor *const *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_layout *layout,
                                 struct orr_tensor **out_outputs) ORR_MUST_CHECK;

/* A tensor with given contents: `values` is the whole tensor, dense, in `info`'s dtype (NULL under
 * timing-only). Pieces are copied to the devices from pinned memory on the copy streams. Partial
 * placements get terms as a redistribution would make them. */
enum orr_status orr_tensor_from_host(struct orr_runtime *runtime,
                                     const struct orr_operand_info *info,
                                     const struct orr_layout *layout, const void *values,
                                     struct orr_tensor **out_tensor) ORR_MUST_CHECK;

/* The same tensor with any other placements, on its mesh or another one, by the cheapest sequence
 * of collectives on the communicate streams, where what arrived is unpacked, too, and other local
 * kernels on the compute streams: runtime/redistribute.h says which, and shows the plan. Shards may
 * be uneven or empty. Partial results are the first rank's values and zeros for a sum, and the
 * values everywhere for the other reductions (so an average of n equal terms is rounded once more).
 * Where every device of another mesh has exactly its piece already, the result shares memory with
 * the tensor; else it goes there in sends. ORR_INVALID for a layout that does not fit. On failure
 * nothing is left behind but commands already enqueued, whose results are dropped. */
enum orr_status orr_tensor_redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                        struct orr_tensor **out_tensor) ORR_MUST_CHECK;

/* Several tensors at once, each to a layout of its own: those of one mesh and dtype whose cheapest
 * steps are of the same kinds along the same axes go through one flat bucket, with one collective a
 * step and one kernel for each rank before and behind it, instead of one for each tensor. They put
 * as many bytes on the wire as one by one, also for uneven shards, which need no padding. Tensors
 * that go to another mesh go one by one. On a tape each is a redistribution of its own, and so is
 * its gradient. `out_tensors` has `count` entries, NULL after a failure. Errors as of
 * orr_tensor_redistribute. */
enum orr_status orr_tensor_redistribute_all(struct orr_tensor *const *tensors,
                                            const struct orr_layout *layouts, uint32_t count,
                                            struct orr_tensor **out_tensors) ORR_MUST_CHECK;

/* Every rank's piece goes to the rank `by` further along an axis of the mesh, in a ring: that of
 * coordinate i to (i + by) mod n. The result lies as the tensor does, which is sharded evenly along
 * the axis (ORR_INVALID else); as a whole it is the tensor rolled by whole shards (within the
 * pieces of an outer axis that cuts the same dimension). One group of sends for each ring, on the
 * communicate streams. With n = 1, or `by` a multiple of n, it is the tensor itself. */
enum orr_status orr_tensor_shift(struct orr_tensor *tensor, int axis, int64_t by,
                                 struct orr_tensor **out_tensor) ORR_MUST_CHECK;

/* Another handle of the same tensor, to be destroyed like any other; returns it. */
struct orr_tensor *orr_tensor_retain(struct orr_tensor *tensor);

/* Destroys and nulls a handle; accepts NULL. The tensor goes with its last one. */
void orr_tensor_destroy(struct orr_tensor **tensor);

/* Drops a tensor's memory, once its last consumer has retired, and keeps all its handles, also
 * those that tapes keep; its reshapes go with it. Any use is ORR_INVALID until it is restored.
 * Memory that other tensors have, too (a redistribution for which nothing had to move), stays
 * theirs; but a redistribution to the same placements is another handle of the same tensor. Twice
 * is once. ORR_INVALID inside a region. */
enum orr_status orr_tensor_evict(struct orr_tensor *tensor) ORR_MUST_CHECK;

/* Gives an evicted tensor, and its reshapes, the memory of `other`, which has the same shape, dtype
 * and layout, and is to have the same values; they share it from now on. Sharded data parallelism:
 * gather before use, evict behind it, gather again and restore before the gradient. */
enum orr_status orr_tensor_restore(struct orr_tensor *tensor,
                                   struct orr_tensor *other) ORR_MUST_CHECK;

/* What it is. Borrowed until destroy. */
const struct orr_operand_info *orr_tensor_info(const struct orr_tensor *tensor);
const struct orr_layout *orr_tensor_layout(const struct orr_tensor *tensor);

#define ORR_TENSOR_ALL_DEVICES UINT32_MAX
/* Bytes of its pieces on a device of the runtime, or on all with ORR_TENSOR_ALL_DEVICES. */
uint64_t orr_tensor_bytes(const struct orr_tensor *tensor, uint32_t device);

/* Buffer of a rank's blob, borrowed; NULL inside a region before its end. */
struct orr_buffer *orr_tensor_buffer(const struct orr_tensor *tensor, uint32_t rank);

/* --- futures --- */

/* Starts copying a tensor to the host: one copy per piece into pinned memory, on copy streams. */
enum orr_status orr_tensor_future(struct orr_tensor *tensor,
                                  struct orr_future **out_future) ORR_MUST_CHECK;

/* ORR_OK when the values are there, ORR_NOT_READY before. */
enum orr_status orr_future_query(struct orr_future *future) ORR_MUST_CHECK;

/* Blocks until the values are there, and reads them for a later get, which then returns at once.
 * Under timing-only it takes the same time, though there are no values. */
enum orr_status orr_future_wait(struct orr_future *future) ORR_MUST_CHECK;

/* Blocks until the values are there and writes the whole tensor, dense, in its dtype: partial terms
 * reduced, shards put together. `bytes` is the size of `values`. ORR_INVALID under timing-only,
 * where there are no values. */
enum orr_status orr_future_get(struct orr_future *future, void *values,
                               size_t bytes) ORR_MUST_CHECK;

/* Destroys and nulls; accepts NULL; does not wait. */
void orr_future_destroy(struct orr_future **future);

#endif
