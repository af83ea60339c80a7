-- Does a captured graph help? One token at a time, batch 1, of two models that differ in what they
-- keep the device busy with:
--
--   moe     Granite 3.0 3B A800M (its published config.json): 32 layers, 40 experts of 512, 8 for
--           each token, called one after another as an eager program does. Some 80 small kernels a
--           layer: the host can't keep up, and one launch for all of them is many times faster.
--           Published for an H200 at batch 1: 26.5 ms eager, 2.67 ms with a graph (SGLang pull
--           request 33293), whose graph also has fused kernels for the experts.
--   dense   Llama 3 8B: 32 layers of few and large products. Reading the weights takes longer than
--           launching, so that a graph gives the gaps back and no more. Published: 9.28 -> 7.06 and
--           8.23 -> 7.35 ms (SGLang pull request 1401).
--
-- `orrery analyze` says which is which before anybody captures anything: launch-bound, and at most
-- how much of a step a graph would save, against a device that is busy with memory. The line
-- "steady" has the times to look at, without the making of the weights:
--
--     orrery run scenarios/serving/decode_graph.lua --timing-only
--     orrery analyze run.db --begin BEGIN --end END
--     orrery run scenarios/serving/decode_graph.lua graph=true --timing-only
--
-- Which experts a layer takes is fixed: what counts is how many kernels there are.
--
-- devices: sim:h200
-- test: --timing-only
-- test: graph=true --timing-only
-- test: model=dense --timing-only
-- test: model=dense graph=true --timing-only
-- test: layers=2 hidden=64 heads=4 kv_heads=2 ffn=32 experts=6 top_k=2 vocab=50 past=8
-- test: layers=2 hidden=64 heads=4 kv_heads=2 ffn=32 experts=6 top_k=2 vocab=50 past=8 graph=true

local p = orrery.args{ model = "moe", graph = false, steps = 4, past = 256, layers = 32, hidden = 0,
                       heads = 0, kv_heads = 8, ffn = 0, experts = 40, top_k = 8, vocab = 0,
                       framework_ns = 3500 }

local moe = p.model == "moe"
local function or_else(value, other)
    return value > 0 and value or other
end
if not moe and p.model ~= "dense" then
    error("model is moe or dense, not '" .. p.model .. "'")
end
local hidden = or_else(p.hidden, moe and 1536 or 4096)
local heads = or_else(p.heads, moe and 24 or 32)
local ffn = or_else(p.ffn, moe and 512 or 14336)
local vocab = or_else(p.vocab, moe and 49155 or 128256)
local head = hidden // heads

-- What Python and an eager framework take for an operator beside the host's time in the machine's
-- profile, which is that of compiled code.
local function eager(name)
    return function(x, ...)
        orrery.spend(p.framework_ns)
        return x[name](x, ...)
    end
end
local linear, matmul, rmsnorm = eager "linear", eager "matmul", eager "rmsnorm"
local silu, softmax, topk, rope = eager "silu", eager "softmax", eager "topk", eager "rope"
local argmax, total = eager "argmax", eager "sum"
local function add(x, y) orrery.spend(p.framework_ns); return x + y end
local function multiply(x, y) orrery.spend(p.framework_ns); return x * y end
local function divide(x, y) orrery.spend(p.framework_ns); return x / y end
local function concat(...) orrery.spend(p.framework_ns); return orrery.concat(...) end
local function sdpa(...) orrery.spend(p.framework_ns); return orrery.sdpa(...) end

-- Times don't depend on values, and ones are quickly made; small, so that sums stay finite.
local function matrix(rows, columns)
    local ones <close> = orrery.ones{ shape = {rows, columns}, dtype = "bf16" }
    return ones * (1 / columns)
end

local function expert()
    return { gate = matrix(ffn, hidden), up = matrix(ffn, hidden), down = matrix(hidden, ffn) }
end

local function new_layer()
    local width, kv = heads * head, p.kv_heads * head
    local layer = { wq = matrix(width, hidden), wk = matrix(kv, hidden), wv = matrix(kv, hidden),
                    wo = matrix(hidden, width), experts = {} }
    for _, name in ipairs{ "attention_norm", "ffn_norm" } do
        layer[name] = orrery.ones{ shape = {hidden}, dtype = "bf16" }
    end
    for _, name in ipairs{ "keys", "values" } do
        layer[name] = orrery.ones{ shape = {1, p.kv_heads, p.past, head}, dtype = "bf16" }
    end
    layer.router = moe and matrix(p.experts, hidden)
    for e = 1, moe and p.experts or 1 do
        layer.experts[e] = expert()
    end
    return layer
end

-- [1, heads * head] -> [1, heads, 1, head]: of one token a view, no kernel.
local function split(x, count)
    return x:reshape{ shape = {1, count, 1, head} }
end

local function attention(layer, x)
    local q = rope(split(linear(x, layer.wq), heads), { offset = p.past, theta = 10000 })
    local k = rope(split(linear(x, layer.wk), p.kv_heads), { offset = p.past, theta = 10000 })
    local v = split(linear(x, layer.wv), p.kv_heads)
    k, v = concat(layer.keys, k, { dim = 2 }), concat(layer.values, v, { dim = 2 })
    local mixed = sdpa(q, k, v, { causal = true })
    return linear(mixed:reshape{ shape = {1, heads * head} }, layer.wo)
end

local function feed_forward(e, x)
    return linear(multiply(silu(linear(x, e.gate)), linear(x, e.up)), e.down)
end

-- A token through the experts of its layer one by one, as an eager program goes, and the sum of
-- what they make, weighted by the router.
local function mixture(layer, index, x)
    local weights = topk(softmax(linear(x, layer.router)), { k = p.top_k })
    weights = divide(weights, total(weights, { dim = -1, keepdim = true }))
    local made = {}
    for i = 1, p.top_k do
        made[i] = feed_forward(layer.experts[(index * 3 + i * 5) % p.experts + 1], x)
    end
    made[#made + 1] = { dim = 0 }
    return matmul(weights, concat(table.unpack(made)))
end

local layers = {}
orrery.role("parameter", function()
    for index = 1, p.layers do
        layers[index] = new_layer()
    end
end)
local norm = orrery.ones{ shape = {hidden}, dtype = "bf16" }
local output = matrix(vocab, hidden)
local token = matrix(1, hidden)

local function step(x)
    for index, layer in ipairs(layers) do
        x = add(x, attention(layer, rmsnorm(x, layer.attention_norm)))
        local inner = rmsnorm(x, layer.ffn_norm)
        x = add(x, moe and mixture(layer, index, inner) or feed_forward(layer.experts[1], inner))
    end
    return argmax(linear(rmsnorm(x, norm), output), { dim = 1 })
end
if p.graph then
    step = orrery.capture(step, { name = "step", fusion = "off" })
end

-- The first step captures, if it is to be captured.
local device = orrery.device(0)
local function run(steps)
    for _ = 1, steps do
        orrery.scope(step, token):free()
    end
    device:sync()
end
run(1)
local begin = orrery.now()
run(p.steps)
local stop = orrery.now()
print(string.format("%s, %s: %.3f us a token", p.model, p.graph and "one launch" or "eager",
                    (stop - begin) / p.steps / 1e3))
print(string.format("steady: --begin %d --end %d", begin, stop))
expect.clean()
