/* The cost model: from a command's cost and a device spec to work.
 *
 * Work is time in ns with 20 fractional bits, alone on the device:
 *
 *     kernel, fill   max(flops / (peak e_f), bytes / (bandwidth e_b)) + fixed        roofline
 *     copy           bytes / link bandwidth + link latency; within a device 2 x bytes / bandwidth
 *     collective     hops x latency + bytes / link bandwidth + fixed     see orr__collective_work
 *     record, wait, marker, alloc, ...   0
 *
 * with e_f, e_b the spec's efficiency curves. Besides it says which share of the multiprocessors
 * and of the bandwidth the command uses while it runs alone: what others on the device can't have.
 *
 * Threads: one; the cache belongs to the simulator. */
#ifndef ORR_SIM_COST_MODEL_H
#define ORR_SIM_COST_MODEL_H

#include "runtime/backend.h"

enum { ORR__WORK_BITS = 20 };
#define ORR__WORK_NS                                                                               \
    ((uint64_t)1 << ORR__WORK_BITS) /* one ns of work; also the share "all of it" */

/* What copies over links and collectives leave of a device's multiprocessors, and of its bandwidth,
 * to the kernels beside them at least. A choice of ours, without a source: it keeps kernels from
 * standing still where links are as fast as memory, and matters only where communication would take
 * more than 15/16. */
#define ORR__LEAST_LEFT (ORR__WORK_NS / 16)

/* Most work of one command, 2^42 ns or 1.2 hours: its account must not overflow 63 bits. */
#define ORR__WORK_MAX ((uint64_t)1 << 62)

struct orr__work {
    uint64_t work;          /* ns << ORR__WORK_BITS, at most ORR__WORK_MAX */
    uint32_t sm, bandwidth; /* shares used alone, ORR__WORK_NS = all */
};

/* Where a copy goes. */
enum orr__route { ORR__ROUTE_LOCAL, ORR__ROUTE_HOST, ORR__ROUTE_PEER, ORR__ROUTE_NETWORK };

/* Work of a kernel or fill. service_ns >= 0 is its duration (at most 2^42 ns, 1.2 hours): its
 * demands are then spread over that time. */
struct orr__work orr__kernel_work(const struct orr_device_spec *spec, enum orr_unit unit,
                                  enum orr_dtype dtype, uint64_t flops, uint64_t bytes,
                                  int64_t service_ns);

struct orr__work orr__copy_work(const struct orr_device_spec *spec, enum orr__route route,
                                uint64_t bytes);

/* Work of a collective from the start of its last member: (hops x latency) + bytes on the busiest
 * link / link bandwidth + fixed, with hops and bytes of orr_collective_traffic
 * (runtime/collective.h has the table and its sources); a tuner like NCCL's replaces it later. The
 * slowest link counts: the network's if the members span nodes. The fixed part is the spec's
 * kernel_fixed_ns, once: each member is one kernel, however many hops it makes. */
struct orr__work orr__collective_work(const struct orr_device_spec *spec,
                                      const struct orr_collective *collective, bool spans_nodes);

#endif
