-- Eight devices that compute and communicate at the same time. In every step the compute stream
-- makes a gradient; the communicate stream waits for it and sums it over all devices, while the
-- next step computes.
--
-- The numbers are real: the gradient of device r is r + 1, so every sum over eight devices is 36.
--
-- drop_wait=true leaves out one wait, that of the last device in the second step. The program
-- succeeds all the same, but that all-reduce starts when the other seven are ready, reads a
-- gradient that is not there yet, and every device gets a wrong sum.
--
-- devices: sim:teaching*8
-- test:
-- test: drop_wait=true
-- test: --runner per-device

local ranks = require "ranks"

local p = orrery.args{ steps = 4, elements = 1 << 16, drop_wait = false }

local bytes = 4 * p.elements
local world = ranks.world()
local count = orrery.devices

-- Every rank starts from its own number, in pinned memory.
world:each(function(rank)
    rank.input = orrery.host_alloc(bytes, "input" .. rank.rank)
    rank.output = orrery.host_alloc(bytes, "output" .. rank.rank)
    rank.input:write(rank.rank + 1.0)
end)
for step = 1, p.steps do
    world:alloc("gradient" .. step, bytes)
    world:alloc("sum" .. step, bytes)
end

local begin = orrery.now()
for step = 1, p.steps do
    local gradient, sum = "gradient" .. step, "sum" .. step
    world:each(function(rank)
        rank.compute:kernel{ name = "backward", ns = 200000 }
        rank.compute:copy{ to = rank[gradient], from = rank.input }
        local ready = rank.compute:record()
        local dropped = p.drop_wait and step == 2 and rank.rank == count - 1
        if not dropped then
            rank.communicate:wait(ready)
        end
    end)
    world:all_reduce(gradient, sum)
end
world:sync()
local total = orrery.now() - begin

-- The second sum of every rank, back on the host.
world:each(function(rank)
    rank.copy:copy{ to = rank.output, from = rank["sum" .. math.min(2, p.steps)] }
end)
world:sync()

print(string.format("%d steps on %d devices: %.3f us", p.steps, count, total / 1e3))
if not orrery.timing_only then
    local wanted = count * (count + 1) / 2
    local right = 0
    world:each(function(rank)
        local value = rank.output:f32(p.elements - 1)
        if value == wanted then
            right = right + 1
        end
    end)
    print(string.format("%d of %d devices hold the sum %g", right, count, wanted))
    expect.equal(right == count, not p.drop_wait)
end
if p.drop_wait then
    expect.finding("failed_ops")
else
    expect.clean()
end
