-- Plans of parallelism: how many devices each strategy takes, where they are, and what lies where.
--
--     local parallel = require "parallel"
--     local plan = parallel.plan{ dp = 2, tp = 2, pp = 2, sequence = true, zero = 1 }
--
--     axis   splits
--     tp     weights and heads (tensor parallel); with `sequence` also the tokens between products
--     cp     tokens of a sequence (context parallel)
--     ep     batch, and the experts of mixtures (expert parallel)
--     dp     batch (data parallel)
--     pp     layers (pipeline parallel): each pipeline rank has a mesh {dp, ep, cp, tp} of its own
--
-- Devices are numbered as Megatron-LM does: tp changes fastest, pp slowest, so that tensor
-- parallelism stays within a node. An activation is [batch, tokens, hidden] with the batch over dp
-- and ep and the tokens over cp and, with `sequence`, tp.

local parallel = {}

local Plan = {}
Plan.__index = Plan

local AXES = { "dp", "ep", "cp", "tp" }

local DEFAULTS = {
    dp = 1, ep = 1, cp = 1, tp = 1, pp = 1,
    sequence = false,       -- tokens over tp where no product needs them whole (Korthikanti 2022)
    context = "ring",       -- or "all_to_all": how attention sees the other ranks' tokens
    zero = 0,               -- 1: optimizer state over the data ranks, 2: and gradients, 3: and
                            -- parameters
    recompute = "none",     -- "selective": the core of attention; "full": whole layers
    schedule = "1f1b", chunks = 1, microbatches = 1,
    first = 0,              -- the first device
}

local CHOICES = {
    context = { ring = true, all_to_all = true },
    recompute = { none = true, selective = true, full = true },
}

local function whole(name, value, least, most)
    if math.type(value) ~= "integer" or value < least or value > most then
        error(string.format("plan: %s is %s, expected a whole number from %d to %d", name,
                            tostring(value), least, most), 4)
    end
end

