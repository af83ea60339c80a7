-- relu(x @ w + b) in bf16 on the teaching device (2 TB/s, 500 TFLOP/s, 5 us of host time an
-- operator): where the time of a matrix product and of the elementwise work behind it goes, and
-- what fusion saves.
--
--                     GEMM                elementwise traffic      elementwise time
--     eager           274.878 us          134,217,728 B            67.109 us = 24.41 % of the GEMM
--     pointwise       274.878 us           67,108,864 B            33.554 us = 12.21 %
--     epilogue        274.878 us                    0 B             0
--
-- b's 8,192 B are broadcast, stay in cache and are counted apart. With 8 rows instead of 4096 the
-- GEMM is bound by reading w (16.843 us), and the device is done 16.97 us after it began, while the
-- host spent 15 us on the three operators.
--
-- devices: sim:teaching
-- test: --timing-only
-- test: fusion=pointwise --timing-only
-- test: fusion=epilogue --timing-only
-- test: rows=8 --timing-only
-- test: rows=8 columns=512

local p = orrery.args{ rows = 4096, columns = 4096, fusion = "off" }
local n = p.columns

local x = orrery.zeros{ shape = {p.rows, n}, dtype = "bf16" }
local w = orrery.zeros{ shape = {n, n}, dtype = "bf16" }
local b = orrery.zeros{ shape = {n}, dtype = "bf16" }
orrery.device(0):sync()

local function layer(x, w, b)
    return orrery.relu(x:matmul(w) + b)
end
if p.fusion ~= "off" then
    layer = orrery.fuse(layer, { fusion = p.fusion, name = "layer" })
end

local t0 = orrery.now()
local y = layer(x, w, b)
local host = orrery.now() - t0
orrery.device(0):sync()
local total = orrery.now() - t0

print(string.format("host %.3f us, host and device %.3f us", host / 1e3, total / 1e3))

expect.clean()
expect.analysis("roofline[0].flops", 2 * p.rows * n * n)
if n == 4096 and p.rows == 4096 then
    local kernels = { off = 3, pointwise = 2, epilogue = 1 }
    local elementwise_ns = { off = 33554 + 33555, pointwise = 33554 }
    expect.analysis("roofline[0].class", "compute_bound")
    if p.fusion == "epilogue" then
        -- x, w and y once each: nothing is left of the elementwise traffic
        expect.analysis("roofline[0].bytes", 100663296)
        expect.time_ns(total, 5000 + 274878, 0.001)
    else
        expect.analysis("roofline[0].bytes", 100663296)
        expect.analysis("roofline[0].time_ns", 274878)
        expect.time_ns(total, 5000 + 274878 + elementwise_ns[p.fusion])
    end
    if p.fusion == "off" then
        expect.analysis("roofline[1].bytes", 67108864)
        expect.analysis("roofline[2].bytes", 67108864)
        expect.time_ns(host, 15000)
    end
    expect.analysis("exact.kernels", kernels[p.fusion] + 3)
elseif p.rows == 8 and n == 4096 then
    expect.time_ns(host, 15000)
    expect.time_ns(total - 5000, 16974) -- 16.97 us on the device
end
if not orrery.timing_only then
    local value = y:future():get()
    expect.equal(value[1], 0)
end
