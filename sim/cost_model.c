#include "sim/cost_model.h"

#include <assert.h>

#include "runtime/collective.h"

typedef unsigned __int128 wide;

static const uint64_t NS_PER_S = 1000000000;

static uint64_t clamp(wide value) {
    return value > ORR__WORK_MAX ? ORR__WORK_MAX : (uint64_t)value;
}

/* amount / (rate x ppm / 10^6) seconds, as work; half up in the last fractional bit. */
static uint64_t work_of(uint64_t amount, uint64_t rate, uint32_t ppm) {
    if (!amount) {
        return 0;
    }
    assert(rate > 0 && ppm > 0);
    wide per_s = (wide)rate * ppm;
    wide scaled = ((wide)amount * NS_PER_S) << ORR__WORK_BITS;
    if (scaled > ~(wide)0 / ORR_PPM) { /* more than anyone can simulate */
        return ORR__WORK_MAX;
    }
    return clamp((scaled * ORR_PPM + per_s / 2) / per_s);
}

static uint64_t fixed(int64_t ns) {
    return (uint64_t)ns << ORR__WORK_BITS;
}

/* A stated service time; more than can be simulated is cut. */
static uint64_t stated(int64_t ns) {
    int64_t most_ns = ORR__WORK_MAX >> ORR__WORK_BITS;
    return fixed(ns < most_ns ? ns : most_ns);
}

/* part / whole as a share, at most all of it, rounded up so that a command that needs all of a
 * resource says so. */
static uint32_t share(uint64_t part, uint64_t whole) {
    if (!part || !whole) {
        return 0;
    }
    return part >= whole ? (uint32_t)ORR__WORK_NS
                         : (uint32_t)((((wide)part << ORR__WORK_BITS) + whole - 1) / whole);
}

struct orr__work orr__kernel_work(const struct orr_device_spec *spec, enum orr_unit unit,
                                  enum orr_dtype dtype, uint64_t flops, uint64_t bytes,
                                  int64_t service_ns) {
    enum orr_dtype peak_dtype = dtype < ORR_DTYPE_COUNT ? dtype : ORR_DTYPE_F32;
    const struct orr_curve *curve =
        unit == ORR_UNIT_MATRIX ? &spec->matrix_efficiency : &spec->vector_efficiency;
    uint64_t compute =
        work_of(flops, orr_device_spec_peak(spec, unit, peak_dtype), orr_curve_at(curve, flops));
    uint64_t memory =
        work_of(bytes, spec->bandwidth, orr_curve_at(&spec->memory_efficiency, bytes));
    uint64_t longest = compute > memory ? compute : memory;
    uint64_t whole =
        service_ns >= 0 ? stated(service_ns) : clamp((wide)longest + fixed(spec->kernel_fixed_ns));
    return (struct orr__work){
        .work = whole, .sm = share(compute, whole), .bandwidth = share(memory, whole)};
}

struct orr__work orr__copy_work(const struct orr_device_spec *spec, enum orr__route route,
                                uint64_t bytes) {
    uint64_t rate = spec->bandwidth;
    int64_t latency_ns = 0;
    switch (route) {
    case ORR__ROUTE_LOCAL:
        return orr__kernel_work(spec, ORR_UNIT_VECTOR, ORR_DTYPE_NONE, 0, 2 * bytes, -1);
    case ORR__ROUTE_HOST:
        rate = spec->host_bandwidth ? spec->host_bandwidth : spec->bandwidth;
        latency_ns = spec->host_latency_ns;
        break;
    case ORR__ROUTE_PEER:
        rate = spec->peer_bandwidth ? spec->peer_bandwidth : spec->bandwidth;
        latency_ns = spec->peer_latency_ns;
        break;
    case ORR__ROUTE_NETWORK:
        rate = spec->network_bandwidth ? spec->network_bandwidth : spec->bandwidth;
        latency_ns = spec->network_latency_ns;
        break;
    }
    uint64_t transfer = work_of(bytes, rate, ORR_PPM);
    /* The copy engine reads or writes this device's memory at the link's pace. */
    uint64_t memory = work_of(bytes, spec->bandwidth, ORR_PPM);
    uint64_t whole = clamp((wide)transfer + fixed(latency_ns));
    return (struct orr__work){.work = whole, .bandwidth = share(memory, whole)};
}

struct orr__work orr__collective_work(const struct orr_device_spec *spec,
                                      const struct orr_collective *collective, bool spans_nodes) {
    struct orr_traffic traffic = orr_collective_traffic(collective);
    wide bytes = traffic.bytes;
    uint64_t link = spans_nodes ? spec->network_bandwidth : spec->peer_bandwidth;
    int64_t hop_ns = spans_nodes ? spec->network_latency_ns : spec->peer_latency_ns;
    uint64_t transfer = work_of(clamp(bytes), link ? link : spec->bandwidth, ORR_PPM);
    uint64_t memory = work_of(clamp(2 * bytes), spec->bandwidth, ORR_PPM);
    wide latency = (wide)fixed(hop_ns) * traffic.hops;
    uint64_t whole = clamp(latency + transfer + fixed(spec->kernel_fixed_ns));
    return (struct orr__work){
        .work = whole,
        .sm = (uint32_t)(((uint64_t)spec->collective_sm_ppm << ORR__WORK_BITS) / ORR_PPM),
        .bandwidth = share(memory, whole),
    };
}
