-- Several producers, and the consumer waits for the last one that was called. They run side by
-- side: the last one called is not the last one to finish.
--
-- fixed=true: it waits for all of them.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ producers = 3, fixed = false }
local d = orrery.device(0)
local main = d:stream("compute")
local sum, host = d:alloc(4096, "sum"), orrery.host_alloc(4096, "host")
local parts, done = {}, {}

for i = 1, p.producers do
    local s = d:stream("producer " .. i)
    parts[i] = d:alloc(4096, "part " .. i)
    s:kernel{ name = "produce " .. i, writes = {parts[i]}, ns = 200000 // i }
    done[i] = s:record()
end
for i = p.fixed and 1 or p.producers, p.producers do
    main:wait(done[i])
end
main:kernel{ name = "sum", reads = parts, writes = {sum}, ns = 20000 }
main:copy{ to = host, from = sum }
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
