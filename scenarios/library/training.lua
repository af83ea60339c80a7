-- Training loops: optimizers that keep parameters and their state, loss scaling, gradient
-- accumulation.
--
--     local training = require "training"
--     local model = { w = w, b = b }                             -- names to tensors
--     local adam = training.adamw{ parameters = model, lr = 1e-3 }
--     for step = 1, steps do
--         local loss, grads = training.gradients(model, function() return loss_of(model, step) end)
--         adam:step(grads)                                       -- model.w is the new one
--         loss:free()
--     end
--
-- Tensors are never overwritten: a step makes new parameters, puts them in the table in place of
-- the old ones and frees those, one after the other, so that at most one parameter is there twice.

local training = {}

-- Calls loss() under a tape that watches the model's tensors; frees what it made on the way.
-- Returns the loss and its gradients by name, multiplied by `scale` if that is given.
function training.gradients(model, loss, scale)
    local tape <close> = orrery.tape()
    local names, wanted = {}, {}
    for name, tensor in pairs(model) do
        names[#names + 1], wanted[#wanted + 1] = name, tensor
        tape:watch(tensor)
    end
    local value = orrery.scope(loss)
    local found = table.pack(tape:gradient({ {value, scale or 1} }, table.unpack(wanted)))
    local grads = {}
    for i, name in ipairs(names) do
        grads[name] = found[i]
    end
    return value, grads
end

-- Redistributes every gradient to `place`, or to the place of its parameter: the reduction of data
-- parallelism ("R"), or of sharded parameters ("S(0)").
function training.reduce(model, grads, place)
    for name, grad in pairs(grads) do
        grads[name] = grad:redistribute(place or model[name]:place())
        grad:free()
    end
    return grads
end

-- sum + grads, by name; takes both. Start with nil. Partial gradients stay partial, so that one
-- training.reduce after the last pass is enough.
function training.accumulate(sum, grads)
    if not sum then
        return grads
    end
    for name, grad in pairs(grads) do
        sum[name] = orrery.accumulate(sum[name], grad)
        grad:free()
    end
    return sum
end

local Optimizer = {}

-- Frees the gradients, puts new parameters in the place of the old ones.
function Optimizer.step(self, grads)
    self.count = self.count + 1
    for name, grad in pairs(grads) do
        self:update(name, grad)
        grad:free()
    end
end

local function replace(table, name, tensor)
    if table[name] then
        table[name]:free()
    end
    table[name] = tensor
end

local function optimizer(options, allowed)
    local self = { count = 0, parameters = options.parameters, options = {}, step = Optimizer.step }
    for key, value in pairs(options) do
        if key ~= "parameters" then
            if not allowed[key] then
                error("training: unknown option '" .. tostring(key) .. "'", 3)
            end
            self.options[key] = value
        end
    end
    if not self.parameters or not options.lr then
        error("training: an optimizer needs parameters and lr", 3)
    end
    return self
end

local function elements(tensor)
    local count = 1
    for _, size in ipairs(tensor:shape()) do
        count = count * size
    end
    return count
end

local function zeros_like(tensor, dtype)
    local zero <close> = tensor * 0
    return dtype == zero:dtype() and zero * 1 or zero:cast{ dtype = dtype }
end

-- parameters (names to tensors), lr; momentum, weight_decay, nesterov
function training.sgd(options)
    local self = optimizer(options, { lr = true, momentum = true, weight_decay = true,
                                      nesterov = true })
    self.velocity = {}
    function self.update(_, name, grad)
        local o, p = self.options, self.parameters[name]
        if not o.momentum then
            replace(self.parameters, name,
                    orrery.sgd(p, grad, { lr = o.lr, weight_decay = o.weight_decay or 0 }))
            return
        end
        local velocity = self.velocity[name] or zeros_like(p, p:dtype())
        local new, moved = orrery.sgd_momentum(p, grad, velocity, {
            lr = o.lr, momentum = o.momentum, weight_decay = o.weight_decay or 0,
            nesterov = o.nesterov or false })
        self.velocity[name] = velocity
        replace(self.velocity, name, moved)
        replace(self.parameters, name, new)
    end
    return self
end

-- parameters, lr; beta1, beta2, eps, weight_decay; master = true keeps an f32 copy of narrower
-- parameters, and f32 state.
function training.adamw(options)
    local self = optimizer(options, { lr = true, beta1 = true, beta2 = true, eps = true,
                                      weight_decay = true, master = true })
    self.mean, self.square, self.masters = {}, {}, {}
    local function start(name, p)
        local wide = self.options.master and "f32" or p:dtype()
        self.mean[name], self.square[name] = zeros_like(p, wide), zeros_like(p, wide)
        self.masters[name] = self.options.master and p:cast{ dtype = "f32" } or nil
    end
    function self.update(_, name, grad)
        local o, p = self.options, self.parameters[name]
        if not self.mean[name] then
            start(name, p)
        end
        local call = { lr = o.lr, beta1 = o.beta1 or 0.9, beta2 = o.beta2 or 0.999,
                       eps = o.eps or 1e-8, weight_decay = o.weight_decay or 0.01,
                       step = self.count }
        local new, master, mean, square
        if o.master then
            new, master, mean, square = orrery.adamw_master(self.masters[name], grad,
                                                            self.mean[name], self.square[name],
                                                            call)
            replace(self.masters, name, master)
        else
            new, mean, square = orrery.adamw(p, grad, self.mean[name], self.square[name], call)
        end
        replace(self.mean, name, mean)
        replace(self.square, name, square)
        replace(self.parameters, name, new)
    end
    return self
end

-- A loss scale that halves when a gradient is not finite and doubles after `interval` steps that
-- went well, as torch.amp.GradScaler: init, growth, backoff, interval.
function training.scaler(options)
    local o = { init = 65536, growth = 2, backoff = 0.5, interval = 2000 }
    for key, value in pairs(options or {}) do
        o[key] = value
    end
    local self = { scale = o.init, good = 0, skipped = 0 }

    -- Unscales the gradients in place if all are finite (waits for them), else frees them; adapts
    -- the scale. Returns whether they can be used. Reduce them first: a sum of finite terms may
    -- not be finite.
    function self.unscale(_, grads)
        local bad = 0
        for _, grad in pairs(grads) do
            local count <close> = grad:count_nonfinite()
            local future = count:future()
            bad = bad + future:get()
            future:free()
        end
        for name, grad in pairs(grads) do
            grads[name] = bad == 0 and grad * (1 / self.scale) or nil
            grad:free()
        end
        return self:update(bad == 0)
    end

    -- Adapts the scale after a step whose gradients were finite or not; returns that.
    function self.update(_, finite)
        if not finite then
            self.scale, self.good, self.skipped = self.scale * o.backoff, 0, self.skipped + 1
        else
            self.good = self.good + 1
            if self.good == o.interval then
                self.scale, self.good = self.scale * o.growth, 0
            end
        end
        return finite
    end
    return self
end

-- Stops the program where numbers have gone bad: step, loss (a tensor of rank 0) and grads, by
-- name. Waits for all of them. The one line names the step, the loss, and the first parameter, in
-- the order of names, whose gradient is not finite. Reduce the gradients first. Without numbers
-- (timing_only) there is nothing to check.
function training.check_finite(options)
    if orrery.timing_only then
        return
    end
    local counts, futures = {}, {}
    for name, grad in pairs(options.grads) do
        counts[name] = grad:count_nonfinite()
        futures[name] = counts[name]:future()
    end
    local seen = options.loss:future()
    local loss = seen:get()
    seen:free()
    local bad, first = 0, "all gradients are finite"
    for name, future in pairs(futures) do
        local count = future:get()
        bad = bad + (count > 0 and 1 or 0)
        if bad == 1 and count > 0 then
            first = string.format("the first gradient that is not finite is that of '%s' (%.0f of"
                .. " %.0f elements)", name, count, elements(options.grads[name]))
        end
        future:free()
        counts[name]:free()
    end
    if bad > 0 or loss ~= loss or math.abs(loss) == math.huge then
        error(string.format("training: step %s: the loss is %s, and %s", options.step, loss, first),
              2)
    end
end

return training
