-- A small multilayer perceptron learns to tell points inside a ring from those outside: the loss
-- falls, and with the batch over 2 or 4 devices (data parallelism) it falls exactly as on one.
--
--     orrery run scenarios/training/mlp.lua --devices cpu*4
--
--     device 0   x[0:B/2]  w ->  loss terms   dw terms --+
--     device 1   x[B/2:B]  w ->  loss terms   dw terms --+--> all-reduce --> same step everywhere
--
-- Each rank has all parameters and a part of the batch. The loss and the gradients of the
-- parameters come out partial, P(sum); gradients are reduced before the step.
--
-- devices: sim:h100*4
-- test:
-- test: optimizer=sgd
-- test: dtype=bf16
-- test: passes=2
-- test: dtype=f16 scaled=true

local training = require "training"

local p = orrery.args{ steps = 30, batch = 32, hidden = 16, lr = 0.05, optimizer = "adamw",
                       dtype = "f32", passes = 1, scaled = false }

-- Points on a spiral of radii; the class is whether the radius is below 1.
local function points(first, count)
    local xs, classes = {}, {}
    for i = first, first + count - 1 do
        local radius, angle = 0.25 + 1.5 * ((i * 37) % 64) / 64, i * 2.399963
        xs[#xs + 1], xs[#xs + 2] = radius * math.cos(angle), radius * math.sin(angle)
        classes[#classes + 1] = radius < 1 and 1 or 0
    end
    return xs, classes
end

local function on(mesh, shape, dtype, values, place)
    return orrery.tensor{ shape = shape, dtype = dtype, values = values, mesh = mesh,
                          place = {place} }
end

local function build(mesh)
    local function weights(seed, rows, columns)
        local drawn <close> = orrery.randn{ shape = {rows, columns}, dtype = "f32", seed = seed,
                                            mesh = mesh, place = {"R"} }
        local scaled <close> = drawn * (1 / math.sqrt(columns))
        return scaled:cast{ dtype = p.dtype }
    end
    local function bias(width)
        return orrery.zeros{ shape = {width}, dtype = p.dtype, mesh = mesh, place = {"R"} }
    end
    return { w1 = weights(1, p.hidden, 2), b1 = bias(p.hidden), w2 = weights(2, 2, p.hidden),
             b2 = bias(2) }
end

-- The loss of each step on the first `count` devices.
local function train(count)
    local devices = {}
    for i = 1, count do
        devices[i] = i - 1
    end
    local mesh = orrery.mesh{ shape = {count}, names = {"dp"}, devices = devices }
    local model, curve = build(mesh), {}
    local options = { parameters = model, lr = p.lr }
    if p.optimizer == "sgd" then
        options.lr, options.momentum = p.lr, 0.9
    else
        options.master = p.dtype ~= "f32"
    end
    local optimizer = training[p.optimizer](options)
    -- too large at first: steps are left out until the scaled gradients are finite
    local scaler = p.scaled and training.scaler{ init = 2.0 ^ 24 }
    local part = p.batch // p.passes
    for step = 1, p.steps do
        local grads, total = nil, 0
        for pass = 1, p.passes do
            local xs, classes = points((pass - 1) * part, part)
            local x <close> = on(mesh, {part, 2}, p.dtype, xs, "S(0)")
            local targets <close> = on(mesh, {part}, "i64", classes, "S(0)")
            -- a pass gives its part of the mean over the whole batch
            local loss <close>, more = training.gradients(model, function()
                local h = orrery.gelu(orrery.linear(x, model.w1, model.b1))
                return orrery.linear(h, model.w2, model.b2)
                    :cross_entropy(targets, { total = p.batch })
            end, scaler and scaler.scale)
            grads = training.accumulate(grads, more)
            local future = loss:future()
            total = total + future:get()
            future:free()
            expect.equal(loss:place(), "P(sum)")
            expect.equal(grads.w1:place(), "P(sum)")
        end
        training.reduce(model, grads, "R")
        if not scaler or scaler:unscale(grads) then
            optimizer:step(grads)
        end
        curve[step] = total
    end
    if scaler then
        expect.less(0, scaler.skipped)
        expect.less(scaler.skipped, 10)
    end
    for _, tensor in pairs(model) do
        tensor:free()
    end
    return curve
end

local one = train(1)
print(string.format("1 device:  loss %.3f -> %.3f", one[1], one[p.steps]))
expect.less(one[p.steps], 0.5 * one[1])
for _, count in ipairs{2, 4} do
    if count <= orrery.devices then
        local curve, worst = train(count), 0
        for i, loss in ipairs(curve) do
            worst = math.max(worst, math.abs(loss - one[i]))
        end
        print(string.format("%d devices: loss %.3f -> %.3f", count, curve[1], curve[p.steps]))
        -- the order of additions differs; 16-bit gradients are rounded before they are added up
        expect.less(worst, p.dtype == "f32" and 1e-5 or 0.02)
    end
end
expect.clean()
