-- Two communicators, and the ranks call them in different orders: rank 0 the tensor-parallel one
-- first, rank 1 the data-parallel one first, as happens when the order comes out of a set. Each
-- waits in its first call for the other one, for ever.
--
-- fixed=true: one order for all ranks.
--
-- devices: sim:teaching*2
-- test: fixed=true --check

local spmd = require "spmd"
local p = orrery.args{ fixed = false }
local worlds = { spmd.world{ name = "tensor" }, spmd.world{ name = "data" } }
local x = {}
for rank = 0, orrery.devices - 1 do
    x[rank] = orrery.device(rank):alloc(4096, "x")
    orrery.device(rank):stream("communicate"):kernel{ name = "produce", writes = {x[rank]} }
    orrery.device(rank):sync()
end

orrery.host(function(rank)
    for i = 1, #worlds do
        local swapped = rank == 1 and not p.fixed
        worlds[swapped and #worlds + 1 - i or i]:rank(rank):all_reduce{ input = x[rank] }
    end
    orrery.device(rank):sync()
end)
expect.clean()
