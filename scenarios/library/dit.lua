-- A diffusion transformer like FLUX: text and image tokens attend to each other in blocks that have
-- weights of their own for both (double stream), then in blocks that share them (single stream);
-- everything is modulated by the time step (Peebles and Xie, "Scalable diffusion models with
-- transformers", 2023; Esser et al., "Scaling rectified flow transformers", 2024). A flow-matching
-- sampler (Lipman et al., 2022) and a decoder of convolutions turn its latents into an image.
--
--     local dit = require "dit"
--     local m = dit.model{ size = "tiny", mesh = mesh }
--     local latent = dit.sample(m, { steps = 8 })
--     local image = dit.decoder{ size = "tiny", mesh = mesh }:forward(latent)
--
-- The mesh has one axis. Weights are replicated on it and tokens are sharded; around attention
-- they are exchanged for heads, by one all-to-all there and one back (Jacobs et al., "DeepSpeed
-- Ulysses", 2023):
--
--     [1, tokens S, 3, heads, head]  ->  [1, tokens, 3, heads S, head]  ->  attention
--
-- What differs from FLUX: positions are counted along the sequence instead of along three axes,
-- guidance is a second evaluation instead of a number that is embedded, gelu is the erf form, and
-- the decoder has no attention in its middle.

local dit = {}

-- flux: FluxParams and AutoEncoderParams of flux-dev in black-forest-labs/flux, src/flux/util.py;
-- an image of 1024 x 1024 has latents of 128 x 128.
dit.sizes = {
    tiny = { hidden = 64, heads = 4, double = 2, single = 2, mlp = 4, channels = 4, patch = 2,
             height = 8, width = 8, text = 8, context = 32, pooled = 16, theta = 10000,
             dtype = "f32", decoder = { channels = 16, multiples = {1, 2}, blocks = 1,
                                        groups = 4 } },
    flux = { hidden = 3072, heads = 24, double = 19, single = 38, mlp = 4, channels = 16, patch = 2,
             height = 128, width = 128, text = 512, context = 4096, pooled = 768, theta = 10000,
             dtype = "bf16", decoder = { channels = 128, multiples = {1, 2, 4, 4}, blocks = 3,
                                         groups = 32 } },
}
local FREQUENCIES = 128 -- of the time step's embedding: half of its 256 numbers

local function size_of(name)
    if not dit.sizes[name] then
        error("there is no size '" .. tostring(name) .. "'; known: tiny, flux", 3)
    end
    return dit.sizes[name]
end

-- --- parameters ---

local function fill(m, scale, shape)
    m.drawn = m.drawn + 1
    local raw <close> = orrery.randn{ shape = shape, dtype = m.dtype, mesh = m.mesh,
                                      place = {"R"}, seed = m.seed * 100000 + m.drawn }
    return raw * scale
end

-- A linear layer; with m.quantize its weight is codes of that dtype and their scales.
local function new_linear(m, from, to)
    local layer = { b = fill(m, 0.02, {to}) }
    local w = fill(m, 1 / math.sqrt(from), {to, from})
    if m.quantize then
        layer.q, layer.scale = w:quantize{ dtype = m.quantize }
        w:free()
    else
        layer.w = w
    end
    return layer
end

local function linear(layer, x)
    if layer.q then
        return x:linear_quantized(layer.q, layer.scale, layer.b)
    end
    return x:linear(layer.w, layer.b)
end

local function new_conv(m, from, to, kernel, stride)
    return { stride = stride or 1, padding = stride and 0 or kernel // 2, b = fill(m, 0.02, {to}),
             w = fill(m, 1 / math.sqrt(from * kernel * kernel), {to, from, kernel, kernel}) }
end

local function conv(layer, x)
    return x:conv2d(layer.w, layer.b, { stride = layer.stride, padding = layer.padding })
end

local function ones(m, count)
    return orrery.ones{ shape = {count}, dtype = m.dtype, mesh = m.mesh, place = {"R"} }
end

local function new_mlp(m, from, middle, to)
    return { first = new_linear(m, from, middle), second = new_linear(m, middle, to) }
end

local function new_double(m)
    local block = {}
    for _, stream in ipairs{ "image", "text" } do
        block[stream] = {
            modulation = new_linear(m, m.hidden, 6 * m.hidden),
            qkv = new_linear(m, m.hidden, 3 * m.hidden), q_norm = ones(m, m.head),
            k_norm = ones(m, m.head), project = new_linear(m, m.hidden, m.hidden),
            mlp = new_mlp(m, m.hidden, m.mlp * m.hidden, m.hidden),
        }
    end
    return block
end

local function new_single(m)
    return {
        modulation = new_linear(m, m.hidden, 3 * m.hidden),
        first = new_linear(m, m.hidden, (3 + m.mlp) * m.hidden), q_norm = ones(m, m.head),
        k_norm = ones(m, m.head), second = new_linear(m, (1 + m.mlp) * m.hidden, m.hidden),
    }
end

-- --- the transformer ---

local Model = {}
Model.__index = Model

-- options: size (a name of dit.sizes), mesh (one axis), quantize ("i8" or "f8e4m3": the weights of
-- all linear layers), seed.
function dit.model(options)
    local m = setmetatable({ seed = 1, drawn = 0 }, Model)
    for _, from in ipairs{ size_of(options.size), options } do
        for key, value in pairs(from) do
            m[key] = value
        end
    end
    m.head, m.ranks = m.hidden // m.heads, m.mesh:size()
    m.tokens = m.height // m.patch * (m.width // m.patch)
    for _, count in ipairs{ m.heads, m.tokens, m.text } do
        if count % m.ranks ~= 0 then
            error(string.format("%d heads, %d image and %d text tokens on %d devices: expected " ..
                                "a divisor of all", m.heads, m.tokens, m.text, m.ranks), 2)
        end
    end
    m.by_tokens = m.ranks > 1 and "S(1)" or "R"
    m.by_heads = m.ranks > 1 and "S(3)" or "R"
    orrery.role("parameter", function()
        m.one = ones(m, 1)
        m.patches = new_conv(m, m.channels, m.hidden, m.patch, m.patch)
        m.text_in = new_linear(m, m.context, m.hidden)
        m.time_in = new_mlp(m, 2 * FREQUENCIES, m.hidden, m.hidden)
        m.pooled_in = new_mlp(m, m.pooled, m.hidden, m.hidden)
        m.doubles, m.singles = {}, {}
        for i = 1, m.double do
            m.doubles[i] = new_double(m)
        end
        for i = 1, m.single do
            m.singles[i] = new_single(m)
        end
        m.last_modulation = new_linear(m, m.hidden, 2 * m.hidden)
        m.last = new_linear(m, m.hidden, m.patch * m.patch * m.channels)
    end)
    return m
end

-- Part `index` of `count` equal ones along `dim` of a tensor, its dimension cut to that.
local function part(x, dim, from, to)
    local starts, ends = {}, {}
    for i = 1, dim do
        starts[i], ends[i] = 0, math.maxinteger
    end
    starts[dim + 1], ends[dim + 1] = from, to
    return x:slice{ starts = starts, ends = ends }
end

-- Shifts, scales and gates from the embedding [1, hidden]: a list of `count` [1, 1, hidden].
local function modulation(m, layer, embedding, count)
    local all = linear(layer, embedding):reshape{ shape = {1, count, m.hidden} }
    local parts = {}
    for i = 1, count do
        parts[i] = part(all, 1, i - 1, i)
    end
    return parts
end

local function modulated(m, x, shift, scale)
    return x:layernorm{ eps = 1e-6 } * (scale + m.one) + shift
end

local function feed_forward(mlp, x)
    return linear(mlp.second, linear(mlp.first, x):gelu())
end

-- [1, tokens, 3 hidden] -> q, k, v, each [1, heads, tokens, head], with all tokens of some heads.
local function heads_of(m, qkv, norms)
    local tokens = qkv:shape()[2]
    local all = qkv:reshape{ shape = {1, tokens, 3, m.heads, m.head} }:redistribute(m.by_heads)
    local parts = {}
    for i = 1, 3 do
        local one = part(all, 2, i - 1, i):reshape{ shape = {1, tokens, m.heads, m.head} }
        parts[i] = one:transpose{ perm = {0, 2, 1, 3} }
    end
    return parts[1]:rmsnorm(norms.q_norm), parts[2]:rmsnorm(norms.k_norm), parts[3]
end

local function attend(m, q, k, v)
    return orrery.sdpa(q:rope{ theta = m.theta }, k:rope{ theta = m.theta }, v)
end

-- Tokens from .. to - 1 of [1, heads, tokens, head] -> [1, tokens, hidden], some tokens again.
local function tokens_of(m, x, from, to)
    local rows = part(x, 2, from, to):transpose{ perm = {0, 2, 1, 3} }
    return rows:redistribute(m.by_tokens):reshape{ shape = {1, to - from, m.hidden} }
end

local function double_block(m, block, image, text, embedding)
    local streams = { { x = text, w = block.text }, { x = image, w = block.image } }
    for _, s in ipairs(streams) do
        s.mod = modulation(m, s.w.modulation, embedding, 6)
        local qkv = linear(s.w.qkv, modulated(m, s.x, s.mod[1], s.mod[2]))
        s.q, s.k, s.v = heads_of(m, qkv, s.w)
    end
    local joined = {}
    for _, name in ipairs{ "q", "k", "v" } do
        joined[name] = orrery.concat(streams[1][name], streams[2][name], { dim = 2 })
    end
    local mixed = attend(m, joined.q, joined.k, joined.v)
    local at = 0
    for _, s in ipairs(streams) do
        local count = s.x:shape()[2]
        local own = linear(s.w.project, tokens_of(m, mixed, at, at + count))
        local x = s.x + own * s.mod[3]
        local inner = feed_forward(s.w.mlp, modulated(m, x, s.mod[4], s.mod[5]))
        s.x, at = x + inner * s.mod[6], at + count
    end
    return streams[2].x, streams[1].x
end

local function single_block(m, block, x, embedding)
    local mod = modulation(m, block.modulation, embedding, 3)
    local tokens, width = x:shape()[2], 3 * m.hidden
    local both = linear(block.first, modulated(m, x, mod[1], mod[2]))
    local q, k, v = heads_of(m, part(both, 2, 0, width), block)
    local mixed = tokens_of(m, attend(m, q, k, v), 0, tokens)
    local inner = part(both, 2, width, math.maxinteger):gelu()
    local out = linear(block.second, orrery.concat(mixed, inner, { dim = 2 }))
    return x + out * mod[3]
end

-- Sines and cosines of the time, as in FLUX's timestep_embedding: 1000 t at 128 frequencies.
local function time_embedding(m, t)
    local values = {}
    for i = 0, FREQUENCIES - 1 do
        local angle = 1000 * t * math.exp(-math.log(10000) * i / FREQUENCIES)
        values[i + 1], values[FREQUENCIES + i + 1] = math.cos(angle), math.sin(angle)
    end
    return orrery.tensor{ shape = {1, 2 * FREQUENCIES}, values = values, dtype = m.dtype,
                          mesh = m.mesh, place = {"R"} }
end

local function mlp_of(mlp, x)
    return linear(mlp.second, linear(mlp.first, x):silu())
end

-- [1, channels, height, width] -> [1, tokens, hidden]
local function patchify(m, latent)
    local x = conv(m.patches, latent):reshape{ shape = {1, m.hidden, m.tokens} }
    return x:transpose{ perm = {0, 2, 1} }:redistribute(m.by_tokens)
end

-- [1, tokens, patch patch channels] -> [1, channels, height, width]
local function unpatchify(m, x)
    local rows, columns = m.height // m.patch, m.width // m.patch
    local grid = x:redistribute("R"):reshape{ shape = {1, rows, columns, m.channels, m.patch,
                                                       m.patch} }
    return grid:transpose{ perm = {0, 3, 1, 4, 2, 5} }
               :reshape{ shape = {1, m.channels, m.height, m.width} }
end

-- All blocks on image tokens: what they add to them.
local function blocks(m, image, context, embedding)
    local x, text = image, linear(m.text_in, context):redistribute(m.by_tokens)
    for _, block in ipairs(m.doubles) do
        x, text = orrery.scope(double_block, m, block, x, text, embedding)
    end
    local all = orrery.concat(text:redistribute("R"), x:redistribute("R"), { dim = 1 })
    all = all:redistribute(m.by_tokens)
    for _, block in ipairs(m.singles) do
        all = orrery.scope(single_block, m, block, all, embedding)
    end
    local own = part(all:redistribute("R"), 1, m.text, math.maxinteger)
    return own:redistribute(m.by_tokens) - image
end

-- The velocity at time t of a latent, and what the blocks added; with `added` (of another step) the
-- blocks are left out.
function Model.velocity(m, latent, t, condition, added)
    local time = mlp_of(m.time_in, time_embedding(m, t))
    local embedding = (time + mlp_of(m.pooled_in, condition.pooled)):silu()
    local image = patchify(m, latent)
    added = added or blocks(m, image, condition.text, embedding)
    local mod = modulation(m, m.last_modulation, embedding, 2)
    local out = linear(m.last, modulated(m, image + added, mod[1], mod[2]))
    return unpatchify(m, out), added
end

-- A made-up prompt: what text encoders would give.
function Model.condition(m, seed)
    local function draw(number, shape)
        return orrery.randn{ shape = shape, dtype = m.dtype, mesh = m.mesh, place = {"R"},
                             seed = seed + number }
    end
    return { text = draw(1, {1, m.text, m.context}), pooled = draw(2, {1, m.pooled}) }
end

-- --- sampling ---

-- From noise at t = 1 to a latent at t = 0 by Euler steps along the velocity. options: steps; cache
-- (n: the blocks run in every n-th step, and in the others what they added last time stands for
-- them, as features do in Ma et al., "DeepCache", 2024, and Liu et al., "TeaCache", 2025);
-- guidance (g: velocity g v(prompt) + (1 - g) v(no prompt), Ho and Salimans, 2022; none by
-- default); seed; after(step), called behind each step.
function dit.sample(m, options)
    local every = math.max(1, options.cache or 0)
    local seed = options.seed or 7000
    local conditions = { m:condition(seed) }
    local weights = { 1 }
    if (options.guidance or 0) > 0 then
        conditions[2], weights = m:condition(seed + 10), { options.guidance, 1 - options.guidance }
    end
    local x = orrery.randn{ shape = {1, m.channels, m.height, m.width}, dtype = m.dtype,
                            mesh = m.mesh, place = {"R"}, seed = seed }
    local added = {}
    for step = 1, options.steps do
        local t, next_t = 1 - (step - 1) / options.steps, 1 - step / options.steps
        local fresh = (step - 1) % every == 0
        local old, old_added = x, added
        local results = table.pack(orrery.scope(function()
            local total, kept = nil, {}
            for i, condition in ipairs(conditions) do
                local v
                v, kept[i] = m:velocity(x, t, condition, not fresh and added[i] or nil)
                v = weights[i] == 1 and v or v * weights[i]
                total = total and total + v or v
            end
            return x + total * (next_t - t), table.unpack(kept)
        end))
        x, added = results[1], { table.unpack(results, 2, results.n) }
        old:free()
        for i, tensor in ipairs(fresh and old_added or {}) do
            tensor:free()
        end
        if options.after then
            options.after(step)
        end
    end
    return x
end

-- --- the decoder ---

local Decoder = {}
Decoder.__index = Decoder

local function new_residual(m, from, to)
    local block = { groups = m.decoder.groups, first_weight = ones(m, from),
                    second_weight = ones(m, to), first = new_conv(m, from, to, 3),
                    second = new_conv(m, to, to, 3) }
    block.first_bias, block.second_bias = fill(m, 0.02, {from}), fill(m, 0.02, {to})
    if from ~= to then
        block.skip = new_conv(m, from, to, 1)
    end
    return block
end

local function residual(block, x)
    local h = x:groupnorm(block.first_weight, block.first_bias, { groups = block.groups })
    h = conv(block.first, h:silu())
    h = h:groupnorm(block.second_weight, block.second_bias, { groups = block.groups })
    return (block.skip and conv(block.skip, x) or x) + conv(block.second, h:silu())
end

-- Every pixel becomes 2 x 2 of them.
local function upsample(x)
    local s = x:shape()
    local wide = x:reshape{ shape = {s[1], s[2], s[3], 1, s[4], 1} }
    return wide:expand{ shape = {s[1], s[2], s[3], 2, s[4], 2}, dims = {3, 5} }
               :reshape{ shape = {s[1], s[2], 2 * s[3], 2 * s[4]} }
end

-- options as dit.model's. Latents to an image of 3 channels, twice as large for each of the
-- multiples but the last; on all devices alike.
function dit.decoder(options)
    local m = setmetatable({ seed = 2, drawn = 0 }, Decoder)
    for _, from in ipairs{ size_of(options.size), options } do
        for key, value in pairs(from) do
            m[key] = value
        end
    end
    local d = m.decoder
    orrery.role("parameter", function()
        local width = d.channels * d.multiples[#d.multiples]
        m.first, m.levels = new_conv(m, m.channels, width, 3), {}
        for level = #d.multiples, 1, -1 do
            local own, to = {}, d.channels * d.multiples[level]
            for i = 1, d.blocks do
                own[i] = new_residual(m, width, to)
                width = to
            end
            own.up = level > 1 and new_conv(m, width, width, 3) or nil
            m.levels[#m.levels + 1] = own
        end
        m.norm_weight, m.norm_bias = ones(m, width), fill(m, 0.02, {width})
        m.last = new_conv(m, width, 3, 3)
    end)
    return m
end

function Decoder.forward(m, latent)
    return orrery.scope(function()
        local x = conv(m.first, latent)
        for _, level in ipairs(m.levels) do
            for _, block in ipairs(level) do
                x = orrery.scope(residual, block, x)
            end
            x = level.up and conv(level.up, upsample(x)) or x
        end
        local h = x:groupnorm(m.norm_weight, m.norm_bias, { groups = m.decoder.groups })
        return conv(m.last, h:silu())
    end)
end

return dit