local function check(plan)
    for _, name in ipairs{ "dp", "ep", "cp", "tp", "pp", "chunks", "microbatches" } do
        whole(name, plan[name], 1, 1 << 20)
    end
    whole("zero", plan.zero, 0, 3)
    whole("first", plan.first, 0, 1 << 24)
    for name, choices in pairs(CHOICES) do
        if not choices[plan[name]] then
            local names = {}
            for choice in pairs(choices) do
                names[#names + 1] = "'" .. choice .. "'"
            end
            error(string.format("plan: %s is '%s', expected one of %s", name, tostring(plan[name]),
                                table.concat(names, ", ")), 3)
        end
    end
    local size = plan.stage_size * plan.pp
    if plan.first + size > orrery.devices then
        error(string.format("plan: dp %d * ep %d * cp %d * tp %d * pp %d takes %d devices%s; the "
                            .. "machine has %d", plan.dp, plan.ep, plan.cp, plan.tp, plan.pp, size,
                            plan.first > 0 and " from device " .. plan.first or "",
                            orrery.devices), 3)
    end
end

-- A mesh of consecutive devices for each pipeline rank.
local function meshes(plan)
    local list, shape = {}, {}
    for i, axis in ipairs(AXES) do
        shape[i] = plan[axis]
    end
    for rank = 0, plan.pp - 1 do
        local devices = {}
        for i = 0, plan.stage_size - 1 do
            devices[i + 1] = plan.first + rank * plan.stage_size + i
        end
        list[rank] = orrery.mesh{ shape = shape, names = AXES, devices = devices }
    end
    return list
end

function parallel.plan(options)
    local plan = setmetatable({}, Plan)
    for name, value in pairs(DEFAULTS) do
        plan[name] = value
    end
    for name, value in pairs(options or {}) do
        if DEFAULTS[name] == nil then
            local known = {}
            for key in pairs(DEFAULTS) do
                known[#known + 1] = key
            end
            error(string.format("plan: unknown option '%s'; there are %s", tostring(name),
                                table.concat(known, ", ")), 2)
        end
        plan[name] = value
    end
    plan.stage_size = plan.dp * plan.ep * plan.cp * plan.tp
    check(plan)
    plan.meshes = meshes(plan)
    plan.sequence = plan.sequence and plan.tp > 1
    return plan
end

-- "dp2 tp2": the axes that are longer than 1, and the options that differ from their defaults.
function Plan:text()
    local words = {}
    for _, axis in ipairs{ "dp", "ep", "cp", "tp", "pp" } do
        if self[axis] > 1 then
            words[#words + 1] = axis .. self[axis]
        end
    end
    if self.sequence then
        words[#words + 1] = "sp"
    end
    if self.cp > 1 then
        words[#words + 1] = self.context
    end
    if self.pp > 1 then
        words[#words + 1] = self.schedule
    end
    if self.zero > 0 then
        words[#words + 1] = "zero" .. self.zero
    end
    if self.recompute ~= "none" then
        words[#words + 1] = self.recompute .. "-recompute"
    end
    return #words > 0 and table.concat(words, " ") or "one device"
end

-- Placements by axis without those along axes of one rank, where all of them mean the same.
function Plan:place(by_axis)
    local place = {}
    for i, axis in ipairs(AXES) do
        place[i] = self[axis] > 1 and by_axis[axis] or "R"
    end
    return place
end

-- Where an activation [batch, tokens, ...] lies between the layers.
function Plan:activation()
    return self:place{ dp = "S(0)", ep = "S(0)", cp = "S(1)", tp = self.sequence and "S(1)" or "R" }
end

-- Where what comes in from the host, [batch, tokens], lies.
function Plan:tokens()
    return self:place{ dp = "S(0)", ep = "S(0)", cp = "S(1)" }
end

-- A change of the placements along tp; nothing with one tensor-parallel rank.
local function along_tp(plan, x, place)
    return plan.tp > 1 and x:redistribute{ tp = place } or x
end

-- All tokens for a column-parallel product: an all-gather with `sequence`, else nothing.
function Plan:enter(x)
    return self.sequence and along_tp(self, x, "R") or x
end

-- The sum of a row-parallel product's terms: a reduce-scatter over the tokens with `sequence`,
-- else an all-reduce.
function Plan:leave(y)
    return along_tp(self, y, self.sequence and "S(1)" or "R")
end

-- The axes along which a parameter with these placements is there several times, to be sharded
-- along by ZeRO: those of the data, not tp.
local function data_axes(plan, place)
    local axes = {}
    for _, axis in ipairs{ "dp", "ep", "cp" } do
        if plan[axis] > 1 and not place[axis] then
            axes[#axes + 1] = axis
        end
    end
    return axes
end

-- Where the shards of a parameter lie that ZeRO makes: its first dimension that no axis shards and
-- that is long enough is cut over the data ranks. Without one (the bias of a column-parallel layer)
-- it stays whole.
function Plan:shards(shape, place)
    local taken = {}
    for _, where in pairs(place) do
        taken[where] = true
    end
    local sharded = {}
    for axis, where in pairs(place) do
        sharded[axis] = where
    end
    local axes, ranks = data_axes(self, place), 1
    for _, axis in ipairs(axes) do
        ranks = ranks * self[axis]
    end
    for dim = 0, #shape - 1 do
        local where = "S(" .. dim .. ")"
        if not taken[where] and shape[dim + 1] >= ranks then
            for _, axis in ipairs(axes) do
                sharded[axis] = where
            end
            break
        end
    end
    return self:place(sharded)
end

-- Which layers each of `stages` stages has: {first, last} of each, from 0. They differ by at most
-- one layer; the longer ones are in the middle, because the first and the last stage have the
-- embedding and the loss as well.
function parallel.split_layers(layers, stages)
    if stages > layers then
        error(string.format("plan: %d pipeline stages for %d layers; a stage needs a layer", stages,
                            layers), 2)
    end
    local least, longer = layers // stages, layers % stages
    local skip, first, list = (stages - longer) // 2, 0, {}
    for stage = 0, stages - 1 do
        local count = least + ((stage >= skip and stage < skip + longer) and 1 or 0)
        list[stage] = { first = first, last = first + count - 1 }
        first = first + count
    end
    return list
end

return parallel
