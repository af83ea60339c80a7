-- A layer on one device and on several should give the same numbers; here it does not, and nothing
-- complains, because every placement is legal. The report names the operator and its line.
--
--     bug=transposed   the second weight was laid out for the transposed product: it is square, so
--                      its shards fit, and w2 cut along its columns and used transposed is as legal
--                      as w2 cut along its rows
--     bug=averaged     the sum of the ranks' terms is taken for a sum of gradients, and divided by
--                      their number: an operator that the right layer does not have
--
--     orrery run scenarios/debugging/where_numbers_part.lua
--     orrery run scenarios/debugging/where_numbers_part.lua bug=none --compare-devices cpu*4
--
-- devices: sim:h100*4
-- test: bug=transposed
-- test: bug=averaged
-- test: bug=none
-- test: bug=none dtype=bf16

local divergence = require "divergence"

local p = orrery.args{ bug = "transposed", dtype = "f32", width = 16, rows = 6 }

local one = orrery.mesh{ shape = {1}, names = {"tp"} }
local many = orrery.mesh{ shape = {orrery.devices}, names = {"tp"} }

-- Small whole numbers, so that the transcript of this scenario is the same on every machine.
local function tensor(seed, mesh, place, rows, columns)
    local values = {}
    for i = 1, rows * (columns or 1) do
        values[i] = (i * i + seed * i + seed) % 7 - 3
    end
    return orrery.tensor{ shape = {rows, columns}, values = values, dtype = p.dtype, mesh = mesh,
                          place = {place} }
end

-- Columns of w1, rows of w2: one all-reduce.
local function layer(mesh, bug)
    local x = tensor(1, mesh, "R", p.rows, p.width)
    local w1 = tensor(2, mesh, "S(1)", p.width, p.width)
    local w2 = tensor(3, mesh, bug == "transposed" and "S(1)" or "S(0)", p.width, p.width)
    local bias = tensor(4, mesh, "R", p.width)
    local h = orrery.relu(x:matmul(w1))
    local y = h:matmul(w2, { transpose_b = bug == "transposed" })
    if bug == "averaged" then
        y = y / mesh:size()
    end
    y = y:redistribute("R") + bias
    return orrery.mean(y * y)
end

local found = divergence.compare{
    function() layer(one, "none") end,
    function() layer(many, p.bug) end,
    names = {"one device", "tp " .. orrery.devices},
    tolerance = p.dtype == "f32" and 1e-5 or 2e-2,
}
print(divergence.report(found))

if p.bug == "transposed" then
    expect.equal(found.operator, "matmul")
    expect.equal({found.inputs[1].parts, found.inputs[2].parts}, {false, false})
    expect.equal(found.inputs[2].place_b, "S(1)")
elseif p.bug == "averaged" then
    expect.equal(found.operator, "add")
    expect.equal({found.inputs[1].maker_a, found.inputs[1].maker_b}, {"matmul", "scale"})
else
    expect.equal(found, nil)
end
expect.clean()
