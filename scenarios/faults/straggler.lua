-- Data parallelism waits for its slowest device. Four devices compute a gradient and reduce it; one
-- of them takes `by` times as long, the others wait for it in the collective, and every step takes
-- what the slow one takes. The numbers are the same.
--
-- devices: sim:teaching*4
-- test:
-- test: by=3
-- test: by=3 --perturb jitter=0.2

local p = orrery.args{ by = 1.0, steps = 3 }
orrery.perturb{ straggler = { device = 1, by = p.by } }

local world = orrery.communicator{}
local main, wire, gradient, weights = {}, {}, {}, {}
for i = 1, orrery.devices do
    local d = orrery.device(i - 1)
    main[i], wire[i] = d:stream("compute"), d:stream("communicate")
    gradient[i], weights[i] = d:alloc(1 << 16, "gradient"), d:alloc(1 << 16, "weights")
    main[i]:fill{ to = weights[i], value = 0 }
end

local ended = {}
for step = 1, p.steps do
    for i = 1, orrery.devices do
        main[i]:kernel{ name = "gradient", reads = {weights[i]}, writes = {gradient[i]},
                        ns = 200000 }
        wire[i]:wait(main[i]:record())
    end
    world:all_reduce{ input = gradient }
    for i = 1, orrery.devices do
        main[i]:wait(wire[i]:record())
        main[i]:kernel{ name = "update", reads = {weights[i], gradient[i]}, writes = {weights[i]},
                        ns = 10000 }
    end
    main[1]:sync()
    ended[step] = orrery.now()
end

local host = orrery.host_alloc(1 << 16, "host")
main[1]:copy{ to = host, from = weights[1] }
main[1]:sync()
local step_ns = ended[2] - ended[1]
print(string.format("a step takes %.0f us", step_ns / 1e3))
if orrery.seed == 0 and not orrery.timing_only then
    print(string.format("weights: %.6g", host:f32(7)))
end
expect.less(200000 * p.by, step_ns * 1.25) -- jitter may shorten it by a fifth
expect.clean()
