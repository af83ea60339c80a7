-- A layer of eight small operators, sixteen times: on the teaching device the host needs 5 us for
-- each operator and the device far less, so the device waits for launches. The analyzer must say
-- launch-bound, with a launch period equal to the gap period (5 us). Captured and replayed as one
-- launch it is not.
--
-- devices: sim:teaching
-- test: --timing-only
-- test: captured=true --timing-only
-- test: rows=2 hidden=64 layers=2 repeats=3 checked=false
-- test: rows=2 hidden=64 layers=2 repeats=3 checked=false captured=true

local p = orrery.args{ rows = 8, hidden = 4096, layers = 16, repeats = 4, captured = false,
                       checked = true }

local function weights(...)
    return orrery.randn{ shape = {...}, dtype = "bf16", seed = 7 }
end
local x = weights(p.rows, p.hidden)
local gain = weights(p.hidden)
local w = weights(p.hidden, p.hidden)
local b = weights(p.hidden)
orrery.device(0):sync()

-- eight operators: rmsnorm, matmul, add, gelu, mul, scale, add, rmsnorm
local function layer(x)
    local normed = x:rmsnorm(gain)
    local wide = orrery.gelu(normed:matmul(w) + b)
    local gated = (wide * normed) * 0.5
    return (gated + x):rmsnorm(gain)
end

local function model(x)
    for _ = 1, p.layers do
        x = layer(x)
    end
    return x
end
if p.captured then
    model = orrery.capture(model, { name = "model" })
end

local first, last
for _ = 1, p.repeats do
    first = orrery.now()
    last = model(x)
end
orrery.device(0):sync()
print(string.format("last of %d repeats: %.3f us", p.repeats, (orrery.now() - first) / 1e3))
if not orrery.timing_only then
    local values = last:future():get()
    print(string.format("first value %.4f", values[1]))
    expect.equal(values[1] == values[1], true)
end
if p.checked then
    expect.clean()
    if p.captured then
        expect.analysis("devices[0].launch.bound", "false")
        expect.analysis("devices[0].verdict", "device_bound")
        expect.equal(model:counts().replays, p.repeats - 1)
    else
        expect.phase(0, "launch-bound")
        expect.analysis("devices[0].launch.bound", "true")
        expect.analysis("devices[0].verdict", "launch_bound")
        expect.analysis("devices[0].launch.launch_period_ns", 5000)
        expect.analysis("devices[0].launch.gap_period_ns", 5000)
    end
end
