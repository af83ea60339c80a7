-- Enqueue 5 ms of work in 20 us: four times that are easily mixed up, and what happens to a program
-- that mixes them up.
--
-- The call that launches the kernel takes the host 20 us (submission). The kernel then runs for 5
-- ms (device service) and reads its input from pinned host memory all the while, so the earliest
-- moment at which the input may be rewritten is 5.02 ms, not 0.02 ms when the call has returned.
-- Waiting for that moment is synchronization. Rewriting at 0.02 ms (early=true) is a race: in
-- simulation the result is poisoned, on a real device it may be anything.
--
-- devices: sim:teaching
-- test:
-- test: early=true

local p = orrery.args{ early = false, elements = 1024 }

local bytes = 4 * p.elements
local s = orrery.device(0):stream("compute")
local input = orrery.host_alloc(bytes, "input")
local output = orrery.host_alloc(bytes, "output")
local result = orrery.device(0):alloc(bytes, "result")
s:sync()
input:write(1.0)

local t0 = orrery.now()
s:kernel{ name = "work", reads = {input}, writes = {result}, submit_ns = 20000, ns = 5000000 }
local returned = orrery.now() - t0

if p.early then
    input:write(2.0) -- the call has returned, but the kernel is still reading
end
s:sync()
local done = orrery.now() - t0
if not p.early then
    input:write(2.0) -- safe: the kernel has finished
end

s:copy{ to = output, from = result }
s:sync()

print(string.format("submission       %8.3f us  (the call returned)", returned / 1e3))
print(string.format("device service   %8.3f us", 5000.0))
print(string.format("synchronization  %8.3f us  (the host waited)", (done - returned) / 1e3))
print(string.format("earliest safe reuse of the input at %.3f ms", done / 1e6))

expect.time_ns(returned, 20000)
expect.analysis("commands[0].submission_ns", 20000)
expect.analysis("commands[0].queued_ns", 0)
expect.analysis("commands[0].device_ns", 5000000)
expect.analysis("commands[0].inputs_reusable_ns", t0 + 5020000)
if not orrery.timing_only then
    local value = output:f32(0)
    local right = value == value -- poison is NaN, which does not equal itself
    print("the numbers are " .. (right and "right" or "wrong"))
    expect.equal(right, not p.early)
end
if p.early then
    expect.finding("failed_ops")
else
    expect.time_ns(done, 5020000)
    expect.clean()
end
