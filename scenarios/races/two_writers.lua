-- Two streams write one output, and whoever comes last decides what is in it: a fallback path fills
-- the result that the fast path is still writing.
--
-- fixed=true: the second writer waits for the first.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local y, host = d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

main:kernel{ name = "fast path", writes = {y}, ns = 50000 }
if p.fixed then
    side:wait(main:record())
end
side:kernel{ name = "fallback", writes = {y}, ns = 50000 }
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
