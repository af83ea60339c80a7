-- A DGX H100: eight H100, one 400 Gb/s adapter each.

local fabric = "NVIDIA DGX H100 data sheet: eight 400 Gb/s adapters"
local nccl = "NCCL's tuner, NVIDIA/nccl@5067397c2676 src/graph/tuning.cc"

return {
    base = "h100-sxm",
    devices = 8,
    note = "A DGX H100: eight H100, one 400 Gb/s adapter each",
    devices_per_node = { 8, source = fabric },
    network_bandwidth = { 50e9, source = fabric },
    network_latency_ns = { 4000, source = nccl .. ": ring LL128 hop over the network" },
}
