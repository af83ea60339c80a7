-- What a device's memory is for, while a training step of a two-layer network comes and goes:
-- the runtime's own figures, and that a reader of the trace comes to the same.
-- devices: sim:h100*4
-- test:
-- test: rows=4096 width=2048 --timing-only

local p = orrery.args{ rows = 64, width = 32 }
local mesh = orrery.mesh{ shape = { 2, 2 }, names = { "dp", "tp" } }
local d = orrery.device(0)

local function weight(place)
    return orrery.randn{ shape = { p.width, p.width }, mesh = mesh, place = { "R", place } }
end
local w1, w2 = orrery.role("parameter", function() return weight("S(1)"), weight("S(0)") end)
local momentum = orrery.role("optimizer", function()
    return { orrery.zeros{ shape = { p.width, p.width }, mesh = mesh, place = { "R", "S(1)" } },
             orrery.zeros{ shape = { p.width, p.width }, mesh = mesh, place = { "R", "S(0)" } } }
end)

orrery.scope(function()
    local x = orrery.role("activation", orrery.randn,
                          { shape = { p.rows, p.width }, mesh = mesh, place = { "S(0)", "R" } })
    local tape <close> = orrery.tape()
    tape:watch(w1, w2)
    local loss = orrery.role("activation", function()
        local y = orrery.relu(x:matmul(w1)):matmul(w2):redistribute{ "S(0)", "R" }
        return (y * y):mean()
    end)
    local grads = orrery.role("gradient", function() return { tape:gradient(loss, w1, w2) } end)
    for i, w in ipairs{ w1, w2 } do
        local g = orrery.role("gradient", grads[i].redistribute, grads[i],
                              { "R", i == 1 and "S(1)" or "S(0)" })
        local new, m = orrery.sgd_momentum(w, g, momentum[i], { lr = 0.1, momentum = 0.9 })
        new:role("parameter")
        m:role("optimizer")
    end
end)
d:sync()

local memory = d:memory()
print("role             now    largest")
local sum = 0
for role, bytes in pairs(memory.roles) do
    print(("%-13s %6d %10d"):format(role, bytes.used, bytes.peak))
    expect.analysis("memory[0].roles." .. role .. ".peak_bytes", bytes.peak)
    sum = sum + bytes.used
end
expect.equal(sum, memory.requested)
expect.analysis("memory[0].live_at_end_bytes", sum)
expect.analysis("memory[0].peak_bytes", memory.allocated_peak)
expect.analysis("memory[0].fragmentation_bytes", memory.fragmentation)
expect.analysis("memory[0].reserved_peak_bytes", memory.reserved_peak)
expect.clean()
