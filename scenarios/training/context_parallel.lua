-- Attention over a sequence that is sharded: as a ring it gives what one device gives, and so do
-- its gradients, on 1, 2 and 4 devices; the keys travel while the kernels run.
--
--     orrery run scenarios/training/context_parallel.lua --devices sim:h100*4
--
--     step 0   rank 0: q0 k0   rank 1: q1 k1        sdpa_block, and k and v are sent on
--     step 1           q0 k1           q1 k0        sdpa_block, sdpa_merge
--
-- devices: sim:h100*4
-- test:
-- test: dtype=f64
-- test: dtype=bf16 kv=4
-- test: axes=2
-- test: tokens=8192 width=128 heads=8 kv=8 batch=1 dtype=bf16 --timing-only

local ring_attention = require "ring_attention"

local p = orrery.args{ batch = 2, heads = 4, kv = 2, tokens = 16, width = 8, dtype = "f32",
                       axes = 1 }

local tolerance = ({ f64 = 1e-12, f32 = 1e-5, bf16 = 0.05 })[p.dtype]

-- q, k, v, and the gradient of the result, the same numbers on every mesh.
local function data(mesh, place)
    local shapes = { {p.batch, p.heads, p.tokens, p.width}, {p.batch, p.kv, p.tokens, p.width},
                     {p.batch, p.kv, p.tokens, p.width}, {p.batch, p.heads, p.tokens, p.width} }
    local made = {}
    for i, shape in ipairs(shapes) do
        local drawn <close> = orrery.randn{ shape = shape, seed = i, mesh = mesh, place = place }
        made[i] = drawn:cast{ dtype = p.dtype }
    end
    return table.unpack(made)
end

-- The result, its gradients, and the bytes that the tape kept.
local function run(mesh, place, attend)
    local q, k, v, grad = data(mesh, place)
    local tape <close> = orrery.tape()
    tape:watch(q, k, v)
    local y = attend(q, k, v)
    local kept = tape:bytes()
    return kept, y, tape:gradient({ {y, grad} }, q, k, v)
end

local function agree(wanted, got)
    for i, tensor in ipairs(wanted) do
        expect.equal(got[i]:shape(), tensor:shape())
        expect.equal(got[i]:dtype(), tensor:dtype())
        local a, b = got[i]:future(), tensor:future()
        if orrery.timing_only then
            a:wait()
            b:wait()
        else
            expect.close(a:get(), b:get(), tolerance)
        end
        a:free()
        b:free()
    end
end

local function devices(count)
    local list = {}
    for i = 1, count do
        list[i] = i - 1
    end
    return list
end

local one = orrery.mesh{ shape = {1}, names = {"cp"}, devices = {0} }
for _, causal in ipairs{ false, true } do
    local plain = { run(one, { cp = "R" }, function(q, k, v)
        return orrery.sdpa(q, k, v, { causal = causal })
    end) }
    for _, cp in ipairs{ 1, 2, 4 } do
        local mesh, place
        if p.axes == 2 then -- the batch, or the heads, along another axis
            if 2 * cp > orrery.devices then break end
            mesh = orrery.mesh{ shape = {2, cp}, names = {"dp", "cp"}, devices = devices(2 * cp) }
            place = { dp = causal and "S(0)" or "S(1)", cp = "S(2)" }
        else
            if cp > orrery.devices then break end
            mesh = orrery.mesh{ shape = {cp}, names = {"cp"}, devices = devices(cp) }
            place = { cp = "S(2)" }
        end
        local start = orrery.now()
        local ring = { run(mesh, place, function(q, k, v)
            return ring_attention(q, k, v, { axis = "cp", causal = causal })
        end) }
        orrery.device(0):sync()
        print(string.format("cp=%d %-6s  %s, gradients %s: %d bytes kept, %.1f us", cp,
                            causal and "causal" or "full", ring[2], ring[3]:place(), ring[1],
                            (orrery.now() - start) / 1000))
        agree({ table.unpack(plain, 2) }, { table.unpack(ring, 2) })
        for i = 2, 5 do
            ring[i]:free()
        end
    end
    for i = 2, 5 do
        plain[i]:free()
    end
end
expect.clean()
