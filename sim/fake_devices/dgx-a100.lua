-- A DGX A100: eight A100, one 200 Gb/s adapter each.

local fabric = "NVIDIA DGX A100 data sheet: eight 200 Gb/s adapters"
local nccl = "NCCL's tuner, NVIDIA/nccl@5067397c2676 src/graph/tuning.cc"

return {
    base = "a100-sxm",
    devices = 8,
    note = "A DGX A100: eight A100, one 200 Gb/s adapter each",
    devices_per_node = { 8, source = fabric },
    network_bandwidth = { 25e9, source = fabric },
    network_latency_ns = { 4000, source = nccl .. ": ring LL128 hop over the network" },
}
