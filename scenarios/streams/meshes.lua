-- Tensors between meshes: two stages of four devices each hand a tensor on, a ring passes shards
-- along an axis, and many small tensors are reduced in one bucket.
-- devices: sim:teaching*8
-- test:

local mesh = orrery.mesh{ shape = { 2, 2, 2 }, names = { "pp", "dp", "tp" } }
local first, second = mesh:slice{ pp = 0 }, mesh:slice{ pp = 1 }
local values = {}
for i = 1, 32 do values[i] = i end

-- A stage hands its result on: each rank sends its piece, and the gradient comes back that way.
local x = orrery.tensor{ shape = { 8, 4 }, values = values, mesh = first, place = { dp = "S(0)" } }
print(x:plan(nil, second))
local tape <close> = orrery.tape()
tape:watch(x)
local there = x:redistribute(nil, second)
local dx = tape:gradient({ { there * 3, 1 } }, x)
expect.equal(there:future():get(), values)
expect.equal(dx:mesh(), first)
expect.equal(dx:future():get()[7], 3)

-- The same devices in another order have their pieces already: nothing moves.
print(x:plan({ dp = "S(0)" }, first:permute{ "tp", "dp" }))

-- Terms are reduced where they are, into the shards that are cheapest to send.
print(x:redistribute{ tp = "P" }:plan({ tp = "R" }, second))

-- A ring of four: after four shifts every piece is back.
local ring = orrery.mesh{ shape = { 4 }, names = { "cp" } }
local kv = orrery.tensor{ shape = { 32 }, values = values, mesh = ring, place = "S(0)" }
local turned = kv:shift{ axis = "cp", by = 1 }
expect.equal(turned:future():get()[9], 1)
for _ = 1, 3 do turned = turned:shift{ axis = "cp" } end
expect.equal(turned:future():get(), values)

-- Sixteen gradients, one after the other and in one bucket: as many bytes, but one latency.
local grads = {}
for i = 1, 16 do
    grads[i] = orrery.tensor{ shape = { 32 }, values = values, mesh = ring, place = "P" }
end
local function elapsed(f)
    orrery.device(0):sync()
    local begin = orrery.now()
    local result = f()
    for i = 0, 3 do orrery.device(i):sync() end
    return orrery.now() - begin, result
end
local alone = elapsed(function()
    for i = 1, 16 do grads[i]:redistribute("R") end
end)
local together, reduced = elapsed(function()
    return orrery.redistribute_all(grads, "R")
end)
print(alone .. " ns one by one, " .. together .. " ns together")
expect.less(together, alone)
for i = 1, 16 do expect.equal(reduced[i]:future():get(), values) end
expect.clean()
