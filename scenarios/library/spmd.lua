-- Rank programs: each host makes the calls of its own rank only, as a process does under MPI or
-- torchrun.
--
--     local spmd = require "spmd"
--     local world = spmd.world{ name = "world" }            -- before the hosts; devices = {...}
--     orrery.host(function(rank)
--         local me = world:rank(rank)
--         me:all_reduce{ input = grad[rank] }
--         if rank == 0 then
--             me:send{ target = 1, from = a }
--         elseif rank == 1 then
--             me:receive{ source = 0, to = b }
--         end
--     end)
--
-- A call waits until all ranks that it concerns have made theirs; then it is enqueued, a receive by
-- the receiver's host and a collective by rank 0's, and all of them go on. Where ranks wait for
-- each other in a circle (two that both send first, or make the calls of two worlds in opposite
-- orders) the run ends and says which rank is in which call, at which line.

local spmd = {}

local World, Rank = {}, {}
World.__index, Rank.__index = World, Rank

local function fail(...)
    error("spmd: " .. string.format(...), 3)
end

local function check(what, call, allowed)
    for key in pairs(call) do
        if not allowed[key] then
            error(string.format("spmd: %s: unknown field '%s'", what, tostring(key)), 4)
        end
    end
end

-- devices (all unless given), name
function spmd.world(options)
    options = options or {}
    local self = setmetatable({ name = options.name or "world", streams = {}, arrivals = {},
                                gates = {}, pairs = {} }, World)
    local devices = options.devices
    if not devices then
        devices = {}
        for i = 0, orrery.devices - 1 do
            devices[i + 1] = i
        end
    end
    self.communicator = orrery.communicator{ devices = devices, name = self.name }
    self.size = #devices
    for i, device in ipairs(devices) do
        device = type(device) == "number" and orrery.device(device) or device
        self.streams[i] = device:stream("communicate")
        self.arrivals[i - 1], self.gates[i - 1] = orrery.mailbox(), orrery.mailbox()
    end
    return self
end

-- What host `rank` makes its calls with.
function World:rank(rank)
    if math.type(rank) ~= "integer" or rank < 0 or rank >= self.size then
        error(string.format("spmd: '%s' has ranks 0 to %d, not %s", self.name, self.size - 1,
                            tostring(rank)), 2)
    end
    return setmetatable({ world = self, rank = rank }, Rank)
end

local function pair(world, source, target, what)
    if math.type(target) ~= "integer" or math.type(source) ~= "integer" or source < 0 or
        target < 0 or source >= world.size or target >= world.size then
        error(string.format("spmd: %s: '%s' has ranks 0 to %d", what, world.name, world.size - 1),
              3)
    end
    local key = source * world.size + target
    world.pairs[key] = world.pairs[key] or { offers = orrery.mailbox(), done = orrery.mailbox() }
    return world.pairs[key]
end

-- target, from; count, dtype, name, stream
function Rank:send(call)
    check("send", call, { target = true, from = true, count = true, dtype = true, name = true,
                          stream = true })
    local world = self.world
    if call.target == self.rank then
        fail("rank %d of '%s' sends to itself: nobody would be there to receive", self.rank,
             world.name)
    end
    local between = pair(world, self.rank, call.target, "send")
    between.offers:put(call)
    between.done:take(string.format("send to rank %d of '%s'", call.target, world.name))
end

-- source, to; dtype (the sender's, if both say one), stream
function Rank:receive(call)
    check("receive", call, { source = true, to = true, dtype = true, stream = true })
    local world = self.world
    local between = pair(world, call.source, self.rank, "receive")
    local offer = between.offers:take(
        string.format("receive from rank %d of '%s'", call.source, world.name))
    if call.dtype and call.dtype ~= (offer.dtype or "f32") then
        fail("rank %d of '%s' receives %s, but rank %d sends %s", self.rank, world.name,
             call.dtype, call.source, offer.dtype or "f32")
    end
    local streams = table.move(world.streams, 1, world.size, 1, {})
    streams[call.source + 1] = offer.stream or streams[call.source + 1]
    streams[self.rank + 1] = call.stream or streams[self.rank + 1]
    world.communicator:send{ source = call.source, target = self.rank, from = offer.from,
                             to = call.to, count = offer.count, dtype = offer.dtype,
                             name = offer.name, streams = streams }
    between.done:put(true)
end

-- Fields that all ranks must say alike, and that the communicator's call takes from rank 0.
local COMMON = { "count", "counts", "dtype", "reduction", "root", "name" }
local FIELDS = { input = true, output = true, stream = true }
for _, key in ipairs(COMMON) do
    FIELDS[key] = true
end

local function check_alike(world, kind, mine, rank, other)
    if other.kind ~= kind then
        error(string.format("spmd: rank 0 of '%s' is in %s, but rank %d in %s", world.name, kind,
                            rank, other.kind), 4)
    end
    for _, key in ipairs(COMMON) do
        if key ~= "counts" and key ~= "name" and other.call[key] ~= mine[key] then
            error(string.format("spmd: %s of '%s': %s is %s for rank 0, but %s for rank %d", kind,
                                world.name, key, tostring(mine[key]), tostring(other.call[key]),
                                rank), 4)
        end
    end
end

local function enqueue(world, kind, calls)
    local asked = { streams = {}, input = {}, output = {} }
    for _, key in ipairs(COMMON) do
        asked[key] = calls[0][key]
    end
    local outputs = 0
    for rank = 0, world.size - 1 do
        local call = calls[rank]
        asked.streams[rank + 1] = call.stream or world.streams[rank + 1]
        asked.input[rank + 1] = call.input or false
        asked.output[rank + 1] = call.output or false
        outputs = outputs + (call.output ~= nil and 1 or 0)
    end
    if kind == "barrier" then
        asked.input = nil
    end
    if outputs == 0 then
        asked.output = nil
    end
    world.communicator[kind](world.communicator, asked)
end

-- Rank 0 enqueues when it has heard of all the others, and tells them.
local function collective(kind)
    return function(self, call)
        local world = self.world
        call = call or {}
        check(kind, call, FIELDS)
        if self.rank > 0 then
            world.arrivals[self.rank]:put{ kind = kind, call = call }
            world.gates[self.rank]:take(string.format("%s of '%s'", kind, world.name))
            return
        end
        local calls = { [0] = call }
        for rank = 1, world.size - 1 do
            local other = world.arrivals[rank]:take(
                string.format("%s of '%s', for rank %d", kind, world.name, rank))
            check_alike(world, kind, call, rank, other)
            calls[rank] = other.call
        end
        enqueue(world, kind, calls)
        for rank = 1, world.size - 1 do
            world.gates[rank]:put(true)
        end
    end
end

-- input, output (input unless given), stream, and what the communicator's call of the name takes;
-- a rank that `root` leaves out gives no input or no output.
for _, kind in ipairs{ "all_reduce", "reduce", "all_gather", "gather", "reduce_scatter", "scatter",
                       "broadcast", "all_to_all", "barrier" } do
    Rank[kind] = collective(kind)
end

return spmd
