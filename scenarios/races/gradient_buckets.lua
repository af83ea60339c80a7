-- Gradients are reduced in buckets while the backward pass goes on. The communicate stream waits
-- for the bucket to be full; but the next step's backward pass fills the same bucket again, and
-- must wait until the reduction of the last step has left it.
--
-- fixed=true: an event for each bucket is waited for before it is filled again.
--
-- devices: sim:teaching*2
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ steps = 2, buckets = 2, fixed = false }
local ranks, bytes = orrery.devices, 1 << 22
local world = orrery.communicator{}
local main, wire, bucket, reduced = {}, {}, {}, {}
for r = 1, ranks do
    local d = orrery.device(r - 1)
    main[r], wire[r], bucket[r], reduced[r] = d:stream("compute"), d:stream("communicate"), {}, {}
    for b = 1, p.buckets do
        bucket[r][b] = d:alloc(bytes, "bucket " .. b)
    end
end

for step = 1, p.steps do
    for b = 1, p.buckets do
        local members = {}
        for r = 1, ranks do
            if p.fixed and reduced[r][b] then
                main[r]:wait(reduced[r][b])
            end
            main[r]:kernel{ name = "backward", writes = {bucket[r][b]}, ns = 20000 }
            wire[r]:wait(main[r]:record())
            members[r] = bucket[r][b]
        end
        world:all_reduce{ input = members }
        for r = 1, ranks do
            reduced[r][b] = wire[r]:record()
        end
    end
end

local host = orrery.host_alloc(4096, "host")
wire[1]:copy{ to = host, from = {bucket[1][1], 0, 4096} }
for r = 0, ranks - 1 do
    orrery.device(r):sync()
end

local value = host:f32(0)
print("the result is " .. (value == value and "right" or "poison"))
local shows = not p.fixed and orrery.backend == "sim" -- other schedules may hide it
expect.equal(value == value, not shows)
if p.fixed then
    expect.clean()
else
    expect.finding("race")
end
