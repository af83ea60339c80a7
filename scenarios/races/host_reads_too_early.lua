-- The host reads a download before it has arrived: a copy to pinned memory returns at once.
--
-- fixed=true: the host waits for the stream first.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local s = d:stream("compute")
local x, host = d:alloc(4096, "x"), orrery.host_alloc(4096, "host")

s:kernel{ name = "produce", writes = {x}, ns = 50000 }
s:copy{ to = host, from = x }
if p.fixed then
    s:sync()
end

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
