-- A device fails its nth command. Whoever waits for what that would have computed is skipped, with
-- the first failure as the cause; what needs nothing of it goes on. The host hears of it when it
-- asks, and the run has failed. Without the fault (nth=0) it ends well.
--
-- devices: sim:teaching*2
-- test: nth=0

local p = orrery.args{ nth = 2 }
if p.nth > 0 then
    orrery.perturb{ device_error = { device = 0, nth = p.nth } }
end

local s, t = orrery.device(0):stream("compute"), orrery.device(1):stream("compute")
local other = orrery.device(1):stream("side")
local x, y = s:alloc(4096, "x"), t:alloc(4096, "y")
local z, host = other:alloc(4096, "z"), orrery.host_alloc(4096, "host")

s:kernel{ name = "first", writes = {x}, ns = 10000 }
s:kernel{ name = "second", reads = {x}, writes = {x}, ns = 10000 }
t:wait(s:record())
t:copy{ to = y, from = x }
other:kernel{ name = "independent", writes = {z}, ns = 10000 }
other:copy{ to = host, from = z }
other:sync()
local value = host:f32(0)
print("what needs nothing of the other device is " .. (value == value and "right" or "poison"))
expect.equal(value, value)

t:sync()
print("nothing failed")
expect.clean()
