-- Two streams share a buffer, half each. One of them takes an element too much: the first of the
-- other half. Only that element is at stake, and only sometimes wrong.
--
-- fixed=true: each takes its own half. Halves that don't overlap need no wait.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ elements = 1024, fixed = false }
local d = orrery.device(0)
local left, right = d:stream("left"), d:stream("right")
local half, bytes = p.elements // 2 * 4, p.elements * 4
local x, host = d:alloc(bytes, "x"), orrery.host_alloc(bytes, "host")

left:kernel{ name = "left half", writes = {{x, 0, p.fixed and half or half + 4}}, ns = 50000 }
right:kernel{ name = "right half", writes = {{x, half, bytes}}, ns = 50000 }
d:sync()
left:copy{ to = host, from = x }
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
