-- A multilayer perceptron in pipeline stages learns exactly as on one device, whatever the
-- schedule: the same losses, gradients and weights over three steps, within 1e-5 of the largest.
--
--     rank 0   x -> [linear gelu] --+                        weights lie on the rank of their
--     rank 1                        +-> [linear gelu] --+    stage; activations and gradients of
--     rank 2                                            +->  those are sent from rank to rank
--
-- The batch is cut into microbatches, each with its part of the mean loss. Chunked schedules have
-- several stages on a rank; bidirectional ones two replicas of each stage, whose gradients are
-- summed. With dp=2 a rank is two devices that share each microbatch.
--
-- devices: sim:h100*8
-- test:
-- test: ranks=2 microbatches=4
-- test: dp=2
-- test: kind=gpipe
-- test: kind=1f1b dp=2
-- test: kind=dualpipe optimizer=sgd --runner per-device

local pipeline = require "pipeline"
local training = require "training"

local p = orrery.args{ kind = "all", ranks = 4, microbatches = 8, chunks = 2, dp = 1, width = 12,
                       classes = 5, rows = 4, steps = 3, lr = 0.02, optimizer = "adamw" }

local batch = p.rows * p.microbatches

local function mesh_of(rank)
    local devices = {}
    for i = 1, p.dp do
        devices[i] = rank * p.dp + i - 1
    end
    return orrery.mesh{ shape = {p.dp}, names = {"dp"}, devices = devices }
end

-- The parameters of a stage, from seeds, so that every mesh has the same.
local function parameters(stage, last, mesh)
    local rows = stage == last and p.classes or p.width
    local drawn <close> = orrery.randn{ shape = {rows, p.width}, seed = 100 + stage, mesh = mesh,
                                        place = {"R"} }
    return { w = drawn * (2 / math.sqrt(p.width)),
             b = orrery.zeros{ shape = {rows}, mesh = mesh, place = {"R"} } }
end

-- Microbatch i: rows of numbers, and their classes; `place` says how the rows lie on the mesh.
local function inputs(i, mesh, place)
    return orrery.randn{ shape = {p.rows, p.width}, seed = 1000 + i, mesh = mesh, place = {place} }
end

local function targets(i, mesh, place)
    local classes = {}
    for row = 1, p.rows do
        classes[row] = (3 * (i * p.rows + row) + i) % p.classes
    end
    return orrery.tensor{ shape = {p.rows}, dtype = "i64", values = classes, mesh = mesh,
                          place = {place} }
end

local function apply(stage, last, x, parameter, wanted)
    local y = orrery.linear(x, parameter.w, parameter.b)
    if stage < last then
        return orrery.gelu(y)
    end
    return y:cross_entropy(wanted, { total = batch })
end

local function optimizer(model)
    return training[p.optimizer]{ parameters = model, lr = p.lr }
end

local function values(tensor)
    local whole <close> = tensor:redistribute("R")
    local future = whole:future()
    local list = future:get()
    future:free()
    return type(list) == "table" and list or {list}
end

local function free(tensors)
    for _, tensor in pairs(tensors) do
        tensor:free()
    end
end

-- On one device, microbatch after microbatch: what each step gave, lists of numbers by name.
local function reference(stage_count)
    local mesh = orrery.mesh{ shape = {1}, names = {"dp"}, devices = {0} }
    local last, model = stage_count - 1, {}
    for stage = 0, last do
        for name, tensor in pairs(parameters(stage, last, mesh)) do
            model[name .. stage] = tensor
        end
    end
    local adam, history = optimizer(model), {}
    for step = 1, p.steps do
        local sum, total, seen = nil, 0, {}
        for i = 0, p.microbatches - 1 do
            local x <close> = inputs(i, mesh, "R")
            local wanted <close> = targets(i, mesh, "R")
            local loss, grads = training.gradients(model, function()
                local h = x
                for stage = 0, last do
                    h = apply(stage, last, h, { w = model["w" .. stage], b = model["b" .. stage] },
                              wanted)
                end
                return h
            end)
            total = total + values(loss)[1]
            loss:free()
            sum = training.accumulate(sum, grads)
        end
        seen.loss = {total}
        for name, grad in pairs(sum) do
            seen["gradient of " .. name] = values(grad)
        end
        adam:step(sum)
        for name, tensor in pairs(model) do
            seen[name] = values(tensor)
        end
        history[step] = seen
    end
    free(model)
    free(adam.mean or adam.velocity)
    free(adam.square or {})
    return history
