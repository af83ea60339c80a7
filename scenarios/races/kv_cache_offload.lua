-- A sequence is paused: its block of the key-value cache is copied out to the host, and the block
-- is given to the next sequence as soon as the copy is enqueued. The decoder writes the new
-- sequence's keys while the old ones are still on their way out.
--
-- fixed=true: whoever gets the block waits for its offload.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local d = orrery.device(0)
local main, copies = d:stream("compute"), d:stream("copy")
local bytes = 1 << 20
local block, host = d:alloc(bytes, "cache block"), orrery.host_alloc(bytes, "offloaded")

main:kernel{ name = "decode a", writes = {block}, ns = 20000 }
copies:wait(main:record())
copies:copy{ to = host, from = block }
local offloaded = copies:record()

if p.fixed then
    main:wait(offloaded)
end
main:kernel{ name = "prefill b", writes = {block}, ns = 20000 }
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
