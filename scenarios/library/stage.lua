-- A pipeline stage: blocks of a model, run forward and backward one by one, each under a tape of
-- its own. That is where recomputation, the gathering of sharded parameters and the early reduction
-- of gradients take place.
--
--     forward    x0 --block 1--> x1 --block 2--> x2           tapes kept, one a block
--     backward   dx0 <--tape 1-- dx1 <--tape 2-- dx2          gradients of parameters on the way
--
-- With full recomputation forward keeps x0, x1, ... only, and backward runs each block again first
-- (Chen et al. 2016). With sharded parameters (`store.gathers`) a block's parameters are gathered
-- before use and let go of after it, forward and backward (Rajbhandari et al. 2020, ZeRO stage 3).
--
-- `store` owns the parameters (module `sharded_optimizer`): store:gather(block) puts what forward
-- needs into each parameter's `value`, store:release(block) takes it away again,
-- store:take(block, gradients, last) takes gradients over.

local Stage = {}
Stage.__index = Stage

local stage = {}

function stage.new(options)
    local self = setmetatable({ saved = {} }, Stage)
    for _, name in ipairs{ "plan", "mesh", "blocks", "store", "index", "replica" } do
        self[name] = options[name]
    end
    return self
end

local function values_of(block)
    local values = {}
    for i, parameter in ipairs(block.parameters) do
        values[i] = parameter.value
    end
    return values
end

-- Runs a block; with `records` under a tape, which is returned stopped.
local function run_block(self, block, x, call, records)
    self.store:gather(block)
    local values, tape = values_of(block), nil
    if records then
        tape = orrery.tape()
        tape:watch(table.unpack(values))
        if x then
            tape:watch(x)
        end
    end
    local y = orrery.role("activation", orrery.scope, block.forward, block, x, call)
    if tape then
        tape:stop()
    end
    return y, tape, values
end

-- The blocks in order; returns what the last one makes. `x` is taken over (nil: the first stage,
-- whose first block reads call.tokens).
function Stage:forward(microbatch, x, call)
    local steps = {}
    for i, block in ipairs(self.blocks) do
        local recomputes = self.plan.recompute == "full" and block.index ~= nil
        local y, tape, values = run_block(self, block, x, call, not recomputes)
        steps[i] = { x = x, y = y, tape = tape, values = values }
        self.store:release(block, recomputes)
        x = y
    end
    self.saved[microbatch] = { steps = steps, call = call }
    return x
end

-- Bytes on a device that forward keeps for the backward pass of a microbatch: inputs of the blocks,
-- and what their tapes keep; parameters don't count.
function Stage:kept_bytes(microbatch, device)
    local bytes = 0
    for _, step in ipairs(self.saved[microbatch].steps) do
        bytes = bytes + (step.x and step.x:bytes(device) or 0)
        bytes = bytes + (step.tape and step.tape:bytes(device) or 0)
    end
    return bytes
end

-- The last block's result is on its way to the next stage: its memory is not needed here any more,
-- only its name, from which backward starts.
function Stage:sent(microbatch)
    local steps = self.saved[microbatch].steps
    steps[#steps].y:evict()
end

-- What backward needs of a block: its tape, and the values of its parameters in place.
local function prepare(self, block, step, call)
    if step.tape then
        self.store:restore(block, step.values)
        return
    end
    local y, tape, values = run_block(self, block, step.x, call, true)
    step.again, step.tape, step.values = y, tape, values
end

local function finish(self, block, step)
    step.tape:free()
    self.store:release(block, true)
    if step.again then
        step.again:free()
    end
    step.y:free()
end

-- Backward through all blocks from the gradient `dy` of the last one's result (a number: of the
-- loss), which is taken over. Returns the gradient of x, nil on the first stage. `last`: no more
-- microbatches come, gradients can be reduced.
function Stage:backward(microbatch, dy, last)
    local saved = self.saved[microbatch]
    self.saved[microbatch] = nil
    for i = #self.blocks, 1, -1 do
        local block, step = self.blocks[i], saved.steps[i]
        prepare(self, block, step, saved.call)
        local seeds, dx, grads = { { step.again or step.y, dy } }, nil, nil
        if step.x then
            grads = table.pack(orrery.role("workspace", step.tape.gradient, step.tape, seeds,
                                           step.x, table.unpack(step.values)))
            dx = table.remove(grads, 1)
        else
            grads = table.pack(orrery.role("workspace", step.tape.gradient, step.tape, seeds,
                                           table.unpack(step.values)))
        end
        finish(self, block, step)
        if type(dy) ~= "number" then
            dy:free()
        end
        dy = dx
        self.store:take(block, grads, last)
    end
    self:free_input(saved)
    return dy
end

function Stage:free_input(saved)
    local x = saved.steps[1].x
    if x then
        x:free()
    end
end

-- The first half of backward: gradients of the activations only (Qi et al. 2023, zero bubble).
function Stage:backward_input(microbatch, dy)
    local saved = self.saved[microbatch]
    for i = #self.blocks, 1, -1 do
        local block, step = self.blocks[i], saved.steps[i]
        prepare(self, block, step, saved.call)
        step.seeds = { { step.again or step.y, dy } }
        step.dy = type(dy) ~= "number" and dy or nil
        dy = step.x and orrery.role("workspace", step.tape.backward_input, step.tape, step.seeds,
                                    step.x)
        if self.store.gathers then
            self.store:release(block)
        end
    end
    return dy
end

-- The second half: gradients of the parameters.
function Stage:backward_weight(microbatch, last)
    local saved = self.saved[microbatch]
    self.saved[microbatch] = nil
    for i = #self.blocks, 1, -1 do
        local block, step = self.blocks[i], saved.steps[i]
        self.store:restore(block, step.values)
        local tape, grads = step.tape, nil
        if step.x then
            grads = table.pack(orrery.role("workspace", tape.backward_weight, tape,
                                           table.unpack(step.values)))
        else
            grads = table.pack(orrery.role("workspace", tape.gradient, tape, step.seeds,
                                           table.unpack(step.values)))
        end
        finish(self, block, step)
        if step.dy then
            step.dy:free()
        end
        self.store:take(block, grads, last)
    end
    self:free_input(saved)
end

return stage
