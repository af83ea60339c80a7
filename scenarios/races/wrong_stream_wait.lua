-- There is a wait, but for the wrong stream: the work moved to a side stream, and the consumer
-- still waits for the main one.
--
-- fixed=true: it waits for the stream that produces.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side, last = d:stream("compute"), d:stream("side"), d:stream("last")
local x, y, host = d:alloc(4096, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

main:kernel{ name = "other work", ns = 20000 }
side:kernel{ name = "produce", writes = {x}, ns = 100000 }
last:wait((p.fixed and side or main):record())
last:kernel{ name = "consume", reads = {x}, writes = {y}, ns = 20000 }
last:copy{ to = host, from = y }
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
