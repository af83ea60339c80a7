-- Trains a decoder under a plan of parallelism: a tiny one with numbers, or one of published size
-- --timing-only, and says how long a step takes, what it costs in memory and in traffic.
--
--     orrery run scenarios/training/llama.lua dp=2 tp=2 pp=2 --devices 'sim:h100*8'
--     orrery run scenarios/training/llama.lua model=405b tp=8 pp=16 dp=8 zero=1 recompute=full \
--         --devices 'sim:dgx-h100*128' --timing-only
--
-- Models are those of the module `configurations`; the plan's arguments are explained in the module
-- `parallel`. Every device has a dispatch host of its own, as every rank of a training job has.
--
-- devices: sim:dgx-h100
-- runner: per-device
-- test: dp=2 tp=2 pp=2 zero=1
-- test: model=tiny_moe dp=2 ep=2 tp=2 microbatches=2
-- test: model=8b tp=8 recompute=full steps=1 --timing-only

local configurations = require "configurations"
local parallel = require "parallel"
local texts = require "texts"
local trainer = require "trainer"

local p = orrery.args{
    model = "tiny", tokens = 0, -- 0: as the model says
    dp = 1, ep = 1, cp = 1, tp = 1, pp = 1, sequence = true, context = "ring", zero = 0,
    recompute = "none", schedule = "1f1b", chunks = 1,
    microbatches = 0, -- 0: as many as the pipeline has ranks
    sequences = 1,    -- of a microbatch on one data rank
    steps = 2, lr = 1e-3,
}

local config = configurations.get(p.model, { tokens = p.tokens ~= 0 and p.tokens or nil })
local plan = parallel.plan{
    dp = p.dp, ep = p.ep, cp = p.cp, tp = p.tp, pp = p.pp, sequence = p.sequence,
    context = p.context, zero = p.zero, recompute = p.recompute, schedule = p.schedule,
    chunks = p.chunks, microbatches = p.microbatches ~= 0 and p.microbatches or p.pp,
}
local batch = p.sequences * plan.dp * plan.ep * plan.microbatches
local devices = plan.stage_size * plan.pp

local run = trainer.new{ plan = plan, config = config, batch = batch, lr = p.lr }

local function sync()
    for device = 0, devices - 1 do
        orrery.device(device):sync()
    end
end

-- 8030261248 as "8.03 billion".
local function counted(number)
    for _, unit in ipairs{ { 1e9, " billion" }, { 1e6, " million" }, { 1e3, " thousand" } } do
        if number >= unit[1] then
            return string.format("%.4g%s", number / unit[1], unit[2])
        end
    end
    return tostring(number)
end

print(string.format("%s: %s parameters on %d devices: %s", p.model,
                    counted(run:parameter_count()), devices, plan:text()))
print(string.format("a step: %d sequences of %d tokens in %d microbatches", batch, config.tokens,
                    plan.microbatches))

sync()
local losses = {}
for step = 1, p.steps do
    local start = orrery.now()
    losses[step] = run:step(function(microbatch)
        return texts.successors(config, microbatch * (batch // plan.microbatches),
                                batch // plan.microbatches)
    end)
    sync()
    local ns = orrery.now() - start
    local flops = run:model_flops()
    print(string.format("step %d: %s%.6g ms, %.6g tokens/s, %.4g TFLOP/s a device", step,
                        losses[step] and string.format("loss %.4f, ", losses[step]) or "",
                        ns / 1e6, batch * config.tokens / ns * 1e9, flops / ns / 1e3 / devices))
end

-- The most that one device of each pipeline rank held at a time, and of each role.
local roles = { "parameter", "gradient", "optimizer", "activation", "workspace", "communication" }

local function print_memory()
    local memory, most = {}, 0
    for rank = 0, plan.pp - 1 do
        memory[rank] = orrery.device(rank * plan.stage_size):memory()
        most = math.max(most, memory[rank].allocated_peak)
    end
    local unit, name = 1e9, "GB"
    if most < 1e9 then
        unit, name = 1e6, "MB"
    end
    print("peak memory of a device, " .. name .. ":")
    print(string.format("  %-10s %8s %8s", "pipeline", "of all", "reserved") ..
          string.format(string.rep(" %13s", #roles), table.unpack(roles)))
    for rank = 0, plan.pp - 1 do
        local m = memory[rank]
        local line = string.format("  rank %-5d %8.4g %8.4g", rank, m.allocated_peak / unit,
                                   m.reserved_peak / unit)
        for _, role in ipairs(roles) do
            line = line .. string.format(" %13.4g", m.roles[role].peak / unit)
        end
        print(line)
    end
end

print_memory()
if losses[1] and p.steps > 1 then
    expect.less(losses[p.steps], losses[1])
end
expect.clean()
