-- One training step on eight simulated H100s, data parallel: forward, backward, and the gradients'
-- all-reduce on streams of its own, so that communication hides behind the rest of the backward
-- pass.
--
--     orrery run scenarios/demo/eight_gpus.lua -o run.db
--     orrery analyze run.db
--
-- devices: sim:h100*8
-- test:
-- test: layers=2 hidden=1024 tokens=512 --timing-only

local ranks = require "ranks"

local p = orrery.args{ layers = 4, hidden = 2048, tokens = 2048, steps = 2 }

local weight_bytes = 2 * p.hidden * p.hidden -- bf16
local activation_bytes = 2 * p.tokens * p.hidden
local product_flops = 2 * p.tokens * p.hidden * p.hidden
local checked = 1024 -- elements of the loss that are really summed

local world = ranks.world()

-- Memory: weights, gradients and activations of every layer, on every device.
for layer = 1, p.layers do
    world:alloc("weight" .. layer, weight_bytes)
    world:alloc("gradient" .. layer, weight_bytes)
    world:alloc("activation" .. layer, activation_bytes)
end
world:alloc("input", activation_bytes)
world:alloc("loss", 4 * checked)

world:each(function(rank)
    rank.host = orrery.host_alloc(4 * checked, "host" .. rank.rank)
    rank.host:write(rank.rank + 1.0)
    rank.compute:fill{ to = rank.input }
    for layer = 1, p.layers do
        rank.compute:fill{ to = rank["weight" .. layer] }
    end
end)

local function matmul(rank, name, reads, writes)
    rank.compute:kernel{
        name = name, reads = reads, writes = writes,
        flops = product_flops, dtype = "bf16", unit = "matrix",
    }
end

local function forward(rank)
    local x = rank.input
    for layer = 1, p.layers do
        local y = rank["activation" .. layer]
        matmul(rank, "forward", {x, rank["weight" .. layer]}, {y})
        x = y
    end
end

-- Backward of one layer on every device, and then its all-reduce.
local function backward(layer)
    local gradient = "gradient" .. layer
    world:each(function(rank)
        local x = layer > 1 and rank["activation" .. layer - 1] or rank.input
        matmul(rank, "backward", {x, rank["activation" .. layer]}, {rank[gradient]})
    end)
    world:order("compute", "communicate")
    world:all_reduce(gradient, gradient, "all_reduce gradient")
end

local begin = orrery.now()
for step = 1, p.steps do
    world:each(forward)
    for layer = p.layers, 1, -1 do
        backward(layer)
    end
    world:order("communicate", "compute")
    world:each(function(rank)
        for layer = 1, p.layers do
            rank.compute:kernel{
                name = "update", writes = {rank["weight" .. layer]},
                reads = {rank["weight" .. layer], rank["gradient" .. layer]},
                flops = weight_bytes, dtype = "f32",
            }
        end
    end)
end

-- The loss: one number per device, summed over all of them and read back.
world:each(function(rank)
    rank.compute:copy{ to = rank.loss, from = rank.host }
end)
world:order("compute", "communicate")
world:all_reduce("loss", "loss", "all_reduce loss")
world:each(function(rank)
    rank.communicate:copy{ to = rank.host, from = rank.loss }
end)
world:sync()
local total = orrery.now() - begin

print(string.format("%d steps of %d layers on %d devices: %.3f ms", p.steps, p.layers,
    orrery.devices, total / 1e6))
print(string.format("memory: %.1f MB a device",
    orrery.device(0):memory().allocated_peak / 1e6))
if not orrery.timing_only then
    local wanted = orrery.devices * (orrery.devices + 1) / 2
    print(string.format("sum of the losses: %g", world.ranks[1].host:f32(0)))
    world:each(function(rank)
        expect.equal(rank.host:f32(checked - 1), wanted)
    end)
end
expect.clean()
