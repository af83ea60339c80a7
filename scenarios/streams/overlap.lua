-- Two streams of one device. One produces, the other waits for it and consumes; work that needs
-- neither runs beside the consumer. Without the wait (drop_wait=true) the consumer reads while the
-- producer still writes: it finishes earlier, and its result is poison.
--
-- devices: sim:teaching
-- test:
-- test: drop_wait=true

local p = orrery.args{ bytes = 1 << 20, drop_wait = false }

local d = orrery.device(0)
local s, c = d:stream("compute"), d:stream("communicate")
local a, b, out = d:alloc(p.bytes, "a"), d:alloc(p.bytes, "b"), d:alloc(p.bytes, "out")
local host = orrery.host_alloc(p.bytes, "host")

s:kernel{ name = "produce", writes = {a}, ns = 100000 }
local e = s:record()
if not p.drop_wait then
    c:wait(e)
end
c:kernel{ name = "consume", reads = {a}, writes = {out}, ns = 50000 }
s:kernel{ name = "independent", writes = {b}, ns = 50000 }
d:sync()
local done = orrery.now()
print(string.format("all done at %.3f us", done / 1e3))

c:copy{ to = host, from = out }
c:sync()

-- allocations take 1 ns each, a launch 5 us: "produce" starts at 5.004 us
expect.time_ns(done, 5004 + 150000, 0)
if p.drop_wait then
    expect.finding("failed_ops")
else
    expect.clean()
end
if not orrery.timing_only then
    local value = host:f32(0)
    print("the result is " .. (value == value and "right" or "poison"))
    expect.equal(value == value, not p.drop_wait)
end
