-- One decoder layer as in Llama 3: grouped-query attention with rotary positions, RMSNorm before
-- attention and before the gated (SwiGLU) feed-forward network, residuals around both.
--
--     local llama = require "llama"
--     local layer = llama.layer{ hidden = 4096, ffn = 14336, heads = 32, kv_heads = 8, dtype =
--     "bf16" } y = layer:forward(x, { batch = 1, tokens = 8192 })                 -- prefill: x is
--     [tokens, hidden] y = layer:forward(x, { batch = 1, tokens = 1, cache = cache })     -- decode
--
-- Dimensions of Llama-3-8B: hidden 4096, ffn 14336, 32 query heads, 8 key and value heads, head
-- dimension 128, theta 500000, epsilon 1e-5 (its published config.json).

local llama = {}

local Layer = {}

local function weight(options, seed, ...)
    return orrery.randn{ shape = {...}, dtype = options.dtype, seed = options.seed * 100 + seed }
end

-- Weights are [out, in], as linear takes them, and scaled so that activations stay of order one.
function llama.layer(options)
    local o = { hidden = 4096, ffn = 14336, heads = 32, kv_heads = 8, dtype = "bf16",
                theta = 500000, seed = 1 }
    for key, value in pairs(options) do
        o[key] = value
    end
    local head = o.hidden // o.heads
    local layer = { options = o, head = head }
    local function matrix(seed, rows, columns)
        return weight(o, seed, rows, columns) * (1 / math.sqrt(columns))
    end
    layer.attention_norm = orrery.ones{ shape = {o.hidden}, dtype = o.dtype }
    layer.ffn_norm = orrery.ones{ shape = {o.hidden}, dtype = o.dtype }
    layer.wq = matrix(1, o.heads * head, o.hidden)
    layer.wk = matrix(2, o.kv_heads * head, o.hidden)
    layer.wv = matrix(3, o.kv_heads * head, o.hidden)
    layer.wo = matrix(4, o.hidden, o.heads * head)
    layer.gate = matrix(5, o.ffn, o.hidden)
    layer.up = matrix(6, o.ffn, o.hidden)
    layer.down = matrix(7, o.hidden, o.ffn)
    for name, method in pairs(Layer) do
        layer[name] = method
    end
    return layer
end

-- [batch * tokens, heads * head] -> [batch, heads, tokens, head]
local function split_heads(x, batch, tokens, heads, head)
    local shaped = x:reshape{ shape = {batch, tokens, heads, head} }
    return shaped:transpose{ perm = {0, 2, 1, 3} }
end

local function merge_heads(x, batch, tokens, width)
    return x:transpose{ perm = {0, 2, 1, 3} }:reshape{ shape = {batch * tokens, width} }
end

-- `cache` (optional): {k, v} of shape [batch, kv_heads, past, head]; the new keys and values are
-- appended.
function Layer.attention(layer, x, call)
    local o, head = layer.options, layer.head
    local past = call.cache and call.cache.k:shape()[3] or 0
    local q = split_heads(x:linear(layer.wq), call.batch, call.tokens, o.heads, head)
    local k = split_heads(x:linear(layer.wk), call.batch, call.tokens, o.kv_heads, head)
    local v = split_heads(x:linear(layer.wv), call.batch, call.tokens, o.kv_heads, head)
    q = q:rope{ offset = past, theta = o.theta }
    k = k:rope{ offset = past, theta = o.theta }
    if call.cache then
        k = orrery.concat(call.cache.k, k, { dim = 2 })
        v = orrery.concat(call.cache.v, v, { dim = 2 })
    end
    local mixed = orrery.sdpa(q, k, v, { causal = true })
    return merge_heads(mixed, call.batch, call.tokens, o.heads * head):linear(layer.wo)
end

function Layer.feed_forward(layer, x)
    return (x:linear(layer.gate):silu() * x:linear(layer.up)):linear(layer.down)
end

function Layer.forward(layer, x, call)
    x = x + layer:attention(x:rmsnorm(layer.attention_norm), call)
    return x + layer:feed_forward(x:rmsnorm(layer.ffn_norm))
end

return llama
