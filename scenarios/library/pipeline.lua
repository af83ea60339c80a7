-- Pipeline parallelism: schedules as data, what they cost, how they look, and the one executor
-- that runs them all.
--
--     local pipeline = require "pipeline"
--     local s = pipeline.schedule{ kind = "1f1b", ranks = 4, microbatches = 8 }
--     print(pipeline.draw(s))
--     print(pipeline.simulate(s).makespan)                  -- 33: (8 + 3) * (F + B + W)
--     pipeline.run(s, {
--         forward = function(stage, microbatch, replica) ... end,
--         backward = function(stage, microbatch, replica) ... end,
--     })
--
-- A schedule is a table. schedule.ranks has a list of actions for each rank (from 1, as lists of
-- Lua are; ranks, stages and microbatches count from 0):
--
--     { kind = "F", stage = 2, microbatch = 0, replica = 0 }
--
--     F    forward               BW   backward: both of the next
--     B    gradient of the stage's input (and what the stage before needs for its backward)
--     W    gradients of the stage's weights, after its B
--
-- and, derived from the lists: rank_count, stage_count, microbatches, chunks (stages of a replica
-- on one rank), replicas, stages (for each rank its list of { stage =, replica = }),
-- rank_of(stage[, replica]) and stage_of(rank[, chunk[, replica]]).
--
-- A schedule of one's own has at least `ranks`; every function here takes it. Errors are one line.

local kinds = require "pipeline_kinds"
local order = require "pipeline_order"
local draw = require "pipeline_draw"
local stages = require "pipeline_stages"

local pipeline = {}

local fail = order.fail

-- --- arguments ---

local function check_keys(given, what, known)
    for key in pairs(given) do
        local found = false
        for _, name in ipairs(known) do
            found = found or key == name
        end
        if not found then
            fail("unknown key '%s' in %s; known: %s", tostring(key), what,
                 table.concat(known, ", "))
        end
    end
end

local function whole(value, what, least)
    if math.type(value) ~= "integer" or value < least then
        fail("%s: expected a whole number from %d, got %s", what, least, tostring(value))
    end
    return value
end

