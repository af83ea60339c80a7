-- The same mistake where it has no consequence yet: a buffer is freed although a side stream reads
-- it, and nobody gets its bytes in this run. Under memory pressure somebody will. The check reports
-- the free itself; the adversarial allocator, in which freed memory is undefined at once, shows it
-- in the numbers.
--
-- fixed=true: the main stream waits for the side stream before the free.
--
-- devices: sim:teaching
-- test: --check
-- test: allocator=adversarial --check
-- test: fixed=true --check
-- test: fixed=true allocator=adversarial --check

local p = orrery.args{ fixed = false, allocator = "caching" }
orrery.perturb{ allocator = p.allocator }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local y, host = side:alloc(4096, "y"), orrery.host_alloc(4096, "host")

local x = main:alloc(4096, "x")
main:kernel{ name = "produce", writes = {x}, ns = 10000 }
side:wait(main:record())
side:kernel{ name = "consume", reads = {x}, writes = {y}, ns = 100000 }
if p.fixed then
    main:wait(side:record())
end
x:free()

side:copy{ to = host, from = y }
d:sync()

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" and p.allocator == "adversarial"
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("unordered-free")
end
