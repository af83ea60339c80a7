-- The same training steps on one device and under a strategy: losses, every gradient and the
-- weights after three steps of AdamW must be equal. In f32 the largest difference may be 1e-5 of a
-- tensor's largest magnitude, since sums are taken in another order.
--
-- AdamW is set as for Llama 2 7B (Touvron et al. 2023, section 2.2: beta2 0.95, eps 1e-5, decay
-- 0.1, peak rate 3e-4), for GPT as for GPT-3 (Brown et al. 2020, table 2.1 and appendix B: the same
-- with eps 1e-8 and rate 0.6e-4). They matter here: where a gradient is nothing but rounding, an
-- eps far below makes a whole step of it.
--
--     orrery run scenarios/training/strategies.lua dp=2 tp=2 pp=2 --devices 'sim:h100*8'
--     orrery run scenarios/training/strategies.lua model=tiny_moe ep=4 --devices 'cpu*4'
--
-- devices: sim:h100*16
-- test: tp=2 pp=2 microbatches=2 steps=2
-- test: model=tiny_moe dp=2 ep=2 steps=2
-- test: model=tiny_gpt pp=2 microbatches=2 schedule=zero_bubble

local configurations = require "configurations"
local parallel = require "parallel"
local texts = require "texts"
local trainer = require "trainer"

local p = orrery.args{ model = "tiny", dp = 1, ep = 1, cp = 1, tp = 1, pp = 1, sequence = true,
                       context = "ring", zero = 0, recompute = "none", schedule = "1f1b",
                       chunks = 1, microbatches = 1, batch = 8, steps = 3, lr = 0.0,
                       clip = 0.0, tolerance = 1e-5, show = false }

local config = configurations.get(p.model)
local is_gpt = config.norm == "layernorm"
local adam = is_gpt and { lr = 0.6e-4, eps = 1e-8 } or { lr = 3e-4, eps = 1e-5 }

local function values_of(tensor)
    local future = tensor:future()
    local values = future:get()
    future:free()
    return type(values) == "table" and values or { values }
end

-- Trains under a plan; returns what there is to compare: names to lists of numbers.
local function train(plan)
    local found, step = {}, 0
    local run = trainer.new{ plan = plan, config = config, batch = p.batch,
                             lr = p.lr > 0 and p.lr or adam.lr, beta2 = 0.95,
                             eps = adam.eps, weight_decay = 0.1,
                             clip = p.clip > 0 and p.clip or nil,
                             on_gradients = function(parameter, gradient)
                                 found[step .. " gradient " .. parameter.name] = values_of(gradient)
                             end }
    for i = 1, p.steps do
        step = i
        local sequences = p.batch // plan.microbatches
        local loss = run:step(function(microbatch)
            return texts.successors(config, microbatch * sequences, sequences)
        end)
        found[step .. " loss"] = { loss }
    end
    run:each_parameter(function(name, tensor)
        found[p.steps .. " weight " .. name] = values_of(tensor)
    end)
    run:free()
    return found
end

-- The bias of keys moves all scores of a query alike, which softmax doesn't see: its gradient is 0
-- but for rounding, and there is nothing to compare.
local function is_compared(name)
    return not name:find("attention.k.bias", 1, true)
end

-- The largest difference as a share of the largest magnitude.
local function difference(got, wanted)
    local worst, largest = 0, 0
    for i, value in ipairs(wanted) do
        worst = math.max(worst, math.abs(got[i] - value))
        if not (got[i] == got[i]) then
            worst = math.huge
        end
        largest = math.max(largest, math.abs(value))
    end
    return largest > 0 and worst / largest or worst
end

-- Dropout draws for each microbatch by itself; without it one large batch must give the same.
local alone = parallel.plan{ microbatches = config.dropout > 0 and p.microbatches or 1 }
local plan = parallel.plan{ dp = p.dp, ep = p.ep, cp = p.cp, tp = p.tp, pp = p.pp,
                            sequence = p.sequence, context = p.context, zero = p.zero,
                            recompute = p.recompute, schedule = p.schedule, chunks = p.chunks,
                            microbatches = p.microbatches }
local wanted = train(alone)
local got = train(plan)

local worst, where, count = 0, "", 0
for name, values in pairs(wanted) do
    expect.equal(got[name] and #got[name], #values)
    local d = is_compared(name) and difference(got[name], values) or 0
    if d > worst then
        worst, where = d, name
    end
    count = count + 1
end
-- How much below the tolerance depends on the processor's order of additions.
local verdict = worst < p.tolerance and string.format("equal within %g", p.tolerance)
    or string.format("differ by %.1e (%s)", worst, where)
print(string.format("%s: loss %.4f -> %.4f; %d tensors %s", plan:text(), got["1 loss"][1],
                    got[p.steps .. " loss"][1], count, verdict))
if p.show then
    print(string.format("largest difference %.1e: %s", worst, where))
end
expect.less(worst, p.tolerance)
if config.dropout == 0 then -- whose masks differ from step to step, and losses with them
    expect.less(got[p.steps .. " loss"][1], got["1 loss"][1])
end
expect.clean()
