-- A rank dies in the middle of training. The others have called the next collective and would wait
-- for ever; the run ends at once and says which rank is in which call, and who was lost. Without
-- the fault (at=0) it ends well.
--
-- devices: sim:teaching*3
-- test: at=0
-- test: at=0 --runner per-device

local spmd = require "spmd"
local p = orrery.args{ at = 60000, steps = 4 }
if p.at > 0 then
    orrery.perturb{ lose_rank = { rank = 1, at = p.at } }
end

local world = spmd.world{ name = "data" }
orrery.host(function(rank)
    local me, d = world:rank(rank), orrery.device(rank)
    local gradient = d:alloc(4096, "gradient")
    for step = 1, p.steps do
        d:stream("communicate"):kernel{ name = "backward", writes = {gradient}, ns = 20000 }
        me:all_reduce{ input = gradient }
        d:sync()
        if rank == 0 then
            print("step " .. step .. " done")
        end
    end
end)
expect.clean()
