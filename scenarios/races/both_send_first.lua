-- Two ranks exchange activations, and both send first. A send ends when its receive is there:
-- neither gets as far as its receive.
--
-- fixed=true: one of them receives first.
--
-- devices: sim:teaching*2
-- test: fixed=true --check

local spmd = require "spmd"
local p = orrery.args{ fixed = false }
local world = spmd.world{ name = "pipeline", devices = {0, 1} }
local mine, theirs = {}, {}
for rank = 0, 1 do
    local d = orrery.device(rank)
    mine[rank], theirs[rank] = d:alloc(4096, "mine"), d:alloc(4096, "theirs")
    d:stream("communicate"):kernel{ name = "produce", writes = {mine[rank]} }
    d:sync()
end

orrery.host(function(rank)
    local me, other = world:rank(rank), 1 - rank
    local function send()
        me:send{ target = other, from = mine[rank] }
    end
    local function receive()
        me:receive{ source = other, to = theirs[rank] }
    end
    if p.fixed and rank == 1 then
        receive()
        send()
    else
        send()
        receive()
    end
    orrery.device(rank):sync()
end, 2)
expect.clean()
