-- A block comes back from the pool with work pending on it: a communicate stream still writes what
-- it received. The host freed the buffer as soon as it had enqueued that, and the next owner writes
-- its own data into the same bytes.
--
-- fixed=true: the owner's stream joins the communicate stream before the free.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, wire = d:stream("compute"), d:stream("communicate")
local host = orrery.host_alloc(4096, "host")

local received = main:alloc(4096, "received")
wire:wait(main:record())
wire:kernel{ name = "receive", writes = {received}, ns = 100000 }
if p.fixed then
    main:wait(wire:record())
end
received:free()

local activations = main:alloc(4096, "activations")
main:kernel{ name = "forward", writes = {activations}, ns = 20000 }
main:copy{ to = host, from = activations }
d:sync()

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("use-after-free")
end
