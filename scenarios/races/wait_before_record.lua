-- The consumer's stream is told to wait before the producer's event is recorded. A wait for an
-- event that was never recorded waits for nothing, whatever is recorded later.
--
-- fixed=true: first recorded, then waited for.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local x, y, host = d:alloc(4096, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")
local ready = orrery.event("ready")

if not p.fixed then
    side:wait(ready)
end
main:kernel{ name = "produce", writes = {x}, ns = 100000 }
main:record(ready)
if p.fixed then
    side:wait(ready)
end
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
