-- A tensor is cloned on another stream than the one that computes it: the new memory belongs to the
-- cloning stream, but nobody made that wait. The original is then overwritten by the next step,
-- while the clone may still be reading it.
--
-- fixed=true: the cloning stream waits for the original, and the next step for the clone.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local x, host = main:alloc(1 << 20, "x"), orrery.host_alloc(4096, "host")

main:kernel{ name = "step 1", writes = {x}, ns = 50000 }
if p.fixed then
    side:wait(main:record())
end
local clone = side:alloc(1 << 20, "clone")
side:copy{ to = clone, from = x }
if p.fixed then
    main:wait(side:record())
end
main:kernel{ name = "step 2", writes = {x}, ns = 50000 }
side:copy{ to = host, from = {clone, 0, 4096} }
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
