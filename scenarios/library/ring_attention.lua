-- Context parallelism: attention over a sequence that is sharded along a mesh axis, as a ring (Liu,
-- Zaharia, Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023).
--
--     local ring_attention = require "ring_attention"
--     local y = ring_attention(q, k, v, { axis = "cp", causal = true })
--
-- q [b, h, s, d], k [b, hkv, s, d] and v [b, hkv, s, dv] are S(2) along the axis, evenly, and so is
-- y [b, h, s, dv]; other axes may shard the batch, S(0), or the heads, S(1). The result is that of
-- orrery.sdpa. Options: axis, causal (false), scale (0: 1 / sqrt(d)).
--
--     step 0   rank 0: q0 k0   rank 1: q1 k1   rank 2: q2 k2      k and v go on while the kernel
--     step 1           q0 k2           q1 k0           q2 k1      works on those that are here;
--     step 2           q0 k1           q1 k2           q2 k0      results are merged
--
-- With a causal mask a rank computes nothing for keys behind its queries, so the last rank has
-- the most to do. The backward pass goes around again, with the sums of dk and dv travelling with
-- their keys and once more home, so that a tape keeps q, k, v, the result and its logarithms of
-- sums. Sums over the steps are in f32 for f16 and bf16.

-- Placements of a tensor by the name of the axis.
local function placements(x)
    local by_name, names, index = {}, x:mesh():names(), 0
    for placement in x:place():gmatch("[^%[%], ]+") do
        index = index + 1
        by_name[names[index]] = placement
    end
    return by_name
end

local function check(x, what, axis)
    local place = placements(x)
    if place[axis] ~= "S(2)" then
        error(string.format("ring_attention: %s is %s, expected S(2) along axis '%s'", what,
                            x:place(), axis), 4)
    end
    for name, placement in pairs(place) do
        if name ~= axis and placement == "S(2)" then
            error(string.format("ring_attention: %s is %s, expected S(2) along axis '%s' only",
                                what, x:place(), axis), 4)
        end
    end
end

local function is_narrow(x)
    return x:dtype() == "bf16" or x:dtype() == "f16"
end

-- x in the dtype that sums are in; frees x if that is another tensor.
local function widened(x)
    if not is_narrow(x) then
        return x
    end
    local wide = x:cast{ dtype = "f32" }
    x:free()
    return wide
end

-- x in `dtype`; frees x if that is another tensor.
local function narrowed(x, dtype)
    if x:dtype() == dtype then
        return x
    end
    local narrow = x:cast{ dtype = dtype }
    x:free()
    return narrow
end

-- sum + x, which are both freed; x may be in a narrower dtype.
local function added(sum, x)
    x = widened(x)
    if not sum then
        return x
    end
    local total = sum + x
    sum:free()
    x:free()
    return total
end

-- Calls turn(step, k, v) for every step with the keys and values that are here then; the ones for
-- the next step are sent on first, so that they travel while the step's kernels run.
local function around(k, v, o, turn)
    local keys, values = k, v
    for step = 0, o.count - 1 do
        local next_keys, next_values
        if step < o.count - 1 then
            next_keys = keys:shift{ axis = o.axis, by = 1 }
            next_values = values:shift{ axis = o.axis, by = 1 }
        end
        turn({ causal = o.causal, scale = o.scale, blocks = o.count, shift = step }, keys, values,
             step)
        if step > 0 then
            keys:free()
            values:free()
        end
        keys, values = next_keys, next_values
    end
end

local function forward(ctx, q, k, v, o)
    local out, lse
    around(k, v, o, function(attributes, keys, values)
        local y, sums = q:sdpa_block(keys, values, attributes)
        if not out then
            out, lse = widened(y), sums
            return
        end
        local merged, all = orrery.sdpa_merge(out, lse, y, sums)
        out:free()
        lse:free()
        y:free()
        sums:free()
        out, lse = merged, all
    end)
    out = narrowed(out, q:dtype())
    ctx:save{ q = q, k = k, v = v, out = out, lse = lse }
    return out
end

local function backward(ctx, grad, o)
    local saved, dq, dk, dv = ctx.saved, nil, nil, nil
    -- To where the keys are at the next step; after the last one that is home.
    local function moved(x)
        if o.count == 1 then
            return x
        end
        local there = x:shift{ axis = o.axis, by = 1 }
        x:free()
        return there
    end
    around(saved.k, saved.v, o, function(attributes, keys, values)
        local q, k, v = grad:sdpa_block_backward(saved.q, keys, values, saved.out, saved.lse,
                                                 attributes)
        dq = added(dq, q)
        dk, dv = moved(added(dk, k)), moved(added(dv, v))
    end)
    local dtype = saved.q:dtype()
    return narrowed(dq, dtype), narrowed(dk, dtype), narrowed(dv, dtype)
end

local function ring_attention(q, k, v, options)
    options = options or {}
    for key in pairs(options) do
        if key ~= "axis" and key ~= "causal" and key ~= "scale" then
            error("ring_attention: unknown option '" .. tostring(key) ..
                  "'; known: axis, causal, scale", 2)
        end
    end
    if type(options.axis) ~= "string" then
        error("ring_attention: 'axis' is missing, the name of a mesh axis", 2)
    end
    check(q, "q", options.axis)
    check(k, "k", options.axis)
    check(v, "v", options.axis)
    local o = { axis = options.axis, causal = options.causal or false, scale = options.scale or 0,
                count = q:mesh():size(options.axis) }
    return orrery.custom_gradient{
        forward = function(ctx, ...)
            local a, b, c = ...
            return forward(ctx, a, b, c, o)
        end,
        backward = function(ctx, grad)
            return backward(ctx, grad, o)
        end,
    }(q, k, v)
end

return ring_attention
