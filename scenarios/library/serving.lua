-- Serving a Llama-style decoder with a cache of keys and values: sequences of different lengths in
-- one batch, tensor-parallel, and the two ways of choosing the batch.
--
--     local serving = require "serving"
--     local model = serving.model{ size = "8b", slots = 16, capacity = 1024, mesh = mesh }
--     local requests = serving.requests{ count = 32, interval_us = 500, ... }
--     local report = serving.continuous(model, requests)      -- or serving.static
--
-- A model has one cache tensor for keys and one for values in each layer: [slots, key-value heads,
-- capacity, head], sharded by heads. A prompt is one call for its slot; a decode step is one call
-- for all sequences that run. The mesh has one axis: columns of the projections to heads and to the
-- feed-forward network are sharded along it, rows of those back to the hidden size (Shoeybi et al.,
-- "Megatron-LM", 2019), so each layer has two all-reduces.
--
-- Tokens are the largest logits'. Under --timing-only nobody knows them, and the times, which don't
-- depend on them, are the same; a request ends after as many tokens as it asks for.

local serving = {}

-- Published config.json of Llama 3 (8B, 70B); "tiny" is for numbers.
serving.sizes = {
    tiny = { layers = 2, hidden = 64, ffn = 160, heads = 8, kv_heads = 4, vocab = 512,
             dtype = "f32" },
    ["8b"] = { layers = 32, hidden = 4096, ffn = 14336, heads = 32, kv_heads = 8, vocab = 128256,
               dtype = "bf16" },
    ["70b"] = { layers = 80, hidden = 8192, ffn = 28672, heads = 64, kv_heads = 8,
                vocab = 128256, dtype = "bf16" },
}

-- --- the model ---

local Model = {}
Model.__index = Model

local function new_tensor(m, seed, scale, place, ...)
    local raw <close> = orrery.randn{ shape = {...}, dtype = m.dtype, seed = m.seed * 10000 + seed,
                                      mesh = m.mesh, place = {place} }
    return raw * scale
end

local function new_layer(m, index)
    local width, kv, seed = m.heads * m.head, m.kv_heads * m.head, 100 * index
    local function matrix(number, place, rows, columns)
        return new_tensor(m, seed + number, 1 / math.sqrt(columns), place, rows, columns)
    end
    local function ones()
        return orrery.ones{ shape = {m.hidden}, dtype = m.dtype, mesh = m.mesh, place = {"R"} }
    end
    return {
        attention_norm = ones(), ffn_norm = ones(),
        wq = matrix(1, "S(0)", width, m.hidden), wk = matrix(2, "S(0)", kv, m.hidden),
        wv = matrix(3, "S(0)", kv, m.hidden), wo = matrix(4, "S(1)", m.hidden, width),
        gate = matrix(5, "S(0)", m.ffn, m.hidden), up = matrix(6, "S(0)", m.ffn, m.hidden),
        down = matrix(7, "S(1)", m.hidden, m.ffn),
    }
end

-- options: size (a name of serving.sizes), slots, capacity (positions of a slot), mesh (one axis),
-- seed.
function serving.model(options)
    local m = setmetatable({ seed = 1, theta = 500000 }, Model)
    local size = serving.sizes[options.size]
    if not size then
        error("there is no size '" .. tostring(options.size) .. "'; known: tiny, 8b, 70b", 2)
    end
    for _, from in ipairs{ size, options } do
        for key, value in pairs(from) do
            m[key] = value
        end
    end
    m.head = m.hidden // m.heads
    local ranks = m.mesh:size()
    if m.kv_heads % ranks ~= 0 then
        error(string.format("%d key-value heads on %d devices: expected a divisor", m.kv_heads,
                            ranks), 2)
    end
    orrery.role("parameter", function()
        m.table = new_tensor(m, 1, 1, "R", m.vocab, m.hidden)
        m.output = new_tensor(m, 2, 1 / math.sqrt(m.hidden), "S(0)", m.vocab, m.hidden)
        m.norm = orrery.ones{ shape = {m.hidden}, dtype = m.dtype, mesh = m.mesh, place = {"R"} }
        m.layers_of = {}
        for index = 1, m.layers do
            m.layers_of[index] = new_layer(m, index)
        end
    end)
    m.keys, m.values = {}, {}
    for index = 1, m.layers do
        for _, cache in ipairs{ m.keys, m.values } do
            cache[index] = orrery.zeros{ shape = {m.slots, m.kv_heads, m.capacity, m.head},
                                         dtype = m.dtype, mesh = m.mesh, place = {"S(1)"} }
        end
    end
    return m
end

-- Bytes of the cache on one device, as its tensors say; and by the formula.
function Model.cache_bytes(m)
    local sum, device = 0, m.mesh:devices()[1]
    for index = 1, m.layers do
        sum = sum + m.keys[index]:bytes(device) + m.values[index]:bytes(device)
    end
    return sum