end

-- One stage of one replica with its optimizer.
local function place_stages(s)
    local places = { [0] = {}, [1] = {} }
    for r, here in ipairs(s.stages) do
        for _, at in ipairs(here) do
            local mesh = mesh_of(r - 1)
            local model = parameters(at.stage, s.stage_count - 1, mesh)
            places[at.replica][at.stage] = { mesh = mesh, model = model,
                                             optimizer = optimizer(model) }
        end
    end
    return places
end

local function largest_difference(got, wanted)
    local worst, size = 0, 0
    for i, value in ipairs(wanted) do
        local difference = math.abs(got[i] - value)
        size = math.max(size, math.abs(value))
        worst = math.max(worst, difference == difference and difference or math.huge)
    end
    return worst / math.max(size, 1e-30)
end

local function train(kind, history)
    local s = pipeline.schedule{ kind = kind, ranks = p.ranks, microbatches = p.microbatches,
                                 chunks = kind == "interleaved" and p.chunks or nil }
    local last, places, place = s.stage_count - 1, place_stages(s), p.dp > 1 and "S(0)" or "R"
    local wanted = history(s.stage_count)
    local worst = 0
    local function compare(step, name, tensor)
        worst = math.max(worst, largest_difference(values(tensor), wanted[step][name]))
    end
    for step = 1, p.steps do
        local losses, grads = pipeline.step(s, {
            mesh = function(stage, replica) return places[replica][stage].mesh end,
            parameters = function(stage, replica) return places[replica][stage].model end,
            input = function(i, replica) return inputs(i, places[replica][0].mesh, place) end,
            forward = function(stage, x, i, replica)
                local at = places[replica][stage]
                return apply(stage, last, x, at.model,
                             stage == last and targets(i, at.mesh, place) or nil)
            end,
        })
        local total = 0
        for _, loss in ipairs(losses) do
            total = total + values(loss)[1]
        end
        worst = math.max(worst, largest_difference({total}, wanted[step].loss))
        free(losses)
        for replica = 0, s.replicas - 1 do
            for stage, found in pairs(grads[replica]) do
                local at = places[replica][stage]
                training.reduce(at.model, found, "R")
                for name, grad in pairs(found) do
                    compare(step, "gradient of " .. name .. stage, grad)
                end
                at.optimizer:step(found)
                for name, tensor in pairs(at.model) do
                    compare(step, name .. stage, tensor)
                end
            end
        end
        if step == p.steps then
            print(string.format("%-14s %d stages: loss %.3f after %d steps; %s", kind,
                                s.stage_count, total, step, worst < 1e-5 and
                                    "equal to one device" or "differs by up to " .. worst))
        end
    end
    expect.less(worst, 1e-5)
    for replica = 0, s.replicas - 1 do
        for _, at in pairs(places[replica]) do
            free(at.model)
            free(at.optimizer.mean or at.optimizer.velocity)
            free(at.optimizer.square or {})
        end
    end
    for device = 0, orrery.devices - 1 do
        expect.equal(orrery.device(device):memory().requested, 0)
    end
end

-- The activations that ranks held in a run of one kind: of each live microbatch what the stage got,
-- its product and what it sends, and once the gradient of that. The last stage differs.
local function check_activations(kind)
    local s = pipeline.schedule{ kind = kind, ranks = p.ranks, microbatches = p.microbatches }
    local live, unit = pipeline.check(s), 4 * p.rows * p.width // p.dp
    for rank = 0, p.ranks - 2 do
        local peak = orrery.device(rank * p.dp):memory().roles.activation.peak
        print(string.format("rank %d: at most %d microbatches, %d bytes of activations", rank,
                            live[rank + 1], peak))
        expect.equal(peak, (3 * live[rank + 1] + 1) * unit)
    end
end

local histories = {}
local function history(stage_count)
    histories[stage_count] = histories[stage_count] or reference(stage_count)
    return histories[stage_count]
end

for _, kind in ipairs{ "gpipe", "1f1b", "interleaved", "zero_bubble", "zero_bubble_2",
                       "zero_bubble_v", "bidirectional", "dualpipe" } do
    if p.kind == "all" or p.kind == kind then
        train(kind, history)
    end
end
if p.kind == "gpipe" or p.kind == "1f1b" then
    check_activations(p.kind)
end
expect.clean()
