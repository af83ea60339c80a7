-- One training step of a model in stages: forwards and backwards of every microbatch on tapes, in
-- the order of a schedule. pipeline.step is the way in, and says what a model is.
--
--     stage s - 1            stage s                       stage s + 1
--         y  --- send --->   x  -> tape, forward ->  y  --- send --->  x
--         dy <--- send ---   dx <- tape          <- dy  <--- send ---  dx
--
-- Sends are enqueued by who needs them, so that they go in the order of need. Roles of memory:
-- gradients of weights are "gradient", all else is "activation".

local order = require "pipeline_order"
local training = require "training"

local stages = {}

local Step = {}
Step.__index = Step

local function key(stage, microbatch)
    return stage .. "/" .. microbatch
end

-- Names of a stage's parameters in order, and the tensors.
function Step:parameters(stage, replica)
    local names, tensors = {}, {}
    for name, tensor in pairs(self.model.parameters(stage, replica)) do
        names[#names + 1], tensors[#tensors + 1] = name, tensor
    end
    return names, tensors
end

-- Whether the gradient of a stage's input is wanted. In two parts the backward of stage 0 goes to
-- its input, too: else the first part would have nothing to do.
local function is_followed(self, stage, x)
    local floats = { f64 = true, f32 = true, f16 = true, bf16 = true }
    return stage > 0 or self.split and floats[x:dtype()]
end

function Step:input(stage, microbatch, replica)
    if stage == 0 then
        return self.model.input(microbatch, replica)
    end
    local before = self.work[key(stage - 1, microbatch)]
    return before.y:redistribute(nil, self.model.mesh(stage, replica))
end

function Step:forward(stage, microbatch, replica)
    local x = self:input(stage, microbatch, replica)
    local _, tensors = self:parameters(stage, replica)
    local followed = is_followed(self, stage, x)
    if followed then
        tensors[#tensors + 1] = x
    end
    local tape = orrery.tape()
    if #tensors > 0 then
        tape:watch(table.unpack(tensors))
    end
    local y = orrery.scope(self.model.forward, stage, x, microbatch, replica)
    if type(y) ~= "userdata" then
        order.fail("the forward of stage %d returned %s; expected a tensor", stage, type(y))
    end
    tape:stop()
    self.work[key(stage, microbatch)] = { x = x, y = y, tape = tape, followed = followed }
end

-- What the backward of a stage starts from: list of one {tensor, gradient}.
function Step:seeds(work, stage, microbatch, replica)
    local after = self.work[key(stage + 1, microbatch)]
    if after then
        work.dy = orrery.role("activation", after.dx.redistribute, after.dx, nil,
                              self.model.mesh(stage, replica))
        after.dx:free()
        after.dx = nil
    end
    return { { work.y, work.dy or self.model.scale or 1 } }
end

-- Adds found[first], ... to the sums of the stage's gradients.
function Step:accumulate(stage, replica, names, found, first)
    local grads = {}
    for i, name in ipairs(names) do
        grads[name] = found[first + i - 1]
    end
    local sums = self.gradients[replica]
    sums[stage] = training.accumulate(sums[stage], grads)
end

-- Frees what a backward started from: the tape keeps what its second part needs. The last y is the
-- loss.
function Step:release(work, stage, microbatch)
    work.x:free()
    if stage == self.schedule.stage_count - 1 then
        self.losses[microbatch + 1] = work.y
    else
        work.y:free()
        work.dy:free()
    end
    work.x, work.y, work.dy = nil, nil, nil
end

-- The gradients of tensors, none of none: method(tape[, seeds], tensors ...).
local function ask(method, tape, tensors, seeds)
    if #tensors == 0 then
        return {}
    elseif seeds then
        return table.pack(method(tape, seeds, table.unpack(tensors)))
    end
    return table.pack(method(tape, table.unpack(tensors)))
end

function Step:backward(stage, microbatch, replica)
    local work = self.work[key(stage, microbatch)]
    local names, tensors = self:parameters(stage, replica)
    local seeds = self:seeds(work, stage, microbatch, replica)
    if stage > 0 then
        table.insert(tensors, 1, work.x)
    end
    local found = ask(work.tape.gradient, work.tape, tensors, seeds)
    if stage > 0 then
        work.dx = found[1]
        work.dx:role("activation")
    end
    self:accumulate(stage, replica, names, found, stage > 0 and 2 or 1)
    work.tape:free()
    self:release(work, stage, microbatch)
end

function Step:backward_input(stage, microbatch, replica)
    local work = self.work[key(stage, microbatch)]
    local seeds = self:seeds(work, stage, microbatch, replica)
    if not work.followed then
        work.seeds = seeds -- nothing to be had yet
        return
    end
    local dx = work.tape:backward_input(seeds, work.x)
    if stage > 0 then
        work.dx = dx
    else
        dx:free()
    end
    self:release(work, stage, microbatch)
end

function Step:backward_weight(stage, microbatch, replica)
    local work = self.work[key(stage, microbatch)]
    local names, tensors = self:parameters(stage, replica)
    if work.seeds then
        self:accumulate(stage, replica, names,
                        ask(work.tape.gradient, work.tape, tensors, work.seeds), 1)
        self:release(work, stage, microbatch)
    else
        self:accumulate(stage, replica, names,
                        ask(work.tape.backward_weight, work.tape, tensors), 1)
    end
    work.tape:free()
end

-- Makes the gradients of both replicas of each stage the sum of both.
function Step:add_replicas()
    for stage, grads in pairs(self.gradients[0]) do
        for name, mine in pairs(grads) do
            local theirs = self.gradients[1][stage][name]
            local here <close> = theirs:redistribute(nil, self.model.mesh(stage, 0))
            grads[name] = mine + here
            self.gradients[1][stage][name] =
                grads[name]:redistribute(nil, self.model.mesh(stage, 1))
            mine:free()
            theirs:free()
        end
    end
end

-- See pipeline.step. run(callbacks) runs the schedule.
function stages.step(schedule, model, run)
    for _, name in ipairs{"mesh", "parameters", "input", "forward"} do
        if not model[name] then
            order.fail("pipeline.step: the model has no function '%s'", name)
        end
    end
    local self = setmetatable({ schedule = schedule, model = model, work = {}, losses = {},
                                gradients = { [0] = {}, [1] = {} }, split = false }, Step)
    for _, list in ipairs(schedule.ranks) do
        for _, action in ipairs(list) do
            self.split = self.split or action.kind == "B"
        end
    end
    local callbacks = { before = model.before, after = model.after }
    local roles = { forward = "activation", backward_input = "activation", backward = "gradient",
                    backward_weight = "gradient" }
    for name, role in pairs(roles) do
        callbacks[name] = function(...)
            orrery.role(role, self[name], self, ...)
        end
    end
    run(callbacks)
    if schedule.replicas == 2 then
        orrery.role("gradient", self.add_replicas, self)
    end
    return self.losses, self.gradients
end

return stages
