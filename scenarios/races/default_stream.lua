-- Work in the default stream is believed to order everything. It orders blocking streams only: a
-- library that makes its streams non-blocking gets no order from it, in either direction.
--
-- fixed=true: the consumer's stream is a blocking one.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local default = d:legacy()
local side = d:stream("side", { kind = "compute", sync = p.fixed and "bl" or "nb" })
local x, y, host = d:alloc(4096, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

default:kernel{ name = "produce", writes = {x}, ns = 100000 }
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
