-- Pipeline schedules as text: those of the papers, or one of your own, with what they cost.
-- kind=all leaves out dualpipe, which needs twice as many microbatches as ranks.
--
--     orrery run scenarios/pipeline/draw.lua kind=zero_bubble ranks=8 microbatches=16 width=200
--     orrery run scenarios/pipeline/draw.lua rows=F0,F1,B1,B0/F0,F1,B0,B1 forward=2
--
-- In a column: F forward, B backward (where there is a W of the same, the gradient of the input
-- only), W gradient of the weights, each with its microbatch. A letter behind it is a further
-- chunk of the rank; lower case is the second replica of a bidirectional pipeline; "-" goes on,
-- "." waits. A backward takes `backward` and `weight` together.
--
-- The last one is also run, as kernels of 1 ms for each unit: its trace is the drawing to scale.
--
-- devices: sim:teaching*16
-- test:
-- test: kind=interleaved chunks=3
-- test: kind=bidirectional ranks=16 microbatches=64 from=400
-- test: kind=dualpipe ranks=6 microbatches=14 width=230
-- test: rows=F0,F1,B1,B0/F0,F1,B0,B1 forward=2

local pipeline = require "pipeline"

local p = orrery.args{ kind = "all", ranks = 4, microbatches = 8, chunks = 2, rows = "",
                       forward = 1, backward = 1, weight = 1, send = 0, width = 100, from = 0 }

local times = { F = p.forward, B = p.backward, W = p.weight, send = p.send }

-- Enqueues a schedule: a kernel for each action, an event for what a stage gives to the next one.
local function play(s)
    local done = {}
    local function enqueue(kind, ns, what, from)
        return function(stage, i, replica)
            local stream = orrery.device(s.rank_of(stage, replica)):stream("compute")
            local needed = from and done[what .. stage + from .. "/" .. i]
            if needed then
                stream:wait(needed)
            end
            stream:kernel{ name = kind .. i, ns = ns * 1000000 }
            done[what .. stage .. "/" .. i] = stream:record()
        end
    end
    pipeline.run(s, { forward = enqueue("F", p.forward, "F", -1),
                      backward = enqueue("B", p.backward + p.weight, "B", 1),
                      backward_input = enqueue("B", p.backward, "B", 1),
                      backward_weight = enqueue("W", p.weight, "W") },
                 { F = p.forward, B = p.backward, W = p.weight })
end

local last

local function show(name, s)
    local live, held = pipeline.check(s)
    local cost = pipeline.simulate(s, times)
    print(string.format("%s: %d ranks, %d microbatches%s: %d units%s, bubble %d/%d = %.1f %%", name,
                        s.rank_count, s.microbatches,
                        s.chunks > 1 and ", " .. s.chunks .. " chunks" or "", cost.makespan,
                        cost.period < cost.makespan and
                            " (" .. cost.period .. " when steps overlap)" or "",
                        cost.bubble[1], cost.bubble[2], 100 * cost.bubble[1] / cost.bubble[2]))
    print("activations: " .. table.concat(live, " ") .. "; for the weights: " ..
          table.concat(held, " "))
    print(pipeline.draw(s, { F = p.forward, B = p.backward, W = p.weight, send = p.send,
                             width = p.width, from = p.from }))
    last = s
end

local function paper(kind)
    show(kind, pipeline.schedule{ kind = kind, ranks = p.ranks, microbatches = p.microbatches,
                                  chunks = kind == "interleaved" and p.chunks or nil })
end

if p.rows ~= "" then
    show("rows", pipeline.parse((p.rows:gsub(",", " "):gsub("/", "\n"))))
elseif p.kind ~= "all" then
    paper(p.kind)
else
    for _, kind in ipairs{ "gpipe", "1f1b", "interleaved", "zero_bubble", "zero_bubble_2",
                           "zero_bubble_v", "bidirectional" } do
        paper(kind)
    end
end
if p.send == 0 and last.rank_count <= orrery.devices then
    local begin = orrery.now()
    play(last)
    for rank = 0, last.rank_count - 1 do
        orrery.device(rank):sync()
    end
    -- the host launches in between, in microseconds
    if orrery.backend == "sim" then
        local wanted = pipeline.simulate(last, times).makespan * 1000000
        expect.time_ns(orrery.now() - begin, wanted, 0.01)
    end
end
expect.clean()
