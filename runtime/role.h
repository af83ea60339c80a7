/* What memory is for: parameters, gradients, optimizer state, activations, workspace,
 * communication.
 *
 * Whoever allocates says so; the accounting of a device's memory (orr_device_memory) and the trace
 * are split by it. Each host has a current role, which every buffer and tensor that it makes takes:
 *
 *     enum orr_role before = orr_runtime_set_role(runtime, 0, ORR_ROLE_PARAMETER);
 *     ... orr_tensor_apply(...) ...
 *     orr_runtime_set_role(runtime, 0, before);
 *
 * A tensor made in a region takes the role of the moment when it was made, although its memory
 * comes later. What a redistribution needs on its way is ORR_ROLE_COMMUNICATION, whatever the
 * host's role; its result has the host's.
 *
 * Later a buffer or tensor may get another role (a gradient, once it is known to be one): its bytes
 * count under the new role from then on. That is a record of its own, so that a reader of the trace
 * comes to the same sums. Roles cost no time.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_ROLE_H
#define ORR_RUNTIME_ROLE_H

#include "runtime/buffer.h"

struct orr_tensor;

/* What memory that `host` allocates from now on is for; returns what it was for until now, to be
 * put back. A host begins with ORR_ROLE_OTHER. */
enum orr_role orr_runtime_set_role(struct orr_runtime *runtime, uint32_t host, enum orr_role role);

/* Of a live buffer. */
enum orr_role orr_buffer_role(const struct orr_buffer *buffer);
/* ORR_INVALID for a buffer that was freed; ORR_BLOCKED as for every call that acts. */
enum orr_status orr_buffer_set_role(struct orr_buffer *buffer, enum orr_role role) ORR_MUST_CHECK;

/* Of all buffers of a tensor, also of the other tensors that share them; of one without memory (in
 * a region) the role that its memory will have. Errors as for buffers. */
enum orr_role orr_tensor_role(const struct orr_tensor *tensor);
enum orr_status orr_tensor_set_role(struct orr_tensor *tensor, enum orr_role role) ORR_MUST_CHECK;

#endif
