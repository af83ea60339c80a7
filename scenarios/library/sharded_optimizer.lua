-- AdamW over the parameters of a plan, and what ZeRO shards of them over the data ranks
-- (Rajbhandari et al. 2020):
--
--     zero   optimizer state   gradients                       parameters
--     0      everywhere        all-reduced once a step         everywhere
--     1      sharded           reduce-scattered once a step    everywhere, gathered after the step
--     2      sharded           reduce-scattered as they come   likewise
--     3      sharded           likewise                        sharded, gathered before each use
--
-- Parameters that are narrower than f32 have a master copy in f32, which belongs to the state. The
-- reductions are enqueued as soon as a block's last gradient is there, on the communicate streams,
-- so that they overlap with the backward pass of the blocks before it (Li et al. 2020).

local Store = {}
Store.__index = Store

local sharded_optimizer = {}

-- sum + part, in place of the sum; takes both.
local function accumulate(sum, part)
    local total = orrery.accumulate(sum, part)
    part:free()
    return total
end

local ADAM = { "lr", "beta1", "beta2", "eps", "weight_decay" }

-- options: plan; lr, beta1, beta2, eps, weight_decay of AdamW; grad_dtype ("f32" by default: in
-- which gradients of several microbatches are added up)
function sharded_optimizer.new(options)
    local self = setmetatable({ plan = options.plan, steps = 0, states = {}, order = {},
                                blocks = {}, adam = {}, grad_dtype = options.grad_dtype or "f32",
                                gathers = options.plan.zero == 3 }, Store)
    for _, name in ipairs(ADAM) do
        self.adam[name] = options[name]
    end
    return self
end

local function equal(a, b)
    for i, where in ipairs(a) do
        if where ~= b[i] then
            return false
        end
    end
    return true
end

local function replace(state, name, tensor)
    if state[name] then
        state[name]:free()
    end
    state[name] = tensor
end

