-- A schedule that can't go on: rank 0 wants the gradient of microbatch 0 before it sends microbatch
-- 1, rank 1 wants microbatch 1 before it makes that gradient. With blocking sends and receives both
-- would hang. The executor says who waits for what before it calls anything.
--
--     rank 0   F0 B0 F1 B1        B0 needs rank 1's B0
--     rank 1   F0 F1 B0 B1        F1, before B0, needs rank 0's F1, behind B0
--
-- caught=false lets the error end the run, as it would end a run that is not prepared for it.
--
-- devices: sim:teaching*2
-- test:

local pipeline = require "pipeline"

local p = orrery.args{ caught = true }

local s = pipeline.parse [[
    F0 B0 F1 B1
    F0 F1 B0 B1
]]

local calls = 0
local function call(stage)
    calls = calls + 1
    orrery.device(stage):stream("compute"):kernel{ name = "stage", ns = 1000 }
end

local function run()
    pipeline.run(s, { forward = call, backward = call })
end

if not p.caught then
    run()
end
local ok, text = pcall(run)
print(text)
expect.equal(ok, false)
expect.equal(text, "pipeline: the schedule can't go on: " ..
             "rank 0 at action 2, BW0 of stage 0, waits for rank 1's BW0 of stage 1; " ..
             "rank 1 at action 2, F1 of stage 1, waits for rank 0's F1 of stage 0")
expect.equal(calls, 0)

-- the same actions in an order that can be kept
s = pipeline.parse [[
    F0 F1 B0 B1
    F0 B0 F1 B1
]]
run()
print("the other order: " .. calls .. " calls")
expect.equal(calls, 8)
expect.clean()
