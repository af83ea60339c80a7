-- The bubble of every pipeline schedule, measured in virtual time, against the papers' formulas;
-- and how many activations each rank holds, measured through the memory of its device.
--
-- A stage is a kernel of fixed length on a device of its own (a chunk of one, where a rank has
-- several). What is needed from another stage is waited for by an event; nothing is sent. All work
-- is enqueued behind a gate that opens when the host is through, so that its launches play no part.
--
--     gate    ------------------|
--     rank 0                    F0 F1 .  .  .  B0--- B1---
--     rank 1                    .  F0 B0--- F1 B1--- .  .
--
-- An activation is memory of the rank's stream from its forward to its backward; with backwards in
-- two parts, to the one for the weights. A model of p stages is the same whatever the kind: chunks
-- take 1/chunks of the time and of the memory; chunks = 0 are as many as the kind has. (On CPU
-- threads a kernel without arithmetic takes no given time; there only the memory is judged.)
--
-- devices: sim:teaching*8
-- test:
-- test: --runner per-device
-- test: kind=1f1b ranks=8 microbatches=24
-- test: kind=interleaved ranks=4 microbatches=12 chunks=4
-- test: kind=zero_bubble_2 ranks=5 microbatches=11
-- test: kind=bidirectional ranks=6 microbatches=8 forward_ns=240000
-- test: kind=zero_bubble ranks=6 microbatches=3
-- test: kind=zero_bubble_v ranks=6 microbatches=13
-- test: kind=dualpipe ranks=8 microbatches=20

local pipeline = require "pipeline"

local p = orrery.args{ kind = "all", ranks = 4, microbatches = 8, chunks = 0,
                       forward_ns = 120000, backward_ns = 120000, weight_ns = 120000,
                       bytes = 1 << 20 }

-- What one action does to a rank's memory: a list of buffers by "stage/microbatch".
local function keep(activations, stream, action, bytes)
    local key = action.stage .. "/" .. action.microbatch
    if action.kind == "F" then
        activations[key] = stream:alloc(bytes, "activation")
    end
    return activations[key], function()
        if action.kind == "W" or action.kind == "BW" then
            activations[key]:free()
            activations[key] = nil
        end
    end
end

-- Enqueues one step behind a gate; returns when it opened, when the step had ended, the longest
-- time of one rank if `spans`, and the bytes that each rank held at most.
local function measure(s, times, bytes, spans)
    local ns = { F = times.F, B = times.B, W = times.W, BW = times.B + times.W }
    local done, activations, peaks, first, last, base = {}, {}, {}, {}, {}, {}
    local count = 0
    for _, list in ipairs(s.ranks) do
        count = count + #list
    end
    local door = orrery.device(0):stream("gate")
    door:kernel{ name = "gate", ns = 1000000 + 20000 * count }
    local gate = door:record()
    for rank = 0, s.rank_count - 1 do
        orrery.device(rank):stream("compute"):wait(gate)
        activations[rank], peaks[rank] = {}, 0
        base[rank] = orrery.device(rank):memory().requested
    end
    local function enqueue(action, rank)
        local stream, stage, i = orrery.device(rank):stream("compute"), action.stage,
            action.microbatch
        local needs = action.kind == "F" and done["F" .. stage - 1 .. "/" .. i] or
            action.kind ~= "F" and done["B" .. stage + 1 .. "/" .. i]
        if needs and action.kind ~= "W" then
            stream:wait(needs)
        end
        local activation, release = keep(activations[rank], stream, action, bytes)
        peaks[rank] = math.max(peaks[rank], orrery.device(rank):memory().requested - base[rank])
        stream:kernel{ name = action.kind, ns = ns[action.kind],
                       writes = action.kind == "F" and {activation} or nil,
                       reads = action.kind ~= "F" and {activation} or nil }
        release()
        last[rank] = stream:record()
        first[rank] = first[rank] or last[rank]
        if action.kind ~= "W" then
            done[action.kind:sub(1, 1) .. stage .. "/" .. i] = last[rank]
        end
    end
    local function nothing() end
    pipeline.run(s, { forward = nothing, backward = nothing, backward_input = nothing,
                      backward_weight = nothing, before = enqueue }, times)
    if orrery.backend == "sim" and gate:query() then
        error("the gate opened before all was enqueued, since the launch queue of a device was " ..
              "full; expected fewer microbatches or chunks", 0)
    end
    door:sync()
    local begin, longest = orrery.now(), 0
    -- ZB-H2 and ZB-V let ranks start and end one after the other: each has a span of its own
    if spans then
        local started = {}
        for rank = 0, s.rank_count - 1 do
            first[rank]:sync()
            started[rank] = orrery.now() - times.F
        end
        for rank = 0, s.rank_count - 1 do
            last[rank]:sync()
            longest = math.max(longest, orrery.now() - started[rank])
        end
    end
    for rank = 0, s.rank_count - 1 do
        door:wait(last[rank])
    end
    door:sync()
    return begin, orrery.now(), longest, peaks
