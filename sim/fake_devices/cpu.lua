-- A CPU device of real threads (--devices cpu). Only its memory and its queue depth matter to the
-- backend, which runs as fast as it runs; the rates give the roofline something to refer to.

local nominal = "nominal figure of a server core with its share of memory; not measured"

return {
    kind = "cpu",
    note = "threads of this machine; rates are nominal",
    memory_bytes = { 8e9, source = "chosen: a limit for the allocator, not the machine's memory" },
    bandwidth = { 20e9, source = nominal },
    copy_engines = { 1, source = "chosen: copies run beside kernels" },
    peak = {
        vector = { f64 = { 25e9, source = nominal }, f32 = { 50e9, source = nominal } },
        matrix = { f64 = { 50e9, source = nominal }, f32 = { 100e9, source = nominal } },
    },
    peer_bandwidth = { 10e9, source = nominal },
    host_bandwidth = { 10e9, source = nominal },
    queue_depth = { 1024, source = "chosen: as many as a stream of a GPU" },
}
