-- One object per device: its streams and its buffers. For scenarios in which every device does the
-- same.
--
--     local ranks = require "ranks"
--     local world = ranks.world()
--     world:alloc("grad", 1 << 20)                     -- rank.grad on each
--     world:each(function(rank) rank.compute:kernel{ name = "backward", writes = {rank.grad} } end)
--     world:order("compute", "communicate")            -- an event and a wait on each
--     world:all_reduce("grad", "grad")

local World = {}
World.__index = World

-- A world of all devices of the run, or of the devices in a list.
local function world(devices)
    local self = setmetatable({ ranks = {} }, World)
    devices = devices or {}
    if #devices == 0 then
        for i = 0, orrery.devices - 1 do
            devices[#devices + 1] = i
        end
    end
    for rank, index in ipairs(devices) do
        local device = orrery.device(index)
        self.ranks[rank] = {
            rank = rank - 1,
            device = device,
            compute = device:stream("compute"),
            communicate = device:stream("communicate"),
            copy = device:stream("copy"),
        }
    end
    self.communicator = orrery.communicator{ devices = devices, name = "world" }
    return self
end

-- Calls f(rank) for each rank in order.
function World:each(f)
    for _, rank in ipairs(self.ranks) do
        f(rank)
    end
end

-- Gives every rank a buffer rank[name] of its compute stream.
function World:alloc(name, bytes)
    self:each(function(rank)
        rank[name] = rank.compute:alloc(bytes, name .. rank.rank)
    end)
end

-- Everything enqueued so far in stream `first` comes before everything enqueued later in `second`.
function World:order(first, second)
    self:each(function(rank)
        rank[second]:wait(rank[first]:record())
    end)
end

-- The ranks' buffers of a name, as a list.
function World:list(name)
    local buffers = {}
    self:each(function(rank)
        buffers[#buffers + 1] = rank[name]
    end)
    return buffers
end

-- Sums the buffers `input` into the buffers `output` on the communicate streams.
function World:all_reduce(input, output, name)
    self.communicator:all_reduce{
        input = self:list(input),
        output = self:list(output),
        name = name or "all_reduce",
    }
end

-- The host waits for all devices.
function World:sync()
    self:each(function(rank)
        rank.device:sync()
    end)
end

return { world = world }
