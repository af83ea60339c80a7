-- The event is recorded before the last kernel that matters: it stands for what was in the stream
-- when it was recorded, not for what came later.
--
-- fixed=true: recorded behind the last one.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local x, y, host = d:alloc(4096, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

main:kernel{ name = "produce", writes = {x}, ns = 20000 }
local ready = main:record()
main:kernel{ name = "normalize", reads = {x}, writes = {x}, ns = 100000 }
if p.fixed then
    ready = main:record()
end
side:wait(ready)
side:kernel{ name = "consume", reads = {x}, writes = {y}, ns = 20000 }
side:copy{ to = host, from = y }
d:sync()

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
