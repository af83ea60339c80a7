/* The simulator against the conformance suite. */
#include "sim/sim.h"
#include "tests/conformance.h"

int main(void) {
    static const struct conformance_target target = {
        .name = "conformance of sim",
        .open = orr_sim_open,
        .virtual_time = true,
        .spec = {.name = "conformance",
                 .memory_bytes = 1 << 30,
                 .bandwidth = 2000000000000,
                 .copy_engines = 1,
                 .peak = {{[ORR_DTYPE_F32] = 50000000000000}},
                 .host_launch_ns = 4000,
                 .host_event_ns = 500,
                 .host_sync_ns = 2000,
                 .launch_latency_ns = 2000,
                 .peer_bandwidth = 400000000000,
                 .host_bandwidth = 50000000000,
                 .peer_latency_ns = 1500,
                 .host_latency_ns = 1000,
                 .collective_sm_ppm = 100000}};
    return conformance_run(&target);
}
