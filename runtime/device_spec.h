/* What a device can do: peaks, bandwidth, fixed costs, links. Data for the simulator's cost model
 * and the analyzer's roofline; machines are Lua tables in sim/fake_devices/, each figure with its
 * source.
 *
 * All rates are integers per second and all efficiencies parts per million, so that modelled times
 * are the same on every machine.
 *
 * Threads: plain data, immutable while a backend uses it. */
#ifndef ORR_RUNTIME_DEVICE_SPEC_H
#define ORR_RUNTIME_DEVICE_SPEC_H

#include <stdint.h>

#include "runtime/cost.h"
#include "runtime/dtype.h"

enum { ORR_DEVICE_NAME_MAX = 48, ORR_PPM = 1000000, ORR_CURVE_POINTS_MAX = 8 };

/* A piecewise linear curve in x, constant outside its points; point_count 0 means ORR_PPM
 * everywhere. Points are sorted by x, which is a number of FLOPs or bytes. */
struct orr_curve {
    int32_t point_count;
    uint64_t x[ORR_CURVE_POINTS_MAX];
    uint32_t ppm[ORR_CURVE_POINTS_MAX]; /* 1 .. ORR_PPM */
};

struct orr_device_spec {
    char name[ORR_DEVICE_NAME_MAX]; /* "h100-sxm" */
    char kind[ORR_DEVICE_NAME_MAX]; /* "gpu", "cpu": for people */
    uint64_t memory_bytes;          /* capacity */
    uint64_t bandwidth;             /* byte/s of device memory */
    uint64_t l2_bytes;              /* 0: unknown */
    uint32_t sm_count;              /* multiprocessors; 0: unknown */
    uint32_t copy_engines;          /* copies that run at once, besides kernels */
    uint64_t
        peak[2]
            [ORR_DTYPE_COUNT]; /* FLOP/s by enum orr_unit and dtype; 0: falls back to f32 vector */

    /* Achieved share of a peak: matrix by FLOPs of the kernel, memory by bytes moved. */
    struct orr_curve matrix_efficiency, vector_efficiency, memory_efficiency;

    /* Fixed times, ns. */
    int64_t kernel_fixed_ns;   /* added to the service of every kernel */
    int64_t launch_latency_ns; /* from the end of the host's call to the earliest start */
    int64_t graph_node_ns;     /* added between nodes of a graph launch instead of a launch each */

    /* Host side, ns of the calling thread. */
    int64_t host_operator_ns; /* one logical operator, its kernel's launch included */
    int64_t host_launch_ns; /* one enqueuing call: kernel, copy, fill, collective, host function */
    int64_t host_event_ns;  /* record, wait, query, alloc, free */
    int64_t host_graph_ns;  /* one graph launch */
    int64_t host_sync_ns;   /* return from a wait after the awaited point has retired */
    uint32_t queue_depth;   /* launches a stream holds before a call blocks; 0: 1024 */

    /* Links. Peer: to another device of the node, one direction. Host: to pinned host memory.
     * Machine files must state them; in a spec made by hand 0 is as fast as the device's memory. */
    uint64_t peer_bandwidth, host_bandwidth; /* byte/s */
    int64_t peer_latency_ns, host_latency_ns;
    /* Between nodes, per device, one direction (its NIC). 0: there is no other node. */
    uint64_t network_bandwidth;
    int64_t network_latency_ns;
    uint32_t devices_per_node;  /* 0: all devices of the run are in one node */
    uint32_t collective_sm_ppm; /* share of the multiprocessors that a collective occupies */

    uint32_t
        hosted_by; /* a logical device: 1 + the physical device it is on; 0: it is one itself */
};

/* Peak for a unit and dtype, with the fallbacks: matrix -> vector of that dtype -> vector f32.
 * 0 only if the device has no figure at all. */
uint64_t orr_device_spec_peak(const struct orr_device_spec *spec, enum orr_unit unit,
                              enum orr_dtype dtype);

/* Value of a curve at x, by integer linear interpolation. */
uint32_t orr_curve_at(const struct orr_curve *curve, uint64_t x);

#endif
