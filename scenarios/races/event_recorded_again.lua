-- One event for two producers: the second record replaces the first, and the wait that comes after
-- covers the second producer only.
--
-- fixed=true: an event for each producer.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local left, right, main = d:stream("left"), d:stream("right"), d:stream("compute")
local x, y, sum = d:alloc(4096, "x"), d:alloc(4096, "y"), d:alloc(4096, "sum")
local host = orrery.host_alloc(4096, "host")
local done = orrery.event("done")

left:kernel{ name = "left", writes = {x}, ns = 100000 }
left:record(done)
right:kernel{ name = "right", writes = {y}, ns = 20000 }
local right_done = right:record(p.fixed and orrery.event("right done") or done)
main:wait(done)
main:wait(right_done)
main:kernel{ name = "sum", reads = {x, y}, writes = {sum}, ns = 20000 }
main:copy{ to = host, from = sum }
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
