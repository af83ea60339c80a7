-- One Llama-3-8B decoder layer: prefill of a prompt, or decoding one token with a key-value cache;
-- eager or captured. At real dimensions run it --timing-only; at reduced size the numbers are
-- compared with the same layer in float64.
--
--     orrery run scenarios/models/llama_layer.lua mode=decode captured=true --timing-only
--     orrery run scenarios/models/llama_layer.lua mode=prefill tokens=8192 --timing-only
--
-- devices: sim:h100
-- test: mode=prefill --timing-only
-- test: mode=prefill captured=true --timing-only
-- test: mode=decode --timing-only
-- test: mode=decode captured=true --timing-only
-- test: mode=prefill tokens=24 hidden=128 ffn=384 heads=4 kv_heads=2 dtype=f32 compare=true
-- test: mode=decode tokens=24 hidden=128 ffn=384 heads=4 kv_heads=2 dtype=f32 compare=true
-- test: mode=decode tokens=24 hidden=128 ffn=384 heads=4 kv_heads=2 compare=true captured=true

local llama = require "llama"

local p = orrery.args{ mode = "prefill", tokens = 8192, batch = 1, hidden = 4096, ffn = 14336,
                       heads = 32, kv_heads = 8, dtype = "bf16", captured = false, steps = 20,
                       compare = false }

local head = p.hidden // p.heads
local decode = p.mode == "decode"

-- The layer and its operands in a dtype; random numbers belong to seeds, so two dtypes draw the
-- same.
local function build(dtype)
    local self = { dtype = dtype }
    self.layer = llama.layer{ hidden = p.hidden, ffn = p.ffn, heads = p.heads,
                              kv_heads = p.kv_heads, dtype = dtype }
    local rows = decode and p.batch or p.batch * p.tokens
    self.x = orrery.randn{ shape = {rows, p.hidden}, dtype = dtype, seed = 50 }
    if decode then
        local shape = {p.batch, p.kv_heads, p.tokens, head}
        self.k = orrery.randn{ shape = shape, dtype = dtype, seed = 51 }
        self.v = orrery.randn{ shape = shape, dtype = dtype, seed = 52 }
    end
    return self
end

local function forward(self)
    local function run(x)
        local call = { batch = p.batch, tokens = decode and 1 or p.tokens }
        if decode then
            call.cache = { k = self.k, v = self.v }
        end
        return self.layer:forward(x, call)
    end
    return run
end

local self = build(p.dtype)
local run = forward(self)
if p.captured then
    run = orrery.capture(run, { name = "layer", fusion = "pointwise" })
end
orrery.device(0):sync()

local y, t0
local steps = decode and p.steps or 1
run(self.x):free()
orrery.device(0):sync()
t0 = orrery.now()
for _ = 1, steps do
    if y then
        y:free()
    end
    y = orrery.scope(run, self.x)
end
orrery.device(0):sync()
local step = (orrery.now() - t0) / steps
print(string.format("%s, %s: %.3f us a step", p.mode, p.captured and "captured" or "eager",
                    step / 1e3))

expect.clean()
if p.compare and not orrery.timing_only then
    local reference = build("f64")
    local got, wanted = y:future():get(), forward(reference)(reference.x):future():get()
    local worst = 0
    for i = 1, #wanted do
        worst = math.max(worst, math.abs(got[i] - wanted[i]))
    end
    print(string.format("largest difference from float64: %.3g", worst))
    expect.less(worst, p.dtype == "f32" and 2e-5 or 0.15)
elseif orrery.timing_only and p.hidden == 4096 then
    -- 436 MB of weights a token: reading them takes longer than launching the kernels, so a graph
    -- gives a dense model of this size only the gaps back
    expect.phase(0, decode and "memory-bound" or "compute-bound")
    expect.analysis("devices[0].launch.bound", "false")
end
