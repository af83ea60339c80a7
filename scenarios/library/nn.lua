-- Layers under a plan of parallelism (module `parallel`), with the names that the frameworks use.
--
--     local nn = require "nn"
--     local up = nn.ColumnParallelLinear{ plan = plan, mesh = mesh, name = "up", input = 64,
--                                         output = 256 }
--     for _, parameter in ipairs(up.parameters) do parameter:create() end
--     local y = up:forward(plan:enter(x))
--
-- A layer is a table with `parameters`, a list, and `forward`. A parameter knows its shape, where
-- it lies and how it begins; `value` is the tensor that forward uses, which who runs the layer puts
-- there: for a parameter that is sharded and gathered before use it is not the one that is kept.
--
--     layer                      weight        forward along tp
--     ColumnParallelLinear       S(0)          R -> S(last)
--     RowParallelLinear          S(1)          S(last) -> P(sum); plan:leave makes it R or S(1)
--     VocabParallelEmbedding     S(0)          R -> P(sum), likewise
--     Linear, norms              R             as it comes
--
-- Shoeybi et al. 2019 (Megatron-LM); with `sequence` Korthikanti et al. 2022.

local ring_attention = require "ring_attention"

local nn = {}

local Parameter = {}
Parameter.__index = Parameter

-- name, shape, place (by axis), init: "ones", "zeros" or the standard deviation of random numbers.
-- Its random numbers belong to its name, so that they are the same under every plan.
local function parameter(o, name, shape, place, init)
    return setmetatable({ name = o.name .. "." .. name, shape = shape, by_axis = place, init = init,
                          place = o.plan:place(place), mesh = o.mesh, plan = o.plan,
                          dtype = o.dtype or "f32" }, Parameter)
end

local function seed_of(name)
    local hash = 5381
    for i = 1, #name do
        hash = (hash * 33 + name:byte(i)) % 2147483648
    end
    return hash
end

-- Makes a tensor with the parameter's first values; `place` unless where the parameter lies.
function Parameter:create(place)
    local options = { shape = self.shape, dtype = self.dtype, mesh = self.mesh,
                      place = place or self.place }
    if type(self.init) == "string" then
        return orrery[self.init](options)
    end
    options.seed = seed_of(self.name)
    local drawn <close> = orrery.randn(options)
    return drawn * self.init
end

-- Elements of the whole.
function Parameter:count()
    local count = 1
    for _, size in ipairs(self.shape) do
        count = count * size
    end
    return count
end

