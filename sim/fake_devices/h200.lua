-- NVIDIA H200 SXM, 141 GB: an H100 with faster and larger memory.

local specs = "published spec table: stas00/ml-engineering@744d01e18b79, compute/accelerator"
local links = "stas00/ml-engineering@744d01e18b79, network"
local streams = "read bandwidth: RRZE-HPC/gpu-benches@1038c5d0d0f4, gpu-l2-cache/h200.txt"

return {
    base = "h100-sxm",
    note = "NVIDIA H200 SXM, 141 GB HBM3e; what is not given here is the H100's",
    memory_bytes = { 141e9, source = specs },
    bandwidth = { 4.8e12, source = specs },
    memory_efficiency = { { 1e6, 0.81 }, source = streams .. ", 3.888 of 4.8 TB/s" },
    peer_bandwidth = { 396e9, source = links .. ": measured one way, 450 GB/s by specification" },
}
