-- The schedules of the papers, each as lists of actions, one list a rank, with the closed forms
-- that the papers give for them. require "pipeline" is the way in.
--
-- A kind has
--     build(p, m, v)    the lists: ranks, microbatches, chunks of layers on a rank
--     live(p, m, v, r)  the most activations of a stage that rank r holds for its input gradients
--     idle(p, m, v, t)  the time that the step is longer than the work of a rank, t = {F, B, W};
--                       nil and what is expected where there is no closed form

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
}

return kinds
