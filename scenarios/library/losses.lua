-- Losses under parallel strategies.
--
--     local losses = require "losses"
--     local loss = losses.cross_entropy(logits, targets)          -- or with { total = rows }
--
-- cross_entropy: the mean over the rows of log(sum(exp(logits))) - logits[target], for logits
-- [..., classes] and targets [...]; `total` is what to divide by, the number of rows unless given.
-- It equals logits:cross_entropy(targets, { total = total }), which it is where the classes are
-- whole. Where they are sharded it never gathers them (Shoeybi et al., "Megatron-LM", 2019, section
-- 3): three numbers a row are reduced, the largest logit, the sum of exponentials and the target's
-- logit,
--
--     rank 0   logits[.., 0 : v/2]    max \             sum exp \       target's logit, or 0 \
--     rank 1   logits[.., v/2 : v]    max / all-reduce  sum exp / ...                    0   / ...
--
-- and in the backward pass each rank makes softmax minus the one-hot target of its own classes in
-- one kernel, without another collective. A tape keeps the logits, as for the plain loss, and one
-- number a row. Sums are in f32 (f64 for f64).

local losses = {}

-- Names of the axes that shard the last dimension.
local function axes_of(logits)
    local found, names, index = {}, logits:mesh():names(), 0
    local last = "S(" .. (#logits:shape() - 1) .. ")"
    for placement in logits:place():gmatch("[^%[%], ]+") do
        index = index + 1
        if placement == last then
            found[#found + 1] = names[index]
        end
    end
    return found
end

-- x reduced along the axes that shard the classes.
local function reduced(x, axes)
    local place = {}
    for _, name in ipairs(axes) do
        place[name] = "R"
    end
    return x:redistribute(place)
end

-- The loss, and log(sum(exp(logits))) of each row in the shape of `targets`.
local function from_shards(logits, targets, axes, total)
    local narrow = logits:dtype() ~= "f32" and logits:dtype() ~= "f64"
    local wide = narrow and logits:cast{ dtype = "f32" } or logits
    local largest = reduced(wide:max{ dim = -1, keepdim = true }, axes)
    local shifted = wide - largest
    local sums = reduced(shifted:exp():sum{ dim = -1, keepdim = true }, axes):log()
    local column = targets:shape()
    column[#column + 1] = 1
    local own = reduced(shifted:gather_last(targets:reshape{ shape = column }), axes)
    local loss = (sums - own):mean{ total = total }
    return loss, (sums + largest):reshape{ shape = targets:shape() }
end

local function rows_of(targets)
    local rows = 1
    for _, size in ipairs(targets:shape()) do
        rows = rows * size
    end
    return rows
end

function losses.cross_entropy(logits, targets, options)
    options = options or {}
    for key in pairs(options) do
        if key ~= "total" then
            error("losses.cross_entropy: unknown option '" .. tostring(key) .. "'; known: total", 2)
        end
    end
    local axes = axes_of(logits)
    if #axes == 0 then
        return logits:cross_entropy(targets, { total = options.total or 0 })
    end
    local total = options.total or 0
    total = total > 0 and total or rows_of(targets)
    return orrery.custom_gradient{
        forward = function(ctx, x)
            local loss, lse = orrery.scope(from_shards, x, targets, axes, total)
            ctx:save{ logits = x, targets = targets, lse = lse }
            return loss
        end,
        backward = function(ctx, grad)
            local saved = ctx.saved
            return grad:cross_entropy_backward(saved.logits, saved.targets, saved.lse,
                                               { total = total })
        end,
    }(logits)
end

return losses
