-- A machine for examples and tests: round figures that are easy to compute with by hand.
--
-- A kernel takes max(flops / 500 TFLOP/s, bytes / 2 TB/s) and nothing else; an operator or a launch
-- takes the host 5 us; events take 1 ns.

local chosen = "chosen for examples: no real device"

return {
    kind = "gpu",
    note = "round figures for examples and tests: 500 TFLOP/s, 2 TB/s, 5 us a launch",
    memory_bytes = { 16e9, source = chosen },
    bandwidth = { 2e12, source = chosen },
    sm_count = { 100, source = chosen },
    copy_engines = { 2, source = chosen },
    peak = {
        vector = {
            f64 = { 500e12, source = chosen },
            f32 = { 500e12, source = chosen },
            f16 = { 500e12, source = chosen },
            bf16 = { 500e12, source = chosen },
        },
        matrix = {
            f64 = { 500e12, source = chosen },
            f32 = { 500e12, source = chosen },
            f16 = { 500e12, source = chosen },
            bf16 = { 500e12, source = chosen },
        },
    },
    host_operator_ns = { 5000, source = chosen },
    host_launch_ns = { 5000, source = chosen },
    host_event_ns = { 1, source = chosen },
    host_graph_ns = { 5000, source = chosen },
    queue_depth = { 1024, source = chosen },
    peer_bandwidth = { 100e9, source = chosen },
    peer_latency_ns = { 1000, source = chosen },
    host_bandwidth = { 50e9, source = chosen },
    host_latency_ns = { 1000, source = chosen },
    network_bandwidth = { 25e9, source = chosen },
    network_latency_ns = { 5000, source = chosen },
}
