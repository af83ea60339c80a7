-- A side stream reads what the main stream is still producing. Streams run side by side; that the
-- producer was called first orders nothing.
--
-- fixed=true: the side stream waits for the producer.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local x, y, host = d:alloc(4096, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

main:kernel{ name = "produce", writes = {x}, ns = 100000 }
if p.fixed then
    side:wait(main:record())
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