end

local function text(fraction)
    return fraction[1] .. "/" .. fraction[2]
end

local function case(kind, ranks, microbatches, chunks)
    local s = pipeline.schedule{ kind = kind, ranks = ranks, microbatches = microbatches,
                                 chunks = chunks }
    local _, held = pipeline.check(s)
    chunks = s.chunks
    local times = { F = p.forward_ns // chunks, B = p.backward_ns // chunks,
                    W = p.weight_ns // chunks }
    local bytes = p.bytes // chunks
    local wanted, wanted_step, of = pipeline.bubble(kind, ranks, microbatches, chunks, times)
    local begin, finish, longest, peaks = measure(s, times, bytes, of == "period")
    local step = of == "period" and longest or finish - begin
    local work = microbatches * chunks * (times.F + times.B + times.W)
    local counts = {}
    for rank = 0, ranks - 1 do
        counts[rank + 1] = peaks[rank] // bytes
        expect.equal(peaks[rank], held[rank + 1] * bytes)
        if kind == "gpipe" then
            expect.equal(peaks[rank], microbatches * bytes)
        elseif kind == "1f1b" then
            expect.equal(peaks[rank], math.min(microbatches, ranks - rank) * bytes)
        end
    end
    print(string.format("%-14s %2d %3d %2d  %8.1f us  %5.1f %%  %6s  %s", kind, ranks, microbatches,
                        chunks, step / 1e3, 100 * (step - work) / step, text(wanted),
                        table.concat(counts, " ")))
    if orrery.backend == "sim" then
        expect.time_ns(step, wanted_step, 0)
        expect.equal((step - work) * wanted[2], wanted[1] * step)
    end
    return step, step - work
end

print("                p   m  v         step  bubble formula  activations held, by rank")
if p.kind ~= "all" then
    local _, idle = case(p.kind, p.ranks, p.microbatches, p.chunks > 0 and p.chunks or nil)
    -- What the analyzer makes of the trace, of schedules in which all ranks have one begin and end
    -- and only the first rank begins with nothing but the gate, which is no stage.
    local told = { gpipe = true, ["1f1b"] = true, interleaved = true, zero_bubble = true }
    if orrery.backend == "sim" and told[p.kind] then
        for rank = 0, p.ranks - 1 do
            expect.analysis("devices[" .. rank .. "].bubble.bubble_ns", idle)
        end
        expect.analysis("pipelines[0].bubble_ns", p.ranks * idle)
    end
else
    for _, counts in ipairs{ {2, 4}, {4, 8}, {6, 12}, {8, 16} } do
        local ranks, microbatches = counts[1], counts[2]
        local gpipe = case("gpipe", ranks, microbatches)
        local one = case("1f1b", ranks, microbatches)
        expect.equal(one, gpipe)
        for _, chunks in ipairs{2, 3} do
            expect.less(case("interleaved", ranks, microbatches, chunks), one)
        end
        local split = case("zero_bubble", ranks, microbatches)
        local work = microbatches * (p.forward_ns + p.backward_ns + p.weight_ns)
        -- a third of the bubble of 1F1B where F, B and W take the same time
        if p.forward_ns == p.weight_ns and p.backward_ns == p.weight_ns then
            expect.equal(3 * (split - work), one - work)
        end
        expect.equal(case("zero_bubble_2", ranks, microbatches), work)
        expect.equal(case("zero_bubble_v", ranks, microbatches), work)
        expect.less(case("bidirectional", ranks, microbatches), one)
        expect.less(case("dualpipe", ranks, microbatches), split + 1)
    end
end
expect.clean()
