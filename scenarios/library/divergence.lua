-- Where the numbers of two runs part: the same program on two meshes, in two dtypes, or in a right
-- and a wrong version.
--
--     local divergence = require "divergence"
--     local found = divergence.compare{
--         function() step(one) end, function() step(many) end,
--         names = {"one device", "tp 2"}, tolerance = 1e-5,
--     }
--     print(divergence.report(found))
--
-- Both functions are called, one after the other, with the results of all their operators kept
-- (orrery.record_values). What they make is freed, so they return nothing of use. Operators of
-- gradients and optimizers count too. For two backends, or other arguments, run the whole scenario
-- with `orrery run --compare-devices SPEC` or `--compare-args 'key=value'`.

local divergence = {}

local allowed = { tolerance = true, names = true, bytes = true }

local function check(options)
    for key in pairs(options) do
        if not (allowed[key] or key == 1 or key == 2) then
            error("divergence.compare: unknown key '" .. tostring(key) ..
                  "'; known: two functions, tolerance, names, bytes", 3)
        end
    end
    if type(options[1]) ~= "function" or type(options[2]) ~= "function" then
        error("divergence.compare: expected two functions, got " .. type(options[1]) .. " and " ..
              type(options[2]), 3)
    end
end

-- Returns nil if they agree; else a table of the first operator that parts: operator, site, index
-- (among the operators of the first run, from 0), output, difference, relative (to the largest
-- magnitude), worst_index, a and b (the values there), place_a, place_b, dtype_a, dtype_b, shape_a,
-- shape_b; inputs, a list of the same for its operands, with name, parts, and maker_a, maker_b,
-- maker_site_a, maker_site_b (the operators that made them, redistributions left out); text.
--
-- tolerance   of the largest magnitude in the two tensors, 1e-5 unless given
-- names       of the two runs, for the text
-- bytes       how much each run may keep, 1 GiB unless given
function divergence.compare(options)
    check(options)
    local function record(f)
        return orrery.record_values(function()
            orrery.scope(function() f() end)
        end, { bytes = options.bytes })
    end
    local a <close> = record(options[1])
    local b <close> = record(options[2])
    local found = orrery.compare_values(a, b, {
        tolerance = options.tolerance, names = options.names,
    })
    return found
end

-- The text of what compare returned.
function divergence.report(found)
    return found and found.text or "the runs agree"
end

return divergence
