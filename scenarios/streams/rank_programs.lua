-- Every rank runs a program of its own, on a host with a clock of its own: a ring all-reduce out of
-- sends and receives, then the same as one collective. Even ranks send first, odd ranks receive
-- first; if all of them sent first, each would wait for its neighbour, and the run would say so.
-- devices: sim:teaching*4
-- test:

local spmd = require "spmd"
local world = spmd.world{ name = "world" }
local ranks, bytes = orrery.devices, 64 * 4
local sum, piece, whole, host = {}, {}, {}, {}

-- One step around the ring: what was passed on to me, into `to`.
local function pass(me, from, to)
    local right, left = (me.rank + 1) % ranks, (me.rank - 1) % ranks
    if me.rank % 2 == 0 then
        me:send{ target = right, from = from, name = "ring" }
        me:receive{ source = left, to = to }
    else
        me:receive{ source = left, to = to }
        me:send{ target = right, from = from, name = "ring" }
    end
end

local function program(rank)
    local me, s = world:rank(rank), orrery.device(rank):stream("communicate")
    for step = 1, ranks - 1 do
        pass(me, piece[rank][step % 2], piece[rank][(step + 1) % 2])
    end
    me:all_reduce{ input = sum[rank], output = whole[rank] }
    s:copy{ to = host[rank], from = whole[rank] }
    s:sync()
end

for rank = 0, ranks - 1 do
    local d = orrery.device(rank)
    local s = d:stream("communicate")
    sum[rank], whole[rank] = s:alloc(bytes, "sum"), s:alloc(bytes, "whole")
    piece[rank] = { [0] = s:alloc(bytes, "even"), s:alloc(bytes, "odd") }
    host[rank] = orrery.host_alloc(bytes, "host")
    host[rank]:write(10 ^ rank)
    s:copy{ to = sum[rank], from = host[rank] }
    s:copy{ to = piece[rank][1], from = host[rank] }
    s:fill{ to = piece[rank][0], value = 0 }
    s:sync()
end

orrery.host(program)
orrery.join()

for rank = 0, ranks - 1 do
    local s = orrery.device(rank):stream("communicate")
    expect.equal(host[rank]:f32(0), 1111)
    s:copy{ to = host[rank], from = piece[rank][ranks % 2] }
    s:sync()
    expect.equal(host[rank]:f32(0), 10 ^ ((rank + 1) % ranks)) -- all the way round but one
end
expect.clean()
