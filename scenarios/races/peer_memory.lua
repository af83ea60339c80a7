-- A device reads its peer's memory directly. The peer knows nothing of it and goes on with its next
-- step, which overwrites what is being read.
--
-- fixed=true: the peer waits until it has been read.
--
-- devices: sim:teaching*2
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d, peer = orrery.device(0), orrery.device(1)
local s, t = d:stream("compute"), peer:stream("compute")
local bytes = 1 << 20
local x, y = d:alloc(bytes, "x"), peer:alloc(bytes, "y")
local host = orrery.host_alloc(4096, "host")

s:kernel{ name = "step 1", writes = {x}, ns = 20000 }
t:wait(s:record())
t:copy{ to = y, from = x }
if p.fixed then
    s:wait(t:record())
end
s:kernel{ name = "step 2", writes = {x}, ns = 20000 }
t:copy{ to = host, from = {y, 0, 4096} }
d:sync()
peer:sync()

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
