-- A scalable unit of a DGX SuperPOD: 32 DGX H100 on one rail-optimised fabric.

return {
    base = "dgx-h100",
    devices = 256,
    note = "A scalable unit of a DGX SuperPOD: 32 DGX H100, 256 devices",
}