end

function Model.cache_formula(m)
    local size = m.dtype == "f32" and 4 or 2
    return 2 * m.layers * m.slots * m.kv_heads * m.capacity * m.head * size // m.mesh:size()
end

-- [b s, heads head] -> [b, heads, s, head]
local function split_heads(x, call, heads, head)
    local shaped = x:reshape{ shape = {call.b, call.s, heads, head} }
    return shaped:transpose{ perm = {0, 2, 1, 3} }
end

local function attention(m, layer, index, x, call)
    local q = split_heads(x:linear(layer.wq), call, m.heads, m.head)
    local k = split_heads(x:linear(layer.wk), call, m.kv_heads, m.head)
    local v = split_heads(x:linear(layer.wv), call, m.kv_heads, m.head)
    q = q:rope_at(call.positions, { theta = m.theta })
    k = k:rope_at(call.positions, { theta = m.theta })
    local keys = m.keys[index]:kv_append(k, call.positions, call.slots)
    local values = m.values[index]:kv_append(v, call.positions, call.slots)
    m.keys[index]:free()
    m.values[index]:free()
    m.keys[index], m.values[index] = keys, values
    local mixed = q:sdpa_decode(keys, values, call.lengths, call.slots, { keys = call.keys })
    local rows = mixed:transpose{ perm = {0, 2, 1, 3} }
                      :reshape{ shape = {call.b * call.s, m.heads * m.head} }
    return rows:linear(layer.wo):redistribute("R")
end

local function feed_forward(layer, x)
    return (x:linear(layer.gate):silu() * x:linear(layer.up)):linear(layer.down):redistribute("R")
end

