-- Two host threads share a pinned buffer: a loader fills it, a trainer uploads it. The loader is
-- told when the upload has been called, and fills the buffer again while the copy is still reading
-- it.
--
-- fixed=true: the trainer says so when the upload is done.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ batches = 3, fixed = false }
local d = orrery.device(0)
local s = d:stream("compute")
local bytes = 1 << 20
local staging, seen = orrery.host_alloc(bytes, "staging"), orrery.host_alloc(4096, "seen")
local x = s:alloc(bytes, "x")
local full, empty = orrery.mailbox("full"), orrery.mailbox("empty")

local function load()
    for i = 1, p.batches do
        empty:take()
        staging:write(i + 0.0, { ns = 1000 })
        full:put(i)
    end
end

local function train()
    for i = 1, p.batches do
        empty:put(true)
        full:take()
        s:copy{ to = x, from = staging }
        if p.fixed then
            s:sync()
        end
        s:copy{ to = {seen, 4 * i, 4 * i + 4}, from = {x, 0, 4} }
    end
end

orrery.host(function(thread)
    if thread == 0 then load() else train() end
end, 2)
orrery.join()
s:sync()

local right = true
for i = 1, p.batches do
    right = right and seen:f32(i) == i
end
print("the batches are " .. (right and "right" or "wrong"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(right, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
