-- What waits for what in a pipeline schedule: facts derived from its lists, the walk over them by
-- dependencies with times, and what is said when they can't be walked. require "pipeline" is the
-- way in.
--
--     F of stage s needs F of stage s - 1; B and BW need F of their stage and B or BW of stage
--     s + 1; W needs B of its stage; everything of one microbatch. A rank does its actions in the
--     order of its list.

local order = {}

local results = { F = {"F"}, B = {"B"}, W = {"W"}, BW = {"B", "W"} }

local function fail(...)
    error("pipeline: " .. string.format(...), 0)
end
order.fail = fail

-- "F3 of stage 2", "F3 of stage 2 of replica 1"
local function name(action)
    return action.kind .. action.microbatch .. " of stage " .. action.stage ..
        ((action.replica or 0) > 0 and " of replica " .. action.replica or "")
end
order.name = name

-- Each result has a number: of what, stage, microbatch. The numbers of one schedule are dense.
local offset = { F = 0, B = 1, W = 2 }

local function key(schedule, kind, stage, microbatch)
    return (offset[kind] * schedule.stage_count + stage) * schedule.microbatches + microbatch
end

-- --- facts ---

local function check_action(rank, k, action)
    if type(action) ~= "table" or not results[action.kind] then
        fail("rank %d, action %d: kind %s; expected F, B, W or BW", rank, k,
             type(action) == "table" and tostring(action.kind) or tostring(action))
    end
    for _, field in ipairs{"stage", "microbatch", "replica"} do
        local value = action[field]
        if field == "replica" and value == nil then
            value = 0
        end
        if math.type(value) ~= "integer" or value < 0 or field == "replica" and value > 1 then
            fail("rank %d, action %d, %s: %s %s; expected %s", rank, k, action.kind, field,
                 tostring(value), field == "replica" and "0 or 1" or "a whole number from 0")
        end
    end
end