-- The next token of each sequence, [b]; then the caches, for orrery.scope to leave alone.
local function forward(m, tokens, call)
    local x = orrery.embedding(tokens, m.table)
    for index, layer in ipairs(m.layers_of) do
        x = x + attention(m, layer, index, x:rmsnorm(layer.attention_norm), call)
        x = x + feed_forward(layer, x:rmsnorm(layer.ffn_norm))
    end
    if call.s > 1 then
        x = x:slice{ starts = {call.s - 1} } -- of one sequence
    end
    local logits = x:rmsnorm(m.norm):linear(m.output):redistribute("R")
    local next_tokens = logits:argmax{ dim = 1 }
    local kept = { next_tokens }
    for index = 1, m.layers do
        kept[#kept + 1] = m.keys[index]
        kept[#kept + 1] = m.values[index]
    end
    return table.unpack(kept)
end

local function whole_numbers(m, values)
    return orrery.tensor{ shape = {#values}, values = values, dtype = "i64", mesh = m.mesh,
                          place = {"R"} }
end

-- One call of the model: `rows` are { slot, position (of the first token), tokens }, all with as
-- many tokens. Waits, and returns the next token of each (0 under --timing-only).
function Model.step(m, rows)
    local tokens, positions, slots, lengths, keys = {}, {}, {}, {}, 0
    local s = #rows[1].tokens
    for i, row in ipairs(rows) do
        table.move(row.tokens, 1, s, #tokens + 1, tokens)
        positions[i], slots[i] = row.position, row.slot
        lengths[i] = row.position + s
        keys = keys + lengths[i]
    end
    local result = orrery.scope(function()
        local call = { b = #rows, s = s, keys = keys, positions = whole_numbers(m, positions),
                       slots = whole_numbers(m, slots), lengths = whole_numbers(m, lengths) }
        return forward(m, whole_numbers(m, tokens), call)
    end)
    local future = result:future()
    local got = {}
    if orrery.timing_only then
        future:wait()
        for i = 1, #rows do
            got[i] = 0
        end
    else
        got = future:get()
    end
    future:free()
    result:free()
    return got
end

-- --- requests ---

-- Requests in order of arrival: exponential gaps (a Poisson process), lengths evenly from ranges;
-- everything from the run's seed.
function serving.requests(o)
    local list, at = {}, 0
    for id = 1, o.count do
        at = at - math.log(1 - math.random()) * o.interval_us * 1000
        local prompt = {}
        for i = 1, math.random(o.prompt_least, o.prompt_most) do
            prompt[i] = math.random(0, o.vocab - 1)
        end
        list[id] = { id = id, arrival = math.floor(at), prompt = prompt,
                     wanted = math.random(o.output_least, o.output_most) }
    end
    return list
end

-- --- the engine ---

local function start_clock(m)
    for _, index in ipairs(m.mesh:devices()) do
        orrery.device(index):sync()
    end
    return orrery.now()
end

-- A run of a list of requests: the waiting ones, the slots, and what happened when.
local Engine = {}
Engine.__index = Engine

local function engine(m, requests)
    local e = setmetatable({ model = m, requests = requests, next = 1, running = {}, free = {},
                             state = {}, steps = 0 }, Engine)
    for slot = m.slots - 1, 0, -1 do
        e.free[#e.free + 1] = slot
    end
    e.begin = start_clock(m)
    return e
end

function Engine.now(e)
    return orrery.now() - e.begin
end

function Engine.has_arrived(e)
    local request = e.requests[e.next]
    return request and request.arrival <= e:now()
end

-- Nothing to do: the host waits for the next arrival; a clock that it can't advance it watches.
function Engine.sleep(e)
    local wait = e.requests[e.next].arrival - e:now()
    if wait > 0 and orrery.backend == "sim" then
        orrery.spend(wait)
    end
    while not e:has_arrived() do end
end

-- The next request gets a slot and its prompt is worked on: its first token.
function Engine.admit(e)
    local request = e.requests[e.next]
    e.next = e.next + 1
    local s = { request = request, slot = table.remove(e.free), length = #request.prompt,
                tokens = {} }
    local row = { slot = s.slot, position = 0, tokens = request.prompt }
    s.tokens[1] = e.model:step{ row }[1]
    s.first = e:now()
    s.last = s.first
    e.steps = e.steps + 1
    e.state[request.id] = s
    e.running[#e.running + 1] = s
end

-- One decode step of sequences that still want tokens; with `pads` others take part, in vain.
function Engine.decode(e, pads)
    local rows, who = {}, {}
    for _, s in ipairs(e.running) do
        local done = #s.tokens >= s.request.wanted
        if pads or not done then
            rows[#rows + 1] = { slot = s.slot, position = done and s.length - 1 or s.length,
                                tokens = { s.tokens[#s.tokens] } }
            who[#rows] = s
        end
    end
    if #rows == 0 then
        return false
    end
    local got = e.model:step(rows)
    e.steps = e.steps + 1
    local now, more = e:now(), false
    for i, s in ipairs(who) do
        if #s.tokens < s.request.wanted then
            s.tokens[#s.tokens + 1] = got[i]
            s.length = s.length + 1
            s.last = now
        end
        more = more or #s.tokens < s.request.wanted
    end
    return more
end

-- Sequences that have what they want leave their slots.
function Engine.retire(e)
    local still = {}
    for _, s in ipairs(e.running) do
        if #s.tokens >= s.request.wanted then
            e.free[#e.free + 1] = s.slot
        else
            still[#still + 1] = s
        end
    end
    e.running = still
end

local function percentile(values, share)
    table.sort(values)
    return values[math.max(1, math.ceil(share * #values))]
end

-- Rates and times of a finished run, in seconds, and the tokens by request.
local function report(e)
    local r = { tokens = {}, steps = e.steps, count = 0 }
    local ttft, tpot, finish = {}, {}, 0
    for id, s in pairs(e.state) do
        r.tokens[id] = s.tokens
        r.count = r.count + #s.tokens
        ttft[#ttft + 1] = (s.first - s.request.arrival) / 1e9
        if #s.tokens > 1 then
            tpot[#tpot + 1] = (s.last - s.first) / (#s.tokens - 1) / 1e9
        end
        finish = math.max(finish, s.last)
    end
    r.seconds = finish / 1e9
    r.rate = r.count / r.seconds
    r.ttft_p50, r.ttft_p99 = percentile(ttft, 0.5), percentile(ttft, 0.99)
    r.tpot_p50, r.tpot_p99 = percentile(tpot, 0.5), percentile(tpot, 0.99)
    return r
end

-- Iteration-level scheduling (Yu et al., "Orca", 2022): after every step those that are through
-- leave and those that wait take their slots.
function serving.continuous(m, requests)
    local e = engine(m, requests)
    while e.next <= #requests or #e.running > 0 do
        while #e.free > 0 and e:has_arrived() do
            e:admit()
        end
        e:retire()
        if #e.running > 0 then
            e:decode(false)
            e:retire()
        elseif e.next <= #requests and not e:has_arrived() then
            e:sleep()
        end
    end
    return report(e)
end

-- Request-level scheduling: a batch of those that wait, as many as there are slots; it is worked on
-- until its longest request is through, and the others are computed along.
function serving.static(m, requests)
    local e = engine(m, requests)
    while e.next <= #requests do
        e:sleep()
        while #e.free > 0 and e:has_arrived() do
            e:admit()
        end
        while e:decode(true) do end
        e:retire()
    end
    return report(e)
end

-- One request after another, without a clock: what the tokens must be.
function serving.one_by_one(m, requests)
    local tokens = {}
    for _, request in ipairs(requests) do
        local own = { m:step{ { slot = 0, position = 0, tokens = request.prompt } }[1] }
        while #own < request.wanted do
            local position = #request.prompt + #own - 1
            own[#own + 1] = m:step{ { slot = 0, position = position, tokens = { own[#own] } } }[1]
        end
        tokens[request.id] = own
    end
    return tokens
end

return serving