-- Makes a parameter's first values.
local function create(self, parameter)
    local plan = self.plan
    local state = { parameter = parameter, place = parameter.place,
                    shards = plan.zero > 0 and plan:shards(parameter.shape, parameter.by_axis)
                        or parameter.place }
    state.sharded = not equal(state.shards, state.place)
    state.gathered = self.gathers and state.sharded
    state.kept = orrery.role("parameter", parameter.create, parameter,
                             state.gathered and state.shards or state.place)
    if not state.gathered then
        parameter.value = state.kept
    end
    self.states[parameter] = state
    self.order[#self.order + 1] = state
end

-- Makes the first values of all parameters of a list of blocks.
function Store:create_all(blocks)
    for _, block in ipairs(blocks) do
        self.blocks[#self.blocks + 1] = block
        for _, parameter in ipairs(block.parameters) do
            create(self, parameter)
        end
    end
end

-- The tensors of a list of {tensor, place}, each where it should be; like moves share a collective.
local function moved(list)
    return #list > 0 and orrery.redistribute_all(list) or {}
end

-- States of the block's parameters that are gathered before use.
local function gathered(self, block)
    local list = {}
    for _, parameter in ipairs(block.parameters) do
        local state = self.states[parameter]
        if state.gathered then
            list[#list + 1] = state
        end
    end
    return list
end

local function gather(states)
    local list = {}
    for i, state in ipairs(states) do
        list[i] = { state.kept, state.place }
    end
    return orrery.role("parameter", moved, list)
end

-- Puts what forward and backward need into the parameters' `value`.
function Store:gather(block)
    local states = gathered(self, block)
    for i, whole in ipairs(gather(states)) do
        states[i].parameter.value = whole
    end
end

-- Lets go of gathered values: of their memory, or with `ends` for good.
function Store:release(block, ends)
    for _, parameter in ipairs(block.parameters) do
        if self.states[parameter].gathered and parameter.value then
            if ends then
                parameter.value:free()
            else
                parameter.value:evict()
            end
            parameter.value = nil
        end
    end
end

-- Gives the values, which forward used and released, their memory again.
function Store:restore(block, values)
    local of = {}
    for i, parameter in ipairs(block.parameters) do
        of[parameter] = values[i]
    end
    local states = gathered(self, block)
    for i, whole in ipairs(gather(states)) do
        local parameter = states[i].parameter
        of[parameter]:restore(whole)
        parameter.value = of[parameter]
        whole:free()
    end
end

local function wide(tensor, dtype)
    if tensor:dtype() == dtype then
        return tensor
    end
    local cast = tensor:cast{ dtype = dtype }
    tensor:free()
    return cast
end

-- Brings gradients of a block to where the optimizer needs them: a reduction over the data ranks.
local function reduce(self, block, grads)
    local list = {}
    for i, parameter in ipairs(block.parameters) do
        list[i] = { grads[i], self.states[parameter].shards }
    end
    local reduced = moved(list)
    for _, grad in ipairs(grads) do
        grad:free()
    end
    return reduced
end

-- Adds a microbatch's gradients to those of the microbatches before it.
local function add(self, block, grads, last)
    for i, parameter in ipairs(block.parameters) do
        local state = self.states[parameter]
        if state.grad or not last then
            grads[i] = wide(grads[i], self.grad_dtype)
        end
        if state.grad then
            grads[i] = accumulate(state.grad, grads[i])
            state.grad = nil
        end
    end
    return grads
end

-- Takes over the gradients of a block's parameters of one microbatch. `last`: no more of them come.
function Store:take(block, grads, last)
    local function taken()
        local early = self.plan.zero >= 2
        grads = early and reduce(self, block, grads) or grads
        grads = add(self, block, grads, last)
        return last and not early and reduce(self, block, grads) or grads
    end
    for _, grad in ipairs(grads) do
        grad:role("gradient")
    end
    for i, grad in ipairs(orrery.role("gradient", taken)) do
        self.states[block.parameters[i]].grad = grad
    end
end

-- Adds up the gradients of a stage's two copies, which lie on different devices; both get the sum.
function Store:join(a, b)
    for i, block in ipairs(a.blocks) do
        for j, parameter in ipairs(block.parameters) do
            local one = self.states[parameter]
            local other = self.states[b.blocks[i].parameters[j]]
            local there <close> = other.grad:redistribute(one.shards, a.mesh)
            one.grad = orrery.role("gradient", accumulate, one.grad, there)
            replace(other, "grad", orrery.role("gradient", one.grad.redistribute, one.grad,
                                               other.shards, b.mesh))
        end
    end
end

local function begin(state)
    local p, shape = state.shard or state.kept, state.parameter.shape
    local function zeros()
        return orrery.zeros{ shape = shape, dtype = "f32", mesh = p:mesh(), place = state.shards }
    end
    state.mean, state.square = zeros(), zeros()
    state.master = p:dtype() ~= "f32" and p:cast{ dtype = "f32" } or nil
end

local function update(state, options)
    local old = state.shard or state.kept
    local new, master, mean, square
    if state.master then
        local grad <close> = state.grad:cast{ dtype = old:dtype() }
        new, master, mean, square = orrery.adamw_master(state.master, grad, state.mean,
                                                        state.square, options)
        replace(state, "master", master)
    else
        new, mean, square = orrery.adamw(old, state.grad, state.mean, state.square, options)
    end
    replace(state, "mean", mean)
    replace(state, "square", square)
    state.grad:free()
    state.grad = nil
    return new
end

local function slices(state)
    return state.sharded and not state.gathered
end

-- The new values of a parameter, as large as what the optimizer has of it.
local function step_parameter(state, options)
    if slices(state) then
        state.shard = state.kept:redistribute(state.shards)
    end
    if not state.mean then
        orrery.role("optimizer", begin, state)
    end
    local new = orrery.role("optimizer", update, state, options)
    new:role("parameter")
    replace(state, "shard", nil)
    return new
end

-- A block's new values, each where it is kept: what was cut for the optimizer is gathered.
local function step_block(self, block, options)
    local list, new = {}, {}
    for i, parameter in ipairs(block.parameters) do
        local state = self.states[parameter]
        new[i] = step_parameter(state, options)
        list[i] = { new[i], slices(state) and state.place or state.shards }
    end
    for i, tensor in ipairs(orrery.role("parameter", moved, list)) do
        local state = self.states[block.parameters[i]]
        new[i]:free()
        replace(state, "kept", tensor)
        if not state.gathered then
            state.parameter.value = tensor
        end
    end
end

-- f(gradient), a tensor of one element for each gradient, summed over all of them by the host; nil
-- under --timing-only, where it has no value. The sums of one mesh are one tensor and one read.
local function total(self, f)
    local sums, meshes = {}, {}
    for _, state in ipairs(self.order) do
        local mesh, one = state.grad:mesh(), orrery.scope(f, state.grad)
        if not sums[mesh] then
            meshes[#meshes + 1] = mesh
        end
        sums[mesh] = sums[mesh] and accumulate(sums[mesh], one) or one
    end
    local sum = 0
    for _, mesh in ipairs(meshes) do
        local future = sums[mesh]:future()
        future:wait()
        sum = sum + (orrery.timing_only and 0 or future:get())
        future:free()
        sums[mesh]:free()
    end
    return not orrery.timing_only and sum or nil
end

-- How many elements of the gradients are infinite or NaN, and the name of the first parameter that
-- has some.
function Store:nonfinite()
    local function count(grad)
        return grad:count_nonfinite()
    end
    local all = orrery.role("workspace", total, self, count) or 0
    local first = nil
    for _, state in ipairs(all > 0 and self.order or {}) do
        first = first or total({ order = { state } }, count) > 0 and state.parameter.name or nil
    end
    return all, first
end

-- Multiplies all gradients.
function Store:scale(factor)
    for _, state in ipairs(self.order) do
        replace(state, "grad", orrery.role("gradient", function()
            return state.grad * factor
        end))
    end
end

-- Scales the gradients down if their norm, over all parameters, is above `limit`; returns the norm
-- before. All are multiplied in any case, as frameworks do.
function Store:clip(limit)
    local square = orrery.role("workspace", total, self, function(grad)
        local wide = grad:cast{ dtype = "f32" }
        return (wide * wide):sum()
    end)
    local norm = math.sqrt(square or 0)
    self:scale(norm > limit and limit / norm or 1)
    return norm
end

-- Lets go of the gradients: the step is left out.
function Store:drop_gradients()
    for _, state in ipairs(self.order) do
        replace(state, "grad", nil)
    end
end

-- One step of AdamW over all parameters; uses the gradients up.
function Store:step()
    self.steps = self.steps + 1
    local options = { step = self.steps }
    for name, value in pairs(self.adam) do
        options[name] = value
    end
    for _, block in ipairs(self.blocks) do
        step_block(self, block, options)
    end
end

-- Frees everything.
function Store:free()
    for _, state in ipairs(self.order) do
        for _, name in ipairs{ "kept", "grad", "mean", "square", "master" } do
            replace(state, name, nil)
        end
    end
    self.order, self.states, self.blocks = {}, {}, {}
end

return sharded_optimizer
