-- Two buffers take turns: while one batch is computed the next one is uploaded. That the compute
-- stream waits for the upload is half of it; the upload of batch 2 goes where batch 0 was, and must
-- wait until batch 0 has been computed.
--
-- fixed=true: an event for each buffer says when its last reader was done.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ batches = 4, fixed = false }
local d = orrery.device(0)
local main, copies = d:stream("compute"), d:stream("copy")
local bytes = 1 << 16
local host, out = orrery.host_alloc(bytes, "host"), d:alloc(bytes, "out")
local source, batch, consumed = {}, {}, {}
for i = 0, 1 do
    batch[i] = d:alloc(bytes, "batch " .. i)
end

main:fill{ to = out, value = 0 }
for i = 0, p.batches - 1 do
    source[i] = orrery.host_alloc(bytes, "source " .. i)
    source[i]:write(i + 0.0)
    local slot = i % 2
    if p.fixed and consumed[slot] then
        copies:wait(consumed[slot])
    end
    copies:copy{ to = batch[slot], from = source[i] }
    main:wait(copies:record())
    main:kernel{ name = "compute", reads = {batch[slot], out}, writes = {out}, ns = 100000 }
    consumed[slot] = main:record()
end
main:copy{ to = host, from = out }
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
