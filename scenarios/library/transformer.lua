-- Decoders by configuration: Llama (RMSNorm, rotary positions, grouped-query attention, SwiGLU),
-- GPT (LayerNorm, learned positions, GELU, biases, dropout), and mixtures of experts, under a plan
-- of parallelism. Real dimensions are in the module `configurations`.
--
--     local transformer = require "transformer"
--     local blocks = transformer.blocks(config, plan, { first = 0, last = 3, mesh = mesh })
--
-- A model is a list of blocks, one behind the other: the embedding, the layers, the head with the
-- loss. A block has `parameters`, a list, and `forward(x, call)`; what it hands on is one tensor.
-- `call` has tokens and targets ([batch, tokens], i64), total (tokens in the whole batch: what the
-- loss divides by), first (the microbatch's first sequence in the whole batch), seed (of dropout).

local losses = require "losses"
local nn = require "nn"

local transformer = {}

local DEFAULTS = {
    vocab = 128, hidden = 64, layers = 4, heads = 8, tokens = 16, ffn = 128,
    norm = "rmsnorm", eps = 1e-5, activation = "swiglu", positions = "rope", theta = 500000,
    bias = false, fused = true, dropout = 0, dtype = "f32",
    kv_heads = false, head = false,
    moe = false, -- options of nn.MixtureOfExperts; first: layers before it are dense
}

-- A configuration with the defaults of what it leaves out.
function transformer.configuration(options)
    local config = {}
    for name, value in pairs(DEFAULTS) do
        config[name] = value
    end
    for name, value in pairs(options) do
        if DEFAULTS[name] == nil then
            error("transformer: unknown option '" .. tostring(name) .. "'", 2)
        end
        config[name] = value
    end
    config.kv_heads = config.kv_heads or config.heads
    config.head = config.head or config.hidden // config.heads
    for _, name in ipairs{ "vocab", "hidden", "layers", "heads", "kv_heads", "head", "tokens",
                           "ffn" } do
        if math.type(config[name]) ~= "integer" or config[name] < 1 then
            error(string.format("transformer: %s is %s, expected a whole number above 0", name,
                                tostring(config[name])), 2)
        end
    end
    return config
end

local function common(config, plan, mesh, name)
    return { plan = plan, mesh = mesh, dtype = config.dtype, name = name, hidden = config.hidden }
end

local function with(o, more)
    for key, value in pairs(more) do
        o[key] = value
    end
    return o
end

-- --- embedding ---

local Embedding = {}
Embedding.__index = Embedding

local function embedding(config, plan, mesh)
    local self = setmetatable({ name = "embedding", config = config, plan = plan }, Embedding)
    self.table = nn.VocabParallelEmbedding(with(common(config, plan, mesh, "embedding"), {
        rows = config.vocab, width = config.hidden }))
    self.parameters = self.table.parameters
    if config.positions == "learned" then
        self.positions = nn.PositionEmbedding(with(common(config, plan, mesh, "positions"), {
            rows = config.tokens, width = config.hidden }))
        self.parameters = nn.collect(self.table, self.positions)
    end
    return self
end

function Embedding:forward(_, call)
    local x = self.table:forward(call.tokens)
    x = self.positions and self.positions:forward(x) or x
    return nn.dropout(x, self.config.dropout, call, 2)
end

-- --- a layer ---

local Layer = {}
Layer.__index = Layer

local function layer(config, plan, mesh, index)
    local name = "layer" .. index
    local self = setmetatable({ name = name, index = index, config = config, plan = plan }, Layer)
    local function part(suffix)
        return common(config, plan, mesh, name .. "." .. suffix)
    end
    local function norm(suffix)
        return nn.Norm(with(part(suffix), { width = config.hidden, kind = config.norm,
                                            eps = config.eps }))
    end
    self.attention_norm, self.ffn_norm = norm("attention_norm"), norm("ffn_norm")
    self.attention = nn.Attention(with(part("attention"), {
        heads = config.heads, kv_heads = config.kv_heads, head = config.head, bias = config.bias,
        positions = config.positions, theta = config.theta, fused = config.fused,
        dropout = config.dropout }))
    local moe = config.moe
    if moe and index >= (moe.first or 0) then
        self.ffn = nn.MixtureOfExperts(with(part("experts"), moe))
    else
        self.ffn = nn.FeedForward(with(part("ffn"), { ffn = config.ffn, bias = config.bias,
                                                      activation = config.activation }))
    end
    self.parameters = nn.collect(self.attention_norm, self.attention, self.ffn_norm, self.ffn)
    return self
end

-- Residuals around attention and feed-forward, each behind its norm.
function Layer:forward(x, call)
    local dropout = self.config.dropout
    local here = with({ layer = self.index }, call)
    here.seed = call.seed * 1024 + self.index
    local mixed = self.attention:forward(self.attention_norm:forward(x), here)
    x = x + nn.dropout(mixed, dropout, here, 3)
    local fed = self.ffn:forward(self.ffn_norm:forward(x), here)
    return x + nn.dropout(fed, dropout, here, 4)
end

-- --- head ---

local Head = {}
Head.__index = Head

local function head(config, plan, mesh)
    local self = setmetatable({ name = "head", config = config, plan = plan }, Head)
    self.norm = nn.Norm(with(common(config, plan, mesh, "head.norm"), {
        width = config.hidden, kind = config.norm, eps = config.eps }))
    self.output = nn.ColumnParallelLinear(with(common(config, plan, mesh, "head.output"), {
        input = config.hidden, output = config.vocab }))
    self.parameters = nn.collect(self.norm, self.output)
    return self
end

-- The rank's part of the mean loss: P(sum) over the data ranks.
function Head:forward(x, call)
    local logits = nn.project(self.plan, self.norm:forward(x), { self.output })
    return losses.cross_entropy(logits, call.targets, { total = call.total })
end

-- The blocks of layers `first` to `last` (from 0) on a mesh of the plan; with the first layer comes
-- the embedding, with the last one the head.
function transformer.blocks(config, plan, o)
    local blocks = {}
    if o.first == 0 then
        blocks[1] = embedding(config, plan, o.mesh)
    end
    for index = o.first, o.last do
        blocks[#blocks + 1] = layer(config, plan, o.mesh, index)
    end
    if o.last == config.layers - 1 then
        blocks[#blocks + 1] = head(config, plan, o.mesh)
    end
    return blocks
end

-- The share of a parameter that a token meets: of experts, those it is sent to; of embeddings,
-- which are looked up, nothing.
function transformer.share_met(config, block, parameter)
    if block.name == "embedding" then
        return 0
    end
    local routed = #parameter.shape == 5
    return routed and config.moe.top_k / config.moe.experts or 1
end

return transformer
