-- NVIDIA B200 SXM, 180 GB.

local specs = "published spec table: stas00/ml-engineering@744d01e18b79, compute/accelerator"
local links = "stas00/ml-engineering@744d01e18b79, network"
local shapes = "best of a shape scan: stas00/ml-engineering@744d01e18b79, compute/accelerator"

return {
    base = "h100-sxm",
    note = "NVIDIA B200 SXM, 180 GB HBM3e; what is not given here is the H100's",
    memory_bytes = { 180e9, source = specs },
    bandwidth = { 8e12, source = specs },
    l2_bytes = { 126e6, source = specs },
    sm_count = { 148, source = "commonly stated; not checked against a device query" },
    peak = {
        vector = { f32 = { 80e12, source = specs } },
        matrix = { f16 = { 2250e12, source = specs }, bf16 = { 2250e12, source = specs } },
    },
    matrix_efficiency = {
        { 1e08, 0.009342 }, { 1e09, 0.08429 }, { 3e09, 0.2077 }, { 1e10, 0.4261 },
        { 3e10, 0.6091 }, { 1e11, 0.7168 }, { 1e12, 0.7693 }, { 1e13, 0.775 },
        source = shapes .. ", 1745 TFLOP/s; + 6 us as the H100",
    },
    peer_bandwidth = { 680e9, source = links .. ": bus bandwidth of a ring, 900 GB/s specified" },
}
