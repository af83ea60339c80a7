-- The schedules of the papers, each as lists of actions, one list a rank, with the closed forms
-- that the papers give for them. require "pipeline" is the way in.
--
-- A kind has
--     build(p, m, v)    the lists: ranks, microbatches, chunks of layers on a rank
--     live(p, m, v, r)  the most activations of a stage that rank r holds for its input gradients
--     idle(p, m, v, t)  the time that the step is longer than the work of a rank, t = {F, B, W};
--                       nil and what is expected where there is no closed form
--     expects(p, m, v)  what is wrong with the numbers, if anything; without it v has to be 1
--     chunks            v, where it is always the same
--     step              "period" where steps overlap: ranks start and end one after the other

local kinds = {}

local function action(kind, stage, microbatch, replica)
    return { kind = kind, stage = stage, microbatch = microbatch, replica = replica or 0 }
end

-- Lists for ranks 0 .. p - 1 made by fill(rank, list).
local function for_ranks(p, fill)
    local lists = {}
    for rank = 0, p - 1 do
        local list = {}
        fill(rank, list)
        lists[rank + 1] = list
    end
    return lists
end

-- GPipe (Huang et al. 2019, figure 2c): all forwards, then all backwards, last microbatch first.
kinds.gpipe = {
    build = function(p, m)
        return for_ranks(p, function(rank, list)
            for i = 0, m - 1 do
                list[#list + 1] = action("F", rank, i)
            end
            for i = m - 1, 0, -1 do
                list[#list + 1] = action("BW", rank, i)
            end
        end)
    end,
    live = function(_, m)
        return m
    end,
    idle = function(p, _, _, t)
        return (p - 1) * (t.F + t.B + t.W)
    end,
}

-- One forward, one backward, behind `warmup` forwards. forward(k) and backward(k) add the k-th.
local function alternate(count, warmup, forward, backward)
    warmup = math.min(count, warmup)
    for k = 0, warmup - 1 do
        forward(k)
    end
    for k = warmup, count - 1 do
        forward(k)
        backward(k - warmup)
    end
    for k = count - warmup, count - 1 do
        backward(k)
    end
end

-- 1F1B, PipeDream-Flush (Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training"):
-- as many forwards ahead as there are stages behind.
kinds["1f1b"] = {
    build = function(p, m)
        return for_ranks(p, function(rank, list)
            alternate(m, p - 1 - rank, function(k)
                list[#list + 1] = action("F", rank, k)
            end, function(k)
                list[#list + 1] = action("BW", rank, k)
            end)
        end)
    end,
    live = function(p, m, _, rank)
        return math.min(m, p - rank)
    end,
    idle = kinds.gpipe.idle,
}

-- Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU
-- Clusters Using Megatron-LM"): rank r has stages r, p + r, ...; microbatches go through a chunk in
-- groups of p. Warm-up counts as in Megatron-LM. (Its early versions made all forwards warm-up
-- when m = p; the bubble is the same, the memory is not.)
local function interleaved_warmup(p, m, v, rank)
    return math.min(v * m, 2 * (p - 1 - rank) + (v - 1) * p)
end

kinds.interleaved = {
    build = function(p, m, v)
        return for_ranks(p, function(rank, list)
            local function add(kind, k, chunk)
                list[#list + 1] = action(kind, chunk * p + rank, k // (p * v) * p + k % p)
            end
            alternate(v * m, interleaved_warmup(p, m, v, rank), function(k)
                add("F", k, k % (p * v) // p)
            end, function(k)
                add("BW", k, v - 1 - k % (p * v) // p)
            end)
        end)
    end,
    live = function(p, m, v, rank)
        return math.min(v * m, interleaved_warmup(p, m, v, rank) + 1)
    end,
    idle = kinds.gpipe.idle,
    expects = function(p, m)
        return m % p ~= 0 and string.format("%d microbatches; expected a multiple of the %d ranks",
                                            m, p)
    end,
}

-- Zero bubble (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2): the weight gradient
-- of a stage goes where the rank would wait. Those of rank r lag `lag(r)` behind its input
-- gradients, so that later ranks send theirs as early as possible.
local function split_backward(p, m, warmup, lag)
    return for_ranks(p, function(rank, list)
        local weights = 0
        alternate(m, warmup(p, rank), function(k)
            list[#list + 1] = action("F", rank, k)
        end, function(k)
            list[#list + 1] = action("B", rank, k)
            if k >= lag(rank) then
                list[#list + 1] = action("W", rank, weights)
                weights = weights + 1
            end
        end)
        for k = weights, m - 1 do
            list[#list + 1] = action("W", rank, k)
        end
    end)
end

-- The paper's bubbles are those of m >= p (ZB-H1) and m >= 2p - 1 (ZB-H2); every microbatch less is
-- one W less to fill them with. They need a W that fits where it is put.
local function split_idle(p, weights, t)
    if t.W > math.min(t.F, t.B) then
        return nil, "a W that is no longer than F and B"
    end
    return (p - 1) * (t.F + t.B) - weights * t.W
end

-- ZB-H1: the memory of 1F1B, a third of its bubble when F, B and W take the same time.
kinds.zero_bubble = {
    build = function(p, m)
        return split_backward(p, m, function(ranks, rank)
            return ranks - 1 - rank
        end, function(rank)
            return rank
        end)
    end,
    live = kinds["1f1b"].live,
    idle = function(p, m, _, t)
        return split_idle(p, math.min(m, p) - 1, t) -- (p - 1) * (F + B - W) for m >= p
    end,
}

-- ZB-H2: about twice the memory; every rank works without a gap when F, B and W take the same
-- time, but starts and ends later than the rank before it; the step is its period.
kinds.zero_bubble_2 = {
    build = function(p, m)
        return split_backward(p, m, function(ranks, rank)
            return 2 * (ranks - 1 - rank)
        end, function(rank)
            return 2 * rank
        end)
    end,
    live = function(p, m, _, rank)
        return math.min(m, 2 * (p - rank) - 1)
    end,
    idle = function(p, m, _, t)
        return split_idle(p, math.min(m, 2 * p - 1) - 1, t) -- (p - 1) * (F + B - 2 * W)
    end,
    step = "period",
}

-- add(n, "F", "B", ...) for one stage: n times, for each kind its next microbatch; those from
-- `last` on are left out.
local function counter(list, stage, replica, first, last)
    local next_one = {}
    return function(n, ...)
        for _ = 1, n do
            for _, kind in ipairs{...} do
                local i = next_one[kind] or first
                next_one[kind] = i + 1
                if i < last then
                    list[#list + 1] = action(kind, stage, i, replica)
                end
            end
        end
    end
end

-- ZB-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two chunks a rank, the
-- second one on the way back (stages r and 2p - 1 - r), so that all ranks hold equally much, as
-- much as the first one of 1F1B; no gap when F, B and W take the same time. Counts as in PyTorch's
-- ScheduleZBVZeroBubble: lists for at least 2p - 1 microbatches, without those that are not there.
kinds.zero_bubble_v = {
    chunks = 2,
    build = function(p, m)
        return for_ranks(p, function(rank, list)
            local down, up = counter(list, rank, 0, 0, m), counter(list, 2 * p - 1 - rank, 0, 0, m)
            local count, ahead = math.max(m, 2 * p - 1), 2 * p - 1 - rank
            down(2 * (p - rank) - 1, "F")
            for _ = 1, rank do
                up(1, "F")
                down(1, "F")
            end
            up(p - rank, "F", "B", "W")
            for k = 1, count - p do
                if ahead + k <= count then
                    down(1, "F")
                end
                down(1, "B", "W")
                up(1, "F", "B", "W")
            end
            for _ = 1, rank do
                down(1, "B")
                up(1, "B")
            end
            down(p - rank, "B", "W")
            up(rank, "W")
            down(rank, "W")
        end)
    end,
    live = function(p, m, _, rank)
        return math.min(2 * m, m + 1 + rank, 2 * p)
    end,
    -- for m < 2p - 1 found by simulation
    idle = function(p, m, _, t)
        if t.F ~= t.B or t.F ~= t.W then
            return nil, "times that are equal"
        end
        return 2 * math.max(0, 2 * p - 1 - m) * t.F
    end,
    step = "period",
}

-- Chimera (Li & Hoefler 2021, "Chimera: Efficiently Training Large-Scale Neural Networks with
-- Bidirectional Pipelines"): two replicas of the model, their stages on the ranks in opposite
-- order; one half of the microbatches goes down, the other one up. Units of p microbatches follow
-- each other (direct concatenation).
--
-- With forwards and backwards of one slot each, a direction has the F of microbatch i and stage s
-- in slot s + 2i of its unit and the B in slot 2p - 1 - s + 2i. When p is even, the F's of one
-- direction share their parity on a rank with the B's of the other one, which come later: no slot
-- is taken twice, nor do units, 2p slots apart, get into each other's way.
local function chimera_unit(p, first, count, replica, base, slots)
    for i = 0, count - 1 do
        for stage = 0, p - 1 do
            local rank = replica == 0 and stage or p - 1 - stage
            local list = slots[rank + 1]
            list[#list + 1] = { base + stage + 2 * i, action("F", stage, first + i, replica) }
            list[#list + 1] = { base + 2 * p - 1 - stage + 2 * i,
                                action("BW", stage, first + i, replica) }
        end
    end
end

kinds.bidirectional = {
    build = function(p, m)
        local slots = for_ranks(p, function() end)
        for first = 0, m - 1, p do
            local half = math.min(p, m - first) // 2
            chimera_unit(p, first, half, 0, 2 * first, slots)
            chimera_unit(p, first + half, half, 1, 2 * first, slots)
        end
        for rank, list in ipairs(slots) do
            table.sort(list, function(a, b) return a[1] < b[1] end)
            for k, pair in ipairs(list) do
                list[k] = pair[2]
            end
            slots[rank] = list
        end
        return slots
    end,
    live = function(p, m, _, rank)
        local half = math.min(p, m) // 2
        return math.min(half, p - rank) + math.min(half, rank + 1)
    end,
    -- (p - 2) / (2m + p - 2) of the step when forwards and backwards take the same time: the
    -- paper's bubble ratio. In general p forwards and 2p - 2 backwards are on the critical path of
    -- a unit (its performance model), one backward less for each microbatch that the unit has
    -- less; longer backwards leave further bubbles between units, the last term.
    idle = function(p, m, _, t)
        local backward, units, rest = t.B + t.W, (m + p - 1) // p, (m - 1) % p + 1
        if backward < t.F then
            return nil, "a backward (B + W) that is no shorter than F"
        elseif backward > t.F and units > 1 and rest < p then
            return nil, "a backward (B + W) as long as F, or microbatches a multiple of the ranks"
        end
        return (p - rest) * t.F + (p - 2) * backward + (units - 1) * (p - 2) * (backward - t.F)
    end,
    expects = function(p, m)
        return (p % 2 ~= 0 or m % 2 ~= 0) and
            string.format("%d ranks, %d microbatches; both have to be even", p, m)
    end,
}

-- DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1; counts of its eight
-- steps as in deepseek-ai/DualPipe): replicas as in Chimera, microbatches from both ends at the
-- same time. Here `near` is the replica whose first stages are on this half of the ranks, `inner`
-- the distance to its end. Pairs of a forward and a backward that DualPipe overlaps are one after
-- the other.
local function dualpipe_rank(p, m, rank, list)
    local half, second, inner = p // 2, rank >= p // 2 and 1 or 0, math.min(rank, p - 1 - rank)
    local weights = {}
    local function direction(replica)
        local stage = replica == 0 and rank or p - 1 - rank
        local forwards, backwards = replica * (m // 2), replica * (m // 2)
        return function()
            list[#list + 1] = action("F", stage, forwards, replica)
            forwards = forwards + 1
        end, function(split)
            list[#list + 1] = action(split and "B" or "BW", stage, backwards, replica)
            if split then
                weights[#weights + 1] = action("W", stage, backwards, replica)
            end
            backwards = backwards + 1
        end
    end
    local function weight()
        list[#list + 1] = table.remove(weights, 1)
    end
    local near_forward, near_backward = direction(second)
    local far_forward, far_backward = direction(1 - second)
    for _ = 1, 2 * (half - inner - 1) do -- step 1
        near_forward()
    end
    for _ = 1, inner + 1 do -- 2
        near_forward()
        far_forward()
    end
    for _ = 1, half - inner - 1 do -- 3
        far_backward(true)
        weight()
        far_forward()
    end
    for _ = 1, m // 2 - p + inner + 1 do -- 4
        near_forward()
        far_backward()
        far_forward()
        near_backward()
    end
    for _ = 1, half - inner - 1 do -- 5
        far_backward()
        far_forward()
        near_backward()
    end
    -- 6: half of these are split, so that there are weight gradients left for 7 and 8
    for k = 1, 2 * (inner + 1) do
        local backward = k % 2 == 1 and far_backward or near_backward
        backward(k > inner + 1)
    end
    for _ = 1, half - inner - 1 do -- 7
        weight()
        near_backward(true)
    end
    for _ = 1, inner + 1 do -- 8
        weight()
    end
end

kinds.dualpipe = {
    build = function(p, m)
        return for_ranks(p, function(rank, list)
            dualpipe_rank(p, m, rank, list)
        end)
    end,
    live = function(p)
        return p + 1
    end,
    -- The report has (p/2 - 1) (F&B + B - 3W), F&B what an overlapped pair takes, its B our B + W:
    -- two units of F = B = W when the pair takes as long as its parts. But one after the other the
    -- first part need not wait for the end of both, and one unit is left; found by simulation.
    idle = function(p, _, _, t)
        if t.F ~= t.B or t.F ~= t.W then
            return nil, "times that are equal"
        end
        return (p // 2 - 1) * t.F
    end,
    expects = function(p, m)
        return (p % 2 ~= 0 or m % 2 ~= 0 or m < 2 * p) and
            string.format("%d ranks, %d microbatches; expected an even number of ranks and an " ..
                          "even number of microbatches, at least twice as many", p, m)
    end,
}

return kinds
