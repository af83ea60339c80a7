-- A host function in the stream prepares what the next upload takes. The event that the copy stream
-- waits for was recorded before it: the kernel is done then, the host function not.
--
-- fixed=true: recorded behind the host function.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
orrery.perturb{ delay = { name = "tokenize", ns = 50000 } } -- host functions take no time otherwise
local d = orrery.device(0)
local main, copies = d:stream("compute"), d:stream("copy")
local staging, host = orrery.host_alloc(4096, "staging"), orrery.host_alloc(4096, "host")
local x, y = d:alloc(4096, "x"), d:alloc(4096, "y")

main:kernel{ name = "produce", writes = {x}, ns = 20000 }
main:copy{ to = staging, from = x }
local ready = main:record()
main:hostfn{ name = "tokenize", reads = {staging}, writes = {staging} }
if p.fixed then
    ready = main:record()
end
copies:wait(ready)
copies:copy{ to = y, from = staging }
copies:copy{ to = host, from = y }
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
