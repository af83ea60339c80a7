-- A rank leaves a collective out: its batch had no gradient, so it saw no reason to reduce one. The
-- others wait for it in a call that it never makes, and it waits for them in the next one.
--
-- fixed=true: every rank takes part in every collective, with zeros if need be.
--
-- devices: sim:teaching*4
-- test: fixed=true --check

local spmd = require "spmd"
local p = orrery.args{ fixed = false }
local world = spmd.world{ name = "data" }
local x = {}
for rank = 0, orrery.devices - 1 do
    x[rank] = orrery.device(rank):alloc(4096, "x")
    orrery.device(rank):stream("communicate"):kernel{ name = "produce", writes = {x[rank]} }
    orrery.device(rank):sync()
end

orrery.host(function(rank)
    local me, has_gradient = world:rank(rank), rank ~= 2
    if has_gradient or p.fixed then
        me:all_reduce{ input = x[rank], name = "reduce gradients" }
    end
    me:broadcast{ input = x[rank], root = 0, name = "parameters" }
    orrery.device(rank):sync()
end)
expect.clean()
