-- NVIDIA H100 SXM, 80 GB.
--
-- f32 matrix products run on the CUDA cores, as frameworks do unless TF32 is asked for: no matrix
-- peak for f32, so it falls back to the vector one.

local specs = "published spec table: stas00/ml-engineering@744d01e18b79, compute/accelerator"
local links = "stas00/ml-engineering@744d01e18b79, network"
local launches = "RRZE-HPC/gpu-benches@1038c5d0d0f4, gpu-small-kernels/h200.txt"
local fit = "fit of fp16 GEMM timings in microsoft/vidur@7d47513363ec, data/profiling/compute"
local nccl = "NCCL's tuner, NVIDIA/nccl@5067397c2676 src/graph/tuning.cc"
local estimate = "estimate; no published figure was found"
local query = "recorded deviceQuery: thamada/nvidia-smi@c4c8a463a61e, gls/H100SXMx8_deviceQuery.py"
local sheet = "NVIDIA H100 data sheet; not checked against a measurement"

return {
    kind = "gpu",
    note = "NVIDIA H100 SXM, 80 GB HBM3",
    memory_bytes = { 80e9, source = specs },
    bandwidth = { 3.35e12, source = specs },
    l2_bytes = { 52428800, source = query },
    sm_count = { 132, source = query },
    copy_engines = { 3, source = query },
    peak = {
        vector = { f64 = { 34e12, source = sheet }, f32 = { 67e12, source = specs } },
        matrix = {
            f64 = { 67e12, source = sheet },
            f16 = { 989e12, source = specs },
            bf16 = { 989e12, source = specs },
        },
    },

    -- The fit is flops / (0.70 peak) + 6 us, 10 % mean error. Of the 6 us, 1.3 us are charged to
    -- every kernel (kernel_fixed_ns); the other 4.7 us are in the curve.
    matrix_efficiency = {
        { 1e08, 0.02087 }, { 1e09, 0.1646 }, { 3e09, 0.3358 }, { 1e10, 0.5282 },
        { 3e10, 0.6315 }, { 1e11, 0.6779 }, { 1e12, 0.6977 }, { 1e13, 0.6998 },
        source = fit .. ": 0.70 of peak, + 6 us",
    },
    memory_efficiency = { { 1e6, 0.90 }, source = fit .. ": 0.90 of bandwidth" },

    kernel_fixed_ns = { 1300, source = launches .. ": 1.3 us a kernel in a graph" },
    graph_node_ns = { 0, source = "in kernel_fixed_ns: no figure tells it from a kernel's own" },
    launch_latency_ns = { 4000, source = estimate .. "; 20 us under a profiler, Nsight blog" },

    host_operator_ns = { 8000, source = "6.8-9.1 us a kernel by Inductor, tritonbench PR 1017" },
    host_launch_ns = { 2500, source = launches .. ": 2.5 us a kernel in a stream" },
    host_event_ns = { 1000, source = estimate },
    host_graph_ns = { 3500, source = "CPU time of a graph launch, CUDA.jl documentation" },
    host_sync_ns = { 5000, source = estimate },
    queue_depth = { 1024, source = estimate },

    peer_bandwidth = { 376e9, source = links .. ": measured, 450 GB/s by specification" },
    peer_latency_ns = { 1900, source = nccl .. ": ring LL128 hop on NVLink" },
    host_bandwidth = { 63e9, source = links .. ": PCIe 5 x16 by specification" },
    host_latency_ns = { 5000, source = estimate },
    collective_sm_share = { 0.12, source = estimate .. "; 16 channels of 132 multiprocessors" },
}