local function kind_of(name)
    if not kinds[name] then
        local names = {}
        for known in pairs(kinds) do
            names[#names + 1] = known
        end
        fail("there is no kind '%s'; known: %s", tostring(name), table.concat(names, ", "))
    end
    return kinds[name]
end

-- The kind, and the number of chunks; checks the numbers.
local function numbers(name, p, m, v)
    local kind = kind_of(name)
    v = v or kind.chunks or 1
    whole(p, "ranks", 1)
    whole(m, "microbatches", 1)
    whole(v, "chunks", 1)
    if kind.chunks and v ~= kind.chunks or not kind.chunks and v > 1 and name ~= "interleaved" then
        fail("%s has %d stage%s of a replica on a rank, not %d; expected kind interleaved", name,
             kind.chunks or 1, kind.chunks and "s" or "", v)
    end
    local wrong = kind.expects and kind.expects(p, m)
    if wrong then
        fail("%s: %s", name, wrong)
    end
    return kind, v
end

-- Times of the actions: whole numbers, or lists of one for each stage; those left out are 1, and
-- send, the time from one rank to another, is 0. Returns them and cost(action).
local function times_of(given, extra)
    check_keys(given or {}, "times", { "F", "B", "W", "send", table.unpack(extra or {}) })
    local t = { F = 1, B = 1, W = 1, send = 0 }
    for what in pairs(t) do
        local value = given and given[what]
        if type(value) == "table" and what ~= "send" then
            for stage, one in ipairs(value) do
                whole(one, what .. " of stage " .. stage - 1, 0)
            end
            t[what] = value
        elseif value ~= nil then
            t[what] = whole(value, what, 0)
        end
    end
    local function of(what, stage)
        local value = t[what]
        if type(value) ~= "table" then
            return value
        end
        return value[stage + 1] or fail("%s: there is no time for stage %d", what, stage)
    end
    return t, function(action)
        if action.kind == "BW" then
            return of("B", action.stage) + of("W", action.stage)
        end
        return of(action.kind, action.stage)
    end
end

local function fraction(numerator, denominator)
    local a, b = numerator, denominator
    while b > 0 do
        a, b = b, a % b
    end
    return { numerator // a, denominator // a }
end

-- --- schedules ---

-- pipeline.schedule{ kind =, ranks = p, microbatches = m, chunks = v }: one of the papers'
-- schedules. Kinds: "gpipe", "1f1b", "interleaved" (chunks; m a multiple of p), "zero_bubble"
-- (ZB-H1), "zero_bubble_2" (ZB-H2), "zero_bubble_v" (ZB-V, two chunks), "bidirectional" (Chimera;
-- p and m even), "dualpipe" (p and m even, m at least 2p).
function pipeline.schedule(options)
    check_keys(options, "pipeline.schedule", { "kind", "ranks", "microbatches", "chunks" })
    local kind, v = numbers(options.kind, options.ranks, options.microbatches, options.chunks)
    return order.facts{ kind = options.kind,
                        ranks = kind.build(options.ranks, options.microbatches, v) }
end

-- A schedule from rows as pipeline.draw makes them, one line a rank; stage `rank` of replica 0 is
-- there, and behind it stage ranks + rank for chunk b, ...; replica 1 has them the other way round.
-- With shape = "v" every second chunk is on its way back, as in ZB-V.
--
--     pipeline.parse [[ F0 F1 B0 B1
--                       F0 B0 F1 B1 ]]
function pipeline.parse(text, options)
    check_keys(options or {}, "pipeline.parse", {"shape"})
    local shape = options and options.shape or "loop"
    if shape ~= "loop" and shape ~= "v" then
        fail("parse: shape '%s'; expected loop or v", tostring(shape))
    end
    return order.facts{ ranks = draw.parse(text, shape == "v") }
end

-- Checks a schedule: facts, every stage does every microbatch once, the order can be kept, and for
-- the papers' kinds as many activations as they say. Returns live and held: for each rank (from 1)
-- the most activations of one stage and microbatch that it has at once, until their input
-- gradient is done and until their weight gradient is.
function pipeline.check(schedule)
    order.facts(schedule)
    order.complete(schedule)
    order.walk(schedule, function() return 0 end, 0)
    local live, held = order.peaks(schedule)
    if schedule.kind ~= nil then
        local kind, p, m = kind_of(schedule.kind), schedule.rank_count, schedule.microbatches
        for rank = 0, p - 1 do
            local wanted = kind.live(p, m, schedule.chunks, rank)
            if live[rank + 1] ~= wanted then
                fail("rank %d holds up to %d activations; %s holds %d", rank, live[rank + 1],
                     schedule.kind, wanted)
            end
        end
    end
    return live, held
end

-- --- times ---

-- What a schedule takes when nothing but its order and its dependencies counts: times = { F, B, W,
-- send } in whole numbers (or, but for send, lists of them, one for each stage). Returns
--     makespan            from the first start to the last finish
--     period              the longest time from a rank's first start to its last finish
--     ranks[r]            begin, finish, busy, idle (makespan - busy), bubble = {idle, makespan}
--     bubble              idle of all ranks as a share of all their time
--     start[r][k], finish[r][k]    of each action
-- Shares are exact: {numerator, denominator}.
function pipeline.simulate(schedule, times)
    order.facts(schedule)
    order.complete(schedule)
    local t, cost = times_of(times)
    local start, finish = order.walk(schedule, cost, t.send)
    local result = { start = start, finish = finish, ranks = {}, makespan = 0, period = 0 }
    for r in ipairs(start) do
        local busy = 0
        for k, begin in ipairs(start[r]) do
            busy = busy + finish[r][k] - begin
        end
        local rank = { busy = busy, begin = start[r][1] or 0, finish = finish[r][#finish[r]] or 0 }
        result.ranks[r] = rank
        result.makespan = math.max(result.makespan, rank.finish)
        result.period = math.max(result.period, rank.finish - rank.begin)
    end
    local idle = 0
    for _, rank in ipairs(result.ranks) do
        rank.idle = result.makespan - rank.busy
        rank.bubble = fraction(rank.idle, math.max(result.makespan, 1))
        idle = idle + rank.idle
    end
    result.bubble = fraction(idle, math.max(result.makespan * #result.ranks, 1))
    return result
end

-- The papers' bubble of a kind with p ranks, m microbatches and v chunks, as an exact share of the
-- step, {numerator, denominator}; the step itself; and which of simulate's results that is:
-- "makespan", or "period" (ZB-H2, ZB-V). Times as above, whole numbers.
function pipeline.bubble(name, p, m, v, times)
    local kind
    kind, v = numbers(name, p, m, v)
    local t = times_of(times)
    for _, what in ipairs{"F", "B", "W"} do
        whole(t[what], what, 0)
    end
    if t.send > 0 then
        fail("bubble: there is no closed form with send = %d; see simulate", t.send)
    end
    local idle, expected = kind.idle(p, m, v, t)
    if not idle then
        fail("bubble: no closed form for %s with F = %d, B = %d, W = %d; expected %s", name, t.F,
             t.B, t.W, expected)
    end
    local step = v * m * (t.F + t.B + t.W) + idle
    return fraction(idle, math.max(step, 1)), step, kind.step or "makespan"
end

-- --- text ---

-- A schedule as text, one row a rank, in columns of equal time; pipeline_draw.lua says what is in
-- them. options: F, B, W, send as above; width (100 letters), from (the first column shown).
function pipeline.draw(schedule, options)
    order.facts(schedule)
    order.complete(schedule)
    local t, cost = times_of(options, { "width", "from" })
    local start, finish = order.walk(schedule, cost, t.send)
    return draw.text(schedule, start, finish, options or {})
end

-- --- the executor ---

local calls = { F = "forward", BW = "backward", B = "backward_input", W = "backward_weight" }

local function check_callbacks(schedule, callbacks)
    check_keys(callbacks, "pipeline.run", { "forward", "backward", "backward_input",
                                            "backward_weight", "before", "after" })
    for _, list in ipairs(schedule.ranks) do
        for _, action in ipairs(list) do
            if not callbacks[calls[action.kind]] then
                fail("pipeline.run: the schedule has %s, and there is no callback %s",
                     order.name(action), calls[action.kind])
            end
        end
    end
end

-- The actions as {rank from 1, place}, sorted by when they would start, so that the host's calls
-- for one rank don't hold up those for another. The walk's sequence breaks ties: it has what an
-- action needs before it.
local function launches(schedule, times)
    local t, cost = times_of(times)
    local start, _, sequence = order.walk(schedule, cost, t.send)
    for n, at in ipairs(sequence) do
        at.n = n
    end
    table.sort(sequence, function(a, b)
        local one, other = start[a[1]][a[2]], start[b[1]][b[2]]
        if one ~= other then
            return one < other
        end
        return a.n < b.n
    end)
    return sequence
end

-- Runs a schedule: calls forward(stage, microbatch, replica) for F, backward for BW,
-- backward_input for B and backward_weight for W, one after the other, in the order of every
-- rank's list and what an action needs before it. before(action, rank) and after(action, rank) are
-- called around each, if given. `times` are for the order of calls only. An order that can't be
-- kept is an error before the first call; it names every rank that would wait, and for what.
function pipeline.run(schedule, callbacks, times)
    order.facts(schedule)
    order.complete(schedule)
    check_callbacks(schedule, callbacks)
    for _, at in ipairs(launches(schedule, times)) do
        local action = schedule.ranks[at[1]][at[2]]
        if callbacks.before then
            callbacks.before(action, at[1] - 1)
        end
        callbacks[calls[action.kind]](action.stage, action.microbatch, action.replica or 0)
        if callbacks.after then
            callbacks.after(action, at[1] - 1)
        end
    end
end

-- --- tensors ---

-- Forwards and backwards of one training step by a schedule. A model has the functions
--     mesh(stage, replica)          the devices of a stage
--     parameters(stage, replica)    its tensors, by name
--     input(microbatch, replica)    a new tensor on the mesh of stage 0; it is freed when done with
--     forward(stage, x, microbatch, replica)    the stage's y; of the last stage the microbatch's
--                                   part of the loss. Other tensors made in it are freed
--     before, after                 as for pipeline.run
-- and, if losses are scaled, `scale`. The y of a stage is sent to the next one's mesh with the
-- placements that it has. Returns the losses, a list by microbatch, and the gradients,
-- gradients[replica][stage][name], sums over the microbatches: of both replicas where there are
-- two, so that their parameters stay equal. Gradients are as the tapes leave them: reduce partial
-- ones.
function pipeline.step(schedule, model, times)
    check_keys(model, "pipeline.step", { "mesh", "parameters", "input", "forward", "before",
                                         "after", "scale" })
    return stages.step(order.facts(schedule), model, function(callbacks)
        pipeline.run(schedule, callbacks, times)
    end)
end

return pipeline
