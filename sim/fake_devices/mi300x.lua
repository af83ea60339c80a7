-- AMD Instinct MI300X, 192 GB.

local specs = "published spec table: stas00/ml-engineering@744d01e18b79, compute/accelerator"
local links = "stas00/ml-engineering@744d01e18b79, network"
local query = "recorded device query: thamada/nvidia-smi@c4c8a463a61e, gls/MI300X_deviceQuery.py"
local streams = "RRZE-HPC/gpu-benches@1038c5d0d0f4, gpu-stream/mi300x.txt"
local shapes = "best of a shape scan: stas00/ml-engineering@744d01e18b79, compute/accelerator"

return {
    base = "h100-sxm",
    note = "AMD Instinct MI300X, 192 GB HBM3; host and launch figures are the H100's",
    memory_bytes = { 192e9, source = specs },
    bandwidth = { 5.3e12, source = specs },
    l2_bytes = { 33554432, source = query },
    sm_count = { 304, source = query .. ", compute units" },
    copy_engines = { 8, source = query },
    peak = {
        vector = { f32 = { 163.4e12, source = specs } },
        matrix = { f16 = { 1300e12, source = specs }, bf16 = { 1300e12, source = specs } },
    },
    matrix_efficiency = {
        { 1e08, 0.01586 }, { 1e09, 0.1241 }, { 3e09, 0.2511 }, { 1e10, 0.3912 },
        { 3e10, 0.4653 }, { 1e11, 0.4983 }, { 1e12, 0.5124 }, { 1e13, 0.5138 },
        source = shapes .. ", 668 TFLOP/s; + 6 us as the H100",
    },
    memory_efficiency = { { 1e6, 0.79 }, source = streams .. ": read 4.199 of 5.3 TB/s" },
    peer_bandwidth = { 448e9, source = links .. ": to all peers together; 64 GB/s to one" },
    collective_sm_share = { 0.1, source = "estimate; no published figure was found" },
}
