-- A buffer is freed while a side stream still reads it. The allocator knows only the stream that
-- the buffer was made for: the next buffer of that stream gets the same bytes, and its writer runs
-- into the reader.
--
-- fixed=true: the side stream is recorded, so that the bytes stay until it is done with them.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, side = d:stream("compute"), d:stream("side")
local y, host = side:alloc(4096, "y"), orrery.host_alloc(4096, "host")

local x = main:alloc(4096, "x")
main:kernel{ name = "produce", writes = {x}, ns = 10000 }
side:wait(main:record())
side:kernel{ name = "consume", reads = {x}, writes = {y}, ns = 100000 }
if p.fixed then
    x:record_stream(side)
end
x:free()

local next = main:alloc(4096, "next")
main:kernel{ name = "overwrite", writes = {next}, ns = 10000 }
side:copy{ to = host, from = y }
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
