-- A synchronous copy returns too early. From pageable memory to a device the call comes back when
-- its source has been read; the transfer that follows may still be under way, in the default
-- stream, which orders nothing for a stream that is not a blocking one.
--
-- fixed=true: the host waits for the default stream.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local side = d:stream("side")
local bytes = 1 << 20
local source = orrery.host_alloc(bytes, { label = "source", pageable = true })
local x, y, host = d:alloc(bytes, "x"), d:alloc(4096, "y"), orrery.host_alloc(4096, "host")

source:write(1.0)
d:copy_sync{ to = x, from = source }
if p.fixed then
    d:legacy():sync()
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
