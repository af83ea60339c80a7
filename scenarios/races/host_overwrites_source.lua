-- The host prepares the next batch in the buffer that is still being uploaded: the copy reads
-- pinned memory when its turn comes, not when it was called.
--
-- fixed=true: the host waits for the upload's event.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local s = d:stream("compute")
local bytes = 1 << 16
local source, host = orrery.host_alloc(bytes, "source"), orrery.host_alloc(bytes, "host")
local x = d:alloc(bytes, "x")

source:write(1.0)
s:copy{ to = x, from = source }
local uploaded = s:record()
if p.fixed then
    uploaded:sync()
end
source:write(2.0, { ns = 20000 })
s:copy{ to = host, from = x }
s:sync()

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