-- Where each stage of each replica is; a stage is on one rank.
local function place_stages(schedule)
    local where = { [0] = {}, [1] = {} }
    schedule.stages = {}
    for r, list in ipairs(schedule.ranks) do
        local here = {}
        for k, action in ipairs(list) do
            local replica = action.replica or 0
            local before = where[replica][action.stage]
            if before and before ~= r - 1 then
                fail("rank %d, action %d, %s: rank %d has that stage", r - 1, k, name(action),
                     before)
            elseif not before then
                where[replica][action.stage] = r - 1
                here[#here + 1] = { stage = action.stage, replica = replica }
            end
        end
        table.sort(here, function(a, b)
            if a.replica ~= b.replica then
                return a.replica < b.replica
            end
            return a.stage < b.stage
        end)
        schedule.stages[r] = here
    end
    return where
end

-- Derives from the lists what the rest needs, and puts it into the schedule.
function order.facts(schedule)
    if type(schedule) ~= "table" or type(schedule.ranks) ~= "table" then
        fail("expected a schedule, a table with a list of actions for each rank in 'ranks'")
    end
    local stages, microbatches, replicas = 0, 0, 1
    for r, list in ipairs(schedule.ranks) do
        for k, action in ipairs(list) do
            check_action(r - 1, k, action)
            stages = math.max(stages, action.stage + 1)
            microbatches = math.max(microbatches, action.microbatch + 1)
            replicas = math.max(replicas, (action.replica or 0) + 1)
        end
    end
    if stages == 0 then
        fail("the schedule has no action")
    end
    schedule.rank_count, schedule.stage_count = #schedule.ranks, stages
    schedule.microbatches, schedule.replicas = microbatches, replicas
    local where = place_stages(schedule)
    schedule.chunks = 0
    for _, here in ipairs(schedule.stages) do
        schedule.chunks = math.max(schedule.chunks, #here // replicas)
    end
    function schedule.rank_of(stage, replica)
        return where[replica or 0][stage]
    end
    function schedule.stage_of(rank, chunk, replica)
        for _, at in ipairs(schedule.stages[rank + 1] or {}) do
            if at.replica == (replica or 0) then
                if (chunk or 0) == 0 then
                    return at.stage
                end
                chunk = chunk - 1
            end
        end
    end
    return schedule
end

-- --- everything once ---

-- result number -> {rank, action} of who makes it
local function makers(schedule)
    local made = {}
    for r, list in ipairs(schedule.ranks) do
        for k, action in ipairs(list) do
            for _, kind in ipairs(results[action.kind]) do
                local number = key(schedule, kind, action.stage, action.microbatch)
                local before = made[number]
                if before then
                    fail("rank %d, action %d, %s: rank %d has done %s", r - 1, k, name(action),
                         before.rank, name(before.action))
                end
                made[number] = { rank = r - 1, action = action }
            end
        end
    end
    return made
end

-- Every stage does every microbatch once, on one replica.
function order.complete(schedule)
    local made = makers(schedule)
    for i = 0, schedule.microbatches - 1 do
        local replica
        for stage = 0, schedule.stage_count - 1 do
            for _, kind in ipairs{"F", "B", "W"} do
                local maker = made[key(schedule, kind, stage, i)]
                if not maker then
                    local rank = schedule.rank_of(stage, replica) or schedule.rank_of(stage, 0) or
                        schedule.rank_of(stage, 1)
                    fail("%s %s", rank and "rank " .. rank .. " never does" or "no rank does",
                         name{ kind = kind, stage = stage, microbatch = i })
                end
                local of = maker.action.replica or 0
                replica = replica or of
                if of ~= replica then
                    fail("rank %d, %s: replica %d has microbatch %d in the stages before",
                         maker.rank, name(maker.action), replica, i)
                end
            end
        end
    end
end

-- --- the walk ---

-- Up to two result numbers that an action needs.
local function needs(schedule, action)
    local stage, i = action.stage, action.microbatch
    if action.kind == "F" then
        return stage > 0 and key(schedule, "F", stage - 1, i) or nil
    elseif action.kind == "W" then
        return key(schedule, "B", stage, i)
    end
    return key(schedule, "F", stage, i),
        stage + 1 < schedule.stage_count and key(schedule, "B", stage + 1, i) or nil
end

-- "rank 1's F3 of stage 1": a result and its maker, if there is one.
local function describe(schedule, number, made)
    local maker = made[number]
    if maker then
        return string.format("rank %d's %s", maker.rank, name(maker.action))
    end
    local m, stages = schedule.microbatches, schedule.stage_count
    return name{ kind = ({"F", "B", "W"})[number // (m * stages) + 1], stage = number // m % stages,
                 microbatch = number % m } .. ", which nobody does"
end

-- Says who waits for what; an error text has room for about 900 letters.
local function stuck(schedule, at, missing)
    local made, parts, length = makers(schedule), {}, 0
    local waiting = 0
    for r, list in ipairs(schedule.ranks) do
        local action = list[at[r]]
        if action then
            waiting = waiting + 1
            local part = string.format("rank %d at action %d, %s, waits for %s", r - 1, at[r],
                                       name(action), describe(schedule, missing[r], made))
            length = length + #part
            if length < 800 then
                parts[#parts + 1] = part
            end
        end
    end
    if #parts < waiting then
        parts[#parts + 1] = "and " .. waiting - #parts .. " more ranks wait"
    end
    fail("the schedule can't go on: %s", table.concat(parts, "; "))
end

-- Does every action as soon as its rank is free and what it needs is there. cost(action) is a
-- whole number of time units; what another rank made is there `send` later. Returns start and
-- finish, lists for each rank, and the actions as {rank, place in its list} in an order in which
-- they can be done. O(actions).
function order.walk(schedule, cost, send)
    local lists, count = schedule.ranks, #schedule.ranks
    local at, free, missing, start, finish = {}, {}, {}, {}, {}
    local done, by, waiters, queue, sequence = {}, {}, {}, {}, {}
    for r = 1, count do
        at[r], free[r], start[r], finish[r], queue[r] = 1, 0, {}, {}, r
    end
    local function arrival(r, number)
        return number and done[number] + (by[number] == r and 0 or send) or 0
    end
    local function wake(number)
        for _, r in ipairs(waiters[number] or {}) do
            queue[#queue + 1] = r
        end
    end
    local function advance(r)
        local action = lists[r][at[r]]
        if not action then
            return false
        end
        local first, second = needs(schedule, action)
        local lacks = first and not done[first] and first or second and not done[second] and second
        if lacks then
            missing[r] = lacks
            waiters[lacks] = waiters[lacks] or {}
            table.insert(waiters[lacks], r)
            return false
        end
        local begin = math.max(free[r], arrival(r, first), arrival(r, second))
        local done_at = begin + cost(action)
        start[r][at[r]], finish[r][at[r]], free[r] = begin, done_at, done_at
        sequence[#sequence + 1] = { r, at[r] }
        at[r] = at[r] + 1
        for _, kind in ipairs(results[action.kind]) do
            local number = key(schedule, kind, action.stage, action.microbatch)
            done[number], by[number] = done_at, r
            wake(number)
        end
        return true
    end
    local head = 1
    while head <= #queue do
        while advance(queue[head]) do end
        head = head + 1
    end
    for r = 1, count do
        if lists[r][at[r]] then
            stuck(schedule, at, missing)
        end
    end
    return start, finish, sequence
end

-- The most activations of a stage that each rank holds at once: until its input gradient is done
-- (live), until its weight gradient is (held).
function order.peaks(schedule)
    local live, held = {}, {}
    for r, list in ipairs(schedule.ranks) do
        local now, kept = 0, 0
        live[r], held[r] = 0, 0
        for _, action in ipairs(list) do
            local kind = action.kind
            if kind == "F" then
                now, kept = now + 1, kept + 1
                live[r], held[r] = math.max(live[r], now), math.max(held[r], kept)
            end
            if kind == "B" or kind == "BW" then
                now = now - 1
            end
            if kind == "W" or kind == "BW" then
                kept = kept - 1
            end
        end
    end
    return live, held
end

return order
