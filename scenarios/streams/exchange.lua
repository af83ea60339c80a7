-- Collectives that move different things to different ranks: an all-to-all with pieces of
-- different sizes, a ring of sends, a maximum at one root.
-- devices: sim:teaching*4
-- test:

local ranks = 4
local c = orrery.communicator{ name = "world" }
local streams, give, take, host = {}, {}, {}, {}
for r = 0, ranks - 1 do
    local d = orrery.device(r)
    streams[r + 1] = d:stream("communicate")
    give[r + 1] = streams[r + 1]:alloc(64 * 4, "give")
    take[r + 1] = streams[r + 1]:alloc(64 * 4, "take")
    streams[r + 1]:fill{ to = take[r + 1], value = 0 }
    host[r + 1] = orrery.host_alloc(64 * 4, "host")
    local values = {}
    for i = 1, 64 do values[i] = 100 * r + i end
    host[r + 1]:write(values)
    streams[r + 1]:copy{ to = give[r + 1], from = host[r + 1] }
end

local function read(r, index)
    streams[r + 1]:copy{ to = host[r + 1], from = take[r + 1] }
    streams[r + 1]:sync()
    return host[r + 1]:f32(index)
end

-- Rank s sends s + t elements to rank t: rank 3 gets 3 + 4 + 5 + 6.
local counts = {}
for s = 0, 3 do
    counts[s + 1] = {}
    for t = 0, 3 do counts[s + 1][t + 1] = s + t end
end
c:all_to_all{ input = give, output = take, counts = counts, name = "dispatch" }
expect.equal(read(3, 0), 0 + 1 + 2 + 1)         -- rank 0's fourth piece begins behind 0 + 1 + 2
expect.equal(read(3, 3), 100 + 1 + 2 + 3 + 1)   -- rank 1's behind 1 + 2 + 3

-- A ring: everybody sends to the right, in one group.
local sends = { name = "ring" }
for r = 0, ranks - 1 do
    sends[r + 1] = { source = r, target = (r + 1) % ranks, from = give[r + 1],
                     to = take[(r + 1) % ranks + 1] }
end
c:send(sends)
expect.equal(read(0, 5), 306)
expect.equal(read(1, 5), 6)

c:reduce{ input = give, output = { false, false, take[3], false }, root = 2, reduction = "max" }
expect.equal(read(2, 9), 310)

c:scatter{ input = { give[1], false, false, false }, output = take, root = 0 }
expect.equal(read(3, 0), 49)

expect.clean()
