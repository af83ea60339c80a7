-- Training steps of a decoder under any plan of parallelism.
--
--     local trainer = require "trainer"
--     local run = trainer.new{ plan = parallel.plan{ dp = 2, tp = 2, pp = 2, microbatches = 4 },
--                              config = configurations.get("tiny"), batch = 16, lr = 1e-3 }
--     local loss = run:step(function(microbatch) return tokens, targets end)
--
-- The layers are cut into pipeline stages (module `stage`), whose forward and backward passes the
-- pipeline's executor calls in the order of the schedule (module `pipeline`). Activations go from
-- one stage's mesh to the next by send and receive. A plan without pipeline is one stage.

local parallel = require "parallel"
local pipeline = require "pipeline"
local stage = require "stage"
local sharded_optimizer = require "sharded_optimizer"
local training = require "training"
local transformer = require "transformer"

local trainer = {}

local Trainer = {}
Trainer.__index = Trainer

local function check(self)
    local plan, config = self.plan, self.config
    local ranks = plan.dp * plan.ep
    if math.type(self.batch) ~= "integer" or self.batch < 1 then
        error(string.format("trainer: batch is %s, expected a whole number above 0",
                            tostring(self.batch)), 3)
    end
    if self.batch % (plan.microbatches * ranks) ~= 0 then
        error(string.format("trainer: a batch of %d doesn't divide by microbatches %d * dp %d * ep "
                            .. "%d", self.batch, plan.microbatches, plan.dp, plan.ep), 3)
    end
    local cuts = plan.cp * (plan.sequence and plan.tp or 1)
    if config.tokens % cuts ~= 0 then
        error(string.format("trainer: sequences of %d tokens don't divide by cp %d%s",
                            config.tokens, plan.cp, plan.sequence and " * tp " .. plan.tp or ""), 3)
    end
end

local function make_stage(self, index, replica, layers)
    local plan = self.plan
    local rank = self.schedule.rank_of(index, replica)
    local mesh = plan.meshes[rank]
    local made = stage.new{ plan = plan, mesh = mesh, index = index, replica = replica,
                            store = self.store,
                            blocks = transformer.blocks(self.config, plan, {
                                first = layers.first, last = layers.last, mesh = mesh }) }
    self.store:create_all(made.blocks)
    return made
end

-- plan, config (module `transformer`), batch (sequences of a step, over all ranks); options of
-- AdamW (module `sharded_optimizer`); clip: the largest norm of the gradients; loss_scale: options
-- of training.scaler, for gradients that are too small for f16; on_gradients(parameter, gradient):
-- called for each parameter before a step uses the gradients up.
function trainer.new(options)
    local self = setmetatable({}, Trainer)
    self.plan, self.config, self.batch = options.plan, options.config, options.batch
    self.on_gradients, self.clip = options.on_gradients, options.clip
    self.scaler = options.loss_scale and training.scaler(options.loss_scale)
    self.steps = 0
    check(self)
    local plan = self.plan
    self.schedule = pipeline.schedule{ kind = plan.schedule, ranks = plan.pp, chunks = plan.chunks,
                                       microbatches = plan.microbatches }
    self.store = sharded_optimizer.new(options)
    self.stages = {}
    local split = parallel.split_layers(self.config.layers, self.schedule.stage_count)
    for replica = 0, self.schedule.replicas - 1 do
        self.stages[replica] = {}
        for index = 0, self.schedule.stage_count - 1 do
            self.stages[replica][index] = make_stage(self, index, replica, split[index])
        end
    end
    return self
end

