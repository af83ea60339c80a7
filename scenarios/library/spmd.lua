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
-- the receiver's host and a collective by rank 0's, and all of them go on.
--
-- Calls are numbered, for each world and rank. The first rank that makes call n of a world says
-- what it is; another one whose call n is something else ends the run before anybody waits for it,
-- with a finding `collective-mismatch` that names both calls and their lines. Where ranks wait for
-- each other in a circle (two that both send first, or make the calls of two worlds in opposite
-- orders), or for a call that never comes, the run ends and says which rank is in which call, at
-- which line.

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
                                gates = {}, pairs = {}, made = {}, open = {} }, World)
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
        self.made[i - 1] = 0
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
    world.pairs[key] = world.pairs[key] or { offers = orrery.mailbox(), done = orrery.mailbox(),
                                             sent = 0, received = 0 }
    return world.pairs[key]
end

-- `about`: which call, whoever comes first; the same finding in every order in which ranks make it.
local function mismatch(about, message, fix)
    orrery.stop{ kind = "collective-mismatch", message = "spmd: " .. message, fix = fix,
                 about = about }
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
    between.sent = between.sent + 1
    between.offers:put({ call = call, number = between.sent, site = orrery.site() })
    between.done:take(string.format("send to rank %d of '%s' (number %d)", call.target, world.name,
                                    between.sent))
end

-- source, to; dtype (the sender's, if both say one), stream
function Rank:receive(call)
    check("receive", call, { source = true, to = true, dtype = true, stream = true })
    local world = self.world
    local between = pair(world, call.source, self.rank, "receive")
    between.received = between.received + 1
    local sent = between.offers:take(string.format("receive from rank %d of '%s' (number %d)",
                                                   call.source, world.name, between.received))
    local offer = sent.call
    if call.dtype and call.dtype ~= (offer.dtype or "f32") then
        mismatch(string.format("message %d from rank %d to rank %d of '%s'", sent.number,
                               call.source, self.rank, world.name), string.format(
            "rank %d of '%s' receives %s, but rank %d sends %s: message number %d, sent at %s",
            self.rank, world.name, call.dtype, call.source, offer.dtype or "f32", sent.number,
            sent.site),
            "let both say the same dtype, or the receiver none")
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

-- "all_reduce (count 10, dtype bf16) at case.lua:9"
local function describe(made)
    local parts = {}
    for _, key in ipairs(COMMON) do
        if made.call[key] ~= nil and key ~= "name" and key ~= "counts" then
            parts[#parts + 1] = key .. " " .. tostring(made.call[key])
        end
    end
    local fields = #parts > 0 and " (" .. table.concat(parts, ", ") .. ")" or ""
    return made.kind .. fields .. " at " .. made.site
end

local function same_counts(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then
        return a == b
    end
    for i = 1, math.max(#a, #b) do
        if not same_counts(a[i], b[i]) then
            return false
        end
    end
    return true
end

-- Kinds whose ranks all read as much; where no count is given, that of the input counts.
local READS_ALIKE = { all_reduce = true, all_gather = true, reduce_scatter = true,
                      all_to_all = true }

local function input_bytes(made)
    local call = made.call
    if READS_ALIKE[made.kind] and not call.count and not call.counts and
        type(call.input) == "userdata" then
        return call.input:bytes()
    end
end

-- What is different about two calls that are one by their number, or nil.
local function difference(world, mine, other)
    if other.kind ~= mine.kind then
        return string.format("rank %d of '%s' is in %s, but rank %d in %s", mine.rank, world.name,
                             mine.kind, other.rank, other.kind)
    end
    for _, key in ipairs(COMMON) do
        local same = other.call[key] == mine.call[key]
        if key == "counts" then
            same = same_counts(other.call[key], mine.call[key])
        end
        if key ~= "name" and not same then
            local function value(made)
                return key == "counts" and made.call[key] and "another list" or
                    tostring(made.call[key])
            end
            return string.format("%s of '%s': %s is %s for rank %d, but %s for rank %d", mine.kind,
                                 world.name, key, value(mine), mine.rank, value(other),
                                 other.rank)
        end
    end
    local a, b = input_bytes(mine), input_bytes(other)
    if a and b and a ~= b then
        return string.format("%s of '%s': the input has %d bytes for rank %d, but %d for rank %d",
                             mine.kind, world.name, a, mine.rank, b, other.rank)
    end
end

-- Counts a rank's call; it must be what the first rank has said that call of this number is.
local function arrive(world, rank, kind, call)
    local number = world.made[rank] + 1
    local mine = { rank = rank, kind = kind, call = call, site = orrery.site(), ranks = 1 }
    world.made[rank] = number
    local first = world.open[number]
    if not first then
        world.open[number] = mine
        return number
    end
    local low, high = first, mine
    if mine.rank < first.rank then
        low, high = mine, first
    end
    local what = difference(world, low, high)
    if what then
        mismatch(string.format("call %d of '%s'", number, world.name),
                 string.format("%s; call number %d of '%s': rank %d %s, rank %d %s", what, number,
                               world.name, low.rank, describe(low), high.rank, describe(high)),
                 string.format("make the calls of '%s' in one order on all ranks, with the same " ..
                               "kinds and sizes", world.name))
    end
    first.ranks = first.ranks + 1
    if first.ranks == world.size then
        world.open[number] = nil
    end
    return number
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
        local number = arrive(world, self.rank, kind, call)
        if self.rank > 0 then
            world.arrivals[self.rank]:put(call)
            world.gates[self.rank]:take(string.format("%s of '%s' (call number %d)", kind,
                                                      world.name, number))
            return
        end
        local calls = { [0] = call }
        for rank = 1, world.size - 1 do
            calls[rank] = world.arrivals[rank]:take(
                string.format("%s of '%s', for rank %d (call number %d)", kind, world.name, rank,
                              number))
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
