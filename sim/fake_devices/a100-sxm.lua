-- NVIDIA A100 SXM, 80 GB.

local specs = "published spec table: stas00/ml-engineering@744d01e18b79, compute/accelerator"
local links = "stas00/ml-engineering@744d01e18b79, network"
local query = "recorded deviceQuery: thamada/nvidia-smi@c4c8a463a61e, gls/A100SXMx4_deviceQuery.py"
local fit = "fit of fp16 GEMM timings in microsoft/vidur@7d47513363ec, data/profiling/compute"
local sheet = "NVIDIA A100 data sheet; not checked against a measurement"

return {
    base = "h100-sxm",
    note = "NVIDIA A100 SXM, 80 GB HBM2e; host and launch figures are the H100's",
    memory_bytes = { 80e9, source = specs },
    bandwidth = { 2.039e12, source = query .. ", from memory clock and bus" },
    l2_bytes = { 41943040, source = query },
    sm_count = { 108, source = query },
    copy_engines = { 3, source = query },
    peak = {
        vector = { f64 = { 9.7e12, source = sheet }, f32 = { 19.5e12, source = specs } },
        matrix = {
            f64 = { 19.5e12, source = sheet },
            f16 = { 312e12, source = specs },
            bf16 = { 312e12, source = specs },
        },
    },
    matrix_efficiency = {
        { 1e08, 0.06214 }, { 1e09, 0.3454 }, { 3e09, 0.5215 }, { 1e10, 0.6348 },
        { 3e10, 0.6768 }, { 1e11, 0.6929 }, { 1e12, 0.6993 }, { 1e13, 0.6999 },
        source = fit .. ": 0.70 of peak, + 6 us, 8 % mean error",
    },
    memory_efficiency = { { 1e6, 0.80 }, source = fit .. ": 0.80 of bandwidth" },
    peer_bandwidth = { 274.55e9, source = links .. ": measured, 300 GB/s by specification" },
    host_bandwidth = { 31e9, source = links .. ": PCIe 4 x16 by specification" },
}