-- Token numbers on a stage's mesh.
local function place_tokens(self, values, mesh)
    return orrery.tensor{ shape = {self.batch // self.plan.microbatches, self.config.tokens},
                          dtype = "i64", mesh = mesh, place = self.plan:tokens(),
                          values = not orrery.timing_only and values or nil }
end

local Step = {}
Step.__index = Step

function Step:call_of(microbatch, at)
    local self_ = self.trainer
    local last = self_.schedule.stage_count - 1
    local call = { total = self_.batch * self_.config.tokens,
                   first = microbatch * (self_.batch // self_.plan.microbatches),
                   seed = self_.steps * 4096 + microbatch }
    if at.index == 0 or at.index == last then
        local tokens, targets = self.data(microbatch)
        call.tokens = at.index == 0 and place_tokens(self_, tokens, at.mesh) or nil
        call.targets = at.index == last and place_tokens(self_, targets, at.mesh) or nil
    end
    return call
end

local function key(index, microbatch, replica)
    return (replica * 65536 + index) * 65536 + microbatch
end

-- Enqueues the send of an activation or gradient to the mesh of another stage.
function Step:send(list, tensor, to, microbatch)
    list[key(to.index, microbatch, to.replica)] =
        orrery.role("communication", tensor.redistribute, tensor, self.trainer.plan:activation(),
                    to.mesh)
end

local function take(list, at, microbatch)
    local index = key(at.index, microbatch, at.replica)
    local tensor = list[index]
    list[index] = nil
    return tensor
end

function Step:forward(index, microbatch, replica)
    local stages = self.trainer.stages[replica]
    local at, following = stages[index], stages[index + 1]
    local call = self:call_of(microbatch, at)
    self.calls[key(index, microbatch, replica)] = call
    local y = at:forward(microbatch, take(self.arrived, at, microbatch), call)
    if following then
        self:send(self.arrived, y, following, microbatch)
        if following.mesh ~= at.mesh then
            at:sent(microbatch)
        end
    else
        self.losses[#self.losses + 1] = y:future()
    end
end

-- The gradient that a stage starts from: the next one's, or that of the loss.
function Step:gradient(at, microbatch)
    local last = at.index == self.trainer.schedule.stage_count - 1
    local scaler = self.trainer.scaler
    return last and (scaler and scaler.scale or 1) or take(self.returned, at, microbatch)
end

function Step:pass_back(at, microbatch, dx)
    local before = self.trainer.stages[at.replica][at.index - 1]
    if before then
        self:send(self.returned, dx, before, microbatch)
        dx:free()
    end
end

-- Is it the stage's last microbatch? Its gradients are complete then.
function Step:is_last(at)
    at.left = at.left - 1
    return at.left == 0
end

function Step:end_call(at, microbatch)
    local call = take(self.calls, at, microbatch)
    for _, name in ipairs{ "tokens", "targets" } do
        if call[name] then
            call[name]:free()
        end
    end
end

function Step:backward(index, microbatch, replica)
    local at = self.trainer.stages[replica][index]
    local dx = at:backward(microbatch, self:gradient(at, microbatch), self:is_last(at))
    self:pass_back(at, microbatch, dx)
    self:end_call(at, microbatch)
end

function Step:backward_input(index, microbatch, replica)
    local at = self.trainer.stages[replica][index]
    self:pass_back(at, microbatch, at:backward_input(microbatch, self:gradient(at, microbatch)))
end

function Step:backward_weight(index, microbatch, replica)
    local at = self.trainer.stages[replica][index]
    at:backward_weight(microbatch, self:is_last(at))
    self:end_call(at, microbatch)
end

-- Two pipelines in opposite directions have two copies of each stage: both get the sum.
local function join_replicas(self)
    for index = 0, self.schedule.stage_count - 1 do
        self.store:join(self.stages[0][index], self.stages[1][index])
    end
end

-- How many microbatches each replica of a stage gets in a step.
local function count_microbatches(self)
    for _, stages in pairs(self.stages) do
        for _, at in pairs(stages) do
            at.left = 0
        end
    end
    for _, actions in pairs(self.schedule.ranks) do
        for _, action in ipairs(actions) do
            if action.kind == "BW" or action.kind == "W" then
                local at = self.stages[action.replica or 0][action.stage]
                at.left = at.left + 1
            end
        end
    end
end

-- The mean loss over all microbatches; nil under --timing-only, where there are no values.
local function total_loss(futures)
    local sum = 0
    for _, future in ipairs(futures) do
        future:wait()
        sum = sum + (orrery.timing_only and 0 or future:get())
        future:free()
    end
    return not orrery.timing_only and sum or nil
end

-- Gradients as the optimizer takes them: unscaled, finite, clipped. False: the step is left out.
local function finish_gradients(self)
    local store = self.store
    if self.scaler then
        local bad = store:nonfinite()
        local scale = self.scaler.scale
        if not self.scaler:update(bad == 0) then
            store:drop_gradients()
            return false
        end
        store:scale(1 / scale)
    end
    if self.clip then
        store:clip(self.clip)
    end
    if self.on_gradients then
        for _, state in ipairs(store.order) do
            self.on_gradients(state.parameter, state.grad)
        end
    end
    return true
end

-- A loss that is no number: says which parameter's gradient has it first, if any.
local function check_loss(self, loss)
    if loss and loss ~= loss then
        local count, first = self.store:nonfinite()
        error(string.format("trainer: the loss of step %d is not a number%s", self.steps,
                            first and string.format("; %d elements of gradients aren't finite, the "
                                                    .. "first ones those of %s", count, first)
                                or ""), 0)
    end
end

-- One training step. data(microbatch), from 0, returns its tokens and targets: lists of batch /
-- microbatches * tokens numbers (not looked at under --timing-only). Returns the loss before the
-- step; a loss that is not a number is an error.
function Trainer:step(data)
    self.steps = self.steps + 1
    local step = setmetatable({ trainer = self, data = data, arrived = {}, returned = {},
                                calls = {}, losses = {} }, Step)
    count_microbatches(self)
    local callbacks = {}
    for _, name in ipairs{ "forward", "backward", "backward_input", "backward_weight" } do
        callbacks[name] = function(...)
            return step[name](step, ...)
        end
    end
    pipeline.run(self.schedule, callbacks)
    if self.schedule.replicas == 2 then
        join_replicas(self)
    end
    local loss = total_loss(step.losses)
    if not self.scaler then
        check_loss(self, loss)
    end
    if finish_gradients(self) then
        self.store:step()
    end
    return loss
end

-- Parameters of the model; a second copy of a bidirectional pipeline doesn't count.
function Trainer:parameter_count()
    local count = 0
    for _, at in pairs(self.stages[0]) do
        for _, block in ipairs(at.blocks) do
            for _, parameter in ipairs(block.parameters) do
                count = count + parameter:count()
            end
        end
    end
    return count
end

-- FLOPs that a step needs whatever the plan is: 6 for each token and parameter that a token meets,
-- but for embeddings, and 12 * layers * heads * head * tokens for attention (Chowdhery et al. 2022,
-- PaLM, appendix B). Recomputation doesn't count.
function Trainer:model_flops()
    local config, met = self.config, 0
    for _, at in pairs(self.stages[0]) do
        for _, block in ipairs(at.blocks) do
            for _, parameter in ipairs(block.parameters) do
                met = met + parameter:count() * transformer.share_met(config, block, parameter)
            end
        end
    end
    local attention = 12 * config.layers * config.heads * config.head * config.tokens
    return (6 * met + attention) * self.batch * config.tokens
end

-- Calls f(name, tensor) for the parameters as they are kept.
function Trainer:each_parameter(f)
    for _, state in ipairs(self.store.order) do
        f(state.parameter.name, state.kept)
    end
end

-- Frees the model and the optimizer's state.
function Trainer:free()
    self.store:free()
end

return trainer