local function layer(class, o, parameters)
    local self = setmetatable({ plan = o.plan, mesh = o.mesh, name = o.name, options = o,
                                parameters = {} }, class)
    for key, value in pairs(parameters) do
        self[key] = value
        self.parameters[#self.parameters + 1] = value
    end
    return self
end

-- Puts the parameters of layers into one list.
function nn.collect(...)
    local all = {}
    for _, part in ipairs{ ... } do
        for _, one in ipairs(part.parameters) do
            all[#all + 1] = one
        end
    end
    return all
end

local function divides(what, size, axis, count)
    if size % count ~= 0 then
        error(string.format("nn: %s = %d doesn't divide by %s = %d", what, size, axis, count), 0)
    end
end

-- --- linear layers ---

local Linear = {}
Linear.__index = Linear

-- Y = X W^T + b with W [output, input]. shard: nil, "column" or "row".
function nn.Linear(o)
    local tp = o.shard == "column" and "S(0)" or o.shard == "row" and "S(1)" or nil
    if o.shard == "column" then
        divides(o.name .. ": output", o.output, "tp", o.plan.tp)
    elseif o.shard == "row" then
        divides(o.name .. ": input", o.input, "tp", o.plan.tp)
    end
    local std = o.std or 1 / math.sqrt(o.input)
    return layer(Linear, o, {
        weight = parameter(o, "weight", {o.output, o.input}, { tp = tp }, std),
        bias = o.bias and parameter(o, "bias", {o.output},
                                    { tp = o.shard == "column" and "S(0)" or nil },
                                    "zeros") or nil,
    })
end

local function with(o, more)
    local all = {}
    for key, value in pairs(o) do
        all[key] = value
    end
    for key, value in pairs(more) do
        all[key] = value
    end
    return all
end

function nn.ColumnParallelLinear(o)
    return nn.Linear(with(o, { shard = "column" }))
end

function nn.RowParallelLinear(o)
    return nn.Linear(with(o, { shard = "row" }))
end

-- A row-parallel product comes out partial; its bias is added once, after the reduction.
function Linear:forward(x)
    local row = self.options.shard == "row"
    if self.bias and not row then
        return x:linear(self.weight.value, self.bias.value)
    end
    local y = x:linear(self.weight.value)
    y = row and self.plan:leave(y) or y
    return self.bias and y + self.bias.value or y
end

-- Gradient of the input of column-parallel products: each tp rank has a term; their sum is
-- scattered.
local function project_input(ctx, layers, grads)
    local dx = nil
    for i in ipairs(layers) do
        local part = grads[i]:matmul(ctx.saved["weight" .. i])
        dx = dx and dx + part or part
    end
    return dx:redistribute{ tp = "S(1)" }
end

-- Backward of products that read one gathered input: it is gathered again while the gradient of the
-- input is computed; that is scattered while those of the weights are. A pipeline may ask for the
-- two apart.
local function project_backward(ctx, layers, grads)
    local wanted, all = ctx.wanted, {}
    local weights = wanted[2]
    local full = weights and ctx.saved.x:redistribute{ tp = "R" }
    all[1] = wanted[1] and project_input(ctx, layers, grads)
    for i, layer in ipairs(layers) do
        all[#all + 1] = weights and grads[i]:matmul_backward_weight(full)
        if layer.bias then
            all[#all + 1] = weights and grads[i]:unbroadcast{ dims = {0, 1}, leading = 2 }
        end
    end
    return table.unpack(all)
end

-- Column-parallel products of one input [batch, tokens, width]. With `sequence` its tokens are
-- gathered for them; not the whole input is kept for backward but the rank's part (Korthikanti et
-- al. 2022, section 4.2.2).
function nn.project(plan, x, layers)
    local function forward(input)
        local results = {}
        for i, one in ipairs(layers) do
            results[i] = one:forward(input)
        end
        return table.unpack(results)
    end
    if not plan.sequence then
        return forward(x)
    end
    local operands = { x }
    for _, one in ipairs(layers) do
        operands[#operands + 1] = one.weight.value
        operands[#operands + 1] = one.bias and one.bias.value or nil
    end
    return orrery.custom_gradient{
        split = true,
        forward = function(ctx, input)
            ctx:save{ x = input }
            for i, one in ipairs(layers) do
                ctx:save{ ["weight" .. i] = one.weight.value }
            end
            return forward(plan:enter(input))
        end,
        backward = function(ctx, ...)
            return project_backward(ctx, layers, { ... })
        end,
    }(table.unpack(operands))
end

-- --- embedding ---

local Embedding = {}
Embedding.__index = Embedding

function nn.VocabParallelEmbedding(o)
    divides(o.name .. ": vocabulary", o.rows, "tp", o.plan.tp)
    return layer(Embedding, o, {
        weight = parameter(o, "weight", {o.rows, o.width}, { tp = "S(0)" }, o.std or 1),
    })
end

-- tokens [batch, tokens] -> [batch, tokens, width]
function Embedding:forward(tokens)
    return self.plan:leave(tokens:embedding(self.weight.value))
end

-- Learned positions: [tokens, width], which broadcasts over the batch.
local Positions = {}
Positions.__index = Positions

function nn.PositionEmbedding(o)
    return layer(Positions, o, {
        weight = parameter(o, "weight", {o.rows, o.width}, {}, o.std or 0.02),
    })
end

-- x + positions: the rows of the rank's own tokens.
function Positions:forward(x)
    local plan, tokens = self.plan, x:shape()[2]
    local rows = self.weight.value
    if tokens < self.options.rows then
        rows = rows:slice{ starts = {0}, ends = {tokens} }
    end
    local place = plan:place{ cp = "S(0)", tp = plan.sequence and "S(0)" or "R" }
    return x + rows:redistribute(place)
end

-- --- norms ---

local Norm = {}
Norm.__index = Norm

-- kind: "rmsnorm" or "layernorm"
function nn.Norm(o)
    return layer(Norm, o, {
        weight = parameter(o, "weight", {o.width}, {}, "ones"),
        bias = o.kind == "layernorm" and parameter(o, "bias", {o.width}, {}, "zeros") or nil,
    })
end

function Norm:forward(x)
    local eps = { eps = self.options.eps or 1e-5 }
    if self.options.kind == "layernorm" then
        return x:layernorm(self.weight.value, self.bias.value, eps)
    end
    return x:rmsnorm(self.weight.value, eps)
end

-- Dropout as the frameworks do it, with a mask that is kept for the backward pass. `call.seed`
-- tells steps, microbatches and layers apart.
function nn.dropout(x, probability, call, salt)
    if probability == 0 then
        return x
    end
    local y = x:dropout_mask{ p = probability, seed = call.seed * 64 + salt }
    return y
end

-- --- attention ---

local Attention = {}
Attention.__index = Attention

-- hidden, heads, kv_heads (heads), head (hidden / heads), bias, positions ("rope" or nil), theta,
-- fused (true), dropout (of the probabilities, unfused only), qk_norm
function nn.Attention(o)
    local heads, kv_heads = o.heads, o.kv_heads or o.heads
    local head = o.head or o.hidden // heads
    divides(o.name .. ": heads", heads, "tp", o.plan.tp)
    divides(o.name .. ": kv_heads", kv_heads, "tp", o.plan.tp)
    if o.plan.context == "all_to_all" and o.plan.cp > 1 then
        divides(o.name .. ": kv_heads / tp", kv_heads // o.plan.tp, "cp", o.plan.cp)
    end
    local function part(name, shard, input, output)
        return nn.Linear{ plan = o.plan, mesh = o.mesh, dtype = o.dtype, bias = o.bias,
                          name = o.name .. "." .. name, shard = shard, input = input,
                          output = output }
    end
    local self = setmetatable({ plan = o.plan, options = o, heads = heads, kv_heads = kv_heads,
                                head = head }, Attention)
    self.q = part("q", "column", o.hidden, heads * head)
    self.k = part("k", "column", o.hidden, kv_heads * head)
    self.v = part("v", "column", o.hidden, kv_heads * head)
    self.out = part("out", "row", heads * head, o.hidden)
    self.parameters = nn.collect(self.q, self.k, self.v, self.out)
    return self
end

-- [batch, tokens, heads * head] -> [batch, heads, tokens, head]
local function split_heads(x, heads, head)
    local shape = x:shape()
    return x:reshape{ shape = {shape[1], shape[2], heads, head} }:transpose{ perm = {0, 2, 1, 3} }
end

local function merge_heads(x)
    local turned = x:transpose{ perm = {0, 2, 1, 3} }
    local shape = turned:shape()
    return turned:reshape{ shape = {shape[1], shape[2], shape[3] * shape[4]} }
end

-- softmax(q k^T / sqrt(d)) v, step by step: what frameworks do without a fused kernel.
local function unfused(self, q, k, v, call)
    local scores = (q * (1 / math.sqrt(self.head))):matmul(k, { transpose_b = true })
    local probabilities = scores:softmax{ causal = true }
    return nn.dropout(probabilities, self.options.dropout or 0, call, 1):matmul(v)
end

-- Every rank has all tokens for a part of its heads (Jacobs et al. 2023, DeepSpeed-Ulysses): the
-- heads of a tp rank are cut over cp, so tp comes before cp in the order of the axes.
local function exchange_heads(self, q, k, v, core)
    local plan = self.plan
    local turned = q:mesh():permute{ "dp", "ep", "tp", "cp" }
    local function place(cp)
        return { dp = plan.dp > 1 and "S(0)" or "R", ep = plan.ep > 1 and "S(0)" or "R",
                 tp = plan.tp > 1 and "S(1)" or "R", cp = cp }
    end
    local function all_tokens(x)
        return x:redistribute(place("S(2)"), turned):redistribute(place("S(1)"))
    end
    local y = core(all_tokens(q), all_tokens(k), all_tokens(v))
    return y:redistribute(place("S(2)")):redistribute(place("S(2)"), q:mesh())
end

function Attention:core(q, k, v, call)
    local plan = self.plan
    local function run(a, b, c)
        if self.options.fused == false then
            return unfused(self, a, b, c, call)
        end
        return orrery.sdpa(a, b, c, { causal = true })
    end
    local function recomputed(a, b, c)
        return plan.recompute == "selective" and orrery.checkpoint(run, a, b, c) or run(a, b, c)
    end
    if plan.cp == 1 then
        return recomputed(q, k, v)
    end
    if plan.context == "all_to_all" then
        return exchange_heads(self, q, k, v, recomputed)
    end
    return ring_attention(q, k, v, { axis = "cp", causal = true })
end

-- x as plan:activation says -> the same, through plan:leave
function Attention:forward(x, call)
    local q, k, v = nn.project(self.plan, x, { self.q, self.k, self.v })
    q = split_heads(q, self.heads, self.head)
    k = split_heads(k, self.kv_heads, self.head)
    v = split_heads(v, self.kv_heads, self.head)
    if self.options.positions == "rope" then
        q = q:rope{ theta = self.options.theta }
        k = k:rope{ theta = self.options.theta }
    end
    return self.out:forward(merge_heads(self:core(q, k, v, call)))
end

-- --- feed-forward ---

local FeedForward = {}
FeedForward.__index = FeedForward

-- hidden, ffn, activation: "swiglu" (gate and up) or "gelu"; bias
function nn.FeedForward(o)
    local function part(name, shard, input, output)
        return nn.Linear{ plan = o.plan, mesh = o.mesh, dtype = o.dtype, bias = o.bias,
                          name = o.name .. "." .. name, shard = shard, input = input,
                          output = output }
    end
    local self = setmetatable({ plan = o.plan, options = o }, FeedForward)
    self.up = part("up", "column", o.hidden, o.ffn)
    self.down = part("down", "row", o.ffn, o.hidden)
    self.parameters = nn.collect(self.up, self.down)
    if o.activation == "swiglu" then
        self.gate = part("gate", "column", o.hidden, o.ffn)
        self.parameters = nn.collect(self.gate, self.up, self.down)
    end
    return self
end

-- As attention.
function FeedForward:forward(x)
    if self.gate then
        local gate, up = nn.project(self.plan, x, { self.gate, self.up })
        return self.down:forward(gate:silu() * up)
    end
    return self.down:forward(nn.project(self.plan, x, { self.up }):gelu())
end

-- --- mixture of experts ---

local Experts = {}
Experts.__index = Experts

-- hidden, ffn (of an expert), experts, top_k, capacity_factor (nil: no token is dropped),
-- shared (width of an expert that sees all tokens), score ("softmax" or "sigmoid"), routing:
-- "learned", or "fixed": experts by position, weights learned (for comparisons: a rounding
-- difference can't send a token elsewhere).
--
-- Tokens are grouped as they lie on the data ranks; every group has `capacity` slots per expert
-- (GShard, Lepikhin et al. 2020). Experts are cut over ep, their width over tp:
--
--     x [b, s, h] --dispatch--> [experts, gb, gs, capacity, h]: groups over dp, ep | cp
--     --all-to-all over ep--> experts over ep --experts--> --all-to-all--> --combine--> [b, s, h]
function nn.MixtureOfExperts(o)
    divides(o.name .. ": experts", o.experts, "ep", o.plan.ep)
    divides(o.name .. ": ffn", o.ffn, "tp", o.plan.tp)
    local self = setmetatable({ plan = o.plan, options = o, name = o.name }, Experts)
    local function bank(name, input, output, tp)
        return parameter(o, name, {o.experts, 1, 1, input, output}, { ep = "S(0)", tp = tp },
                         1 / math.sqrt(input))
    end
    self.router = parameter(o, "router", {o.experts, o.hidden}, {}, 1 / math.sqrt(o.hidden))
    self.gate = bank("gate", o.hidden, o.ffn, "S(4)")
    self.up = bank("up", o.hidden, o.ffn, "S(4)")
    self.down = bank("down", o.ffn, o.hidden, "S(3)")
    self.parameters = { self.router, self.gate, self.up, self.down }
    if o.shared then
        self.shared = nn.FeedForward{ plan = o.plan, mesh = o.mesh, dtype = o.dtype,
                                      name = o.name .. ".shared", hidden = o.hidden,
                                      ffn = o.shared, activation = "swiglu" }
        self.parameters = nn.collect({ parameters = self.parameters }, self.shared)
    end
    return self
end

-- Experts by the token's place in the step's batch: distinct for a token, spread over all.
local function fixed_experts(self, x, call)
    local o, plan, shape = self.options, self.plan, x:shape()
    local values = {}
    for b = 0, shape[1] - 1 do
        for s = 0, shape[2] - 1 do
            for k = 0, o.top_k - 1 do
                values[#values + 1] = ((call.first + b) * 5 + s * 3 + call.layer + k) % o.experts
            end
        end
    end
    return orrery.tensor{ shape = {shape[1], shape[2], o.top_k}, dtype = "i64", values = values,
                          mesh = x:mesh(), place = plan:tokens() }
end

-- Experts [b, s, k] and their weights, which sum to 1.
local function route(self, x, call)
    local o = self.options
    local logits = x:linear(self.router.value)
    local scores = o.score == "sigmoid" and logits:sigmoid() or logits:softmax()
    local weights, experts
    if o.routing == "fixed" then
        experts = fixed_experts(self, x, call)
        weights = scores:gather_last(experts)
    else
        weights, experts = scores:topk{ k = o.top_k }
    end
    return experts, weights / weights:sum{ dim = -1, keepdim = true }
end

function Experts:capacity(tokens)
    local o = self.options
    if not o.capacity_factor then
        return tokens -- an expert is chosen by a token once at most
    end
    return math.min(tokens, math.ceil(o.capacity_factor * o.top_k * tokens / o.experts))
end

function Experts:forward(input, call)
    local o, plan, shape = self.options, self.plan, input:shape()
    local x = plan:enter(input)
    local experts, weights = route(self, x, call)
    local groups = { plan.dp * plan.ep, plan.cp }
    local capacity = self:capacity((shape[1] // groups[1]) * (shape[2] // groups[2]))
    local function over_ep(y, place)
        return plan.ep > 1 and y:redistribute{ ep = place } or y
    end
    local slots = over_ep(x:moe_dispatch(experts, { experts = o.experts, capacity = capacity,
                                                    groups = groups }), "S(0)")
    local inner = slots:matmul(self.gate.value):silu() * slots:matmul(self.up.value)
    local outer = over_ep(inner:matmul(self.down.value), "S(1)")
    local y = plan:leave(outer:moe_combine(experts, weights))
    return self.shared and y + self.shared:forward(input) or y
end

return nn
