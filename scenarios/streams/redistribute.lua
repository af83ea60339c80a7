-- One tensor through several placements on a mesh of 2 x 2 devices; what each change will cost is
-- known before, and the numbers stay.
-- devices: sim:teaching*4
-- test:

local mesh = orrery.mesh{ shape = { 2, 2 }, names = { "dp", "tp" } }
local values = {}
for i = 1, 24 do values[i] = i end
local x = orrery.tensor{ shape = { 4, 6 }, values = values, mesh = mesh, place = { "S(0)", "R" } }

print(x:plan{ "S(1)", "P" })
for _, place in ipairs{ { "S(1)", "R" }, { "S(1)", "S(1)" }, { "R", "S(0)" }, { "P", "P(max)" },
                        { "S(0)", "S(1)" }, { "R", "R" } } do
    x = x:redistribute(place)
    expect.equal(x:future():get(), values)
end
expect.clean()
