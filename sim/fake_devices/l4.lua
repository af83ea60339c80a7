-- NVIDIA L4, 24 GB, PCIe.

local query = "recorded deviceQuery: thamada/nvidia-smi@c4c8a463a61e, gls/L4_deviceQuery.py"
local config = "device configuration of sitar-lab/NeuSight@6945927d9afc"
local links = "stas00/ml-engineering@744d01e18b79, network"
local elements = "large elementwise kernels, sitar-lab/NeuSight@6945927d9afc test/elem.csv"
local sheet = "NVIDIA L4 data sheet, without sparsity; not checked against a measurement"

return {
    base = "h100-sxm",
    note = "NVIDIA L4, 24 GB GDDR6; no NVLink; host and launch figures are the H100's",
    memory_bytes = { 24e9, source = config },
    bandwidth = { 300e9, source = query .. ", from memory clock and bus" },
    l2_bytes = { 50331648, source = query },
    sm_count = { 58, source = query },
    copy_engines = { 2, source = query },
    peak = {
        vector = { f32 = { 30.3e12, source = sheet } },
        matrix = { f16 = { 121e12, source = sheet }, bf16 = { 121e12, source = sheet } },
    },
    matrix_efficiency = {
        { 1e08, 0.1405 }, { 1e09, 0.5007 }, { 3e09, 0.618 }, { 1e10, 0.6732 },
        { 3e10, 0.6908 }, { 1e11, 0.6972 }, { 1e12, 0.6997 }, { 1e13, 0.7 },
        source = "as the A100's curve; no fp16 rows of an L4 were found",
    },
    memory_efficiency = { { 1e6, 0.78 }, source = elements },
    peer_bandwidth = { 31e9, source = links .. ": PCIe 4 x16 by specification" },
    peer_latency_ns = { 2500, source = "NCCL's tuner @5067397c2676: ring LL128 hop on PCIe" },
    host_bandwidth = { 31e9, source = links .. ": PCIe 4 x16 by specification" },
}
