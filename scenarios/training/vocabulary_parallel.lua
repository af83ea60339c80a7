-- The loss over a vocabulary that is sharded, with three numbers a row reduced instead of the
-- logits gathered: it equals the plain loss, and so does its gradient.
--
--     orrery run scenarios/training/vocabulary_parallel.lua --devices sim:h100*4
--
-- devices: sim:h100*4
-- test:
-- test: dtype=f64
-- test: dtype=bf16 vocabulary=25
-- test: tokens=8192 vocabulary=128256 dtype=bf16 --timing-only

local losses = require "losses"

local p = orrery.args{ batch = 2, tokens = 6, vocabulary = 24, hidden = 8, dtype = "f32" }

local tolerance = ({ f64 = 1e-13, f32 = 1e-6, bf16 = 0.02 })[p.dtype]
local mesh = orrery.mesh{ shape = {2, 2}, names = {"dp", "tp"} }

local function drawn(shape, seed, place)
    local x <close> = orrery.randn{ shape = shape, seed = seed, mesh = mesh, place = place }
    return x:cast{ dtype = p.dtype }
end

local function targets(place)
    local values = {}
    for i = 1, p.batch * p.tokens do
        values[i] = (i * 7) % p.vocabulary
    end
    return orrery.tensor{ shape = {p.batch, p.tokens}, values = values, dtype = "i64", mesh = mesh,
                          place = place }
end

-- The loss of x w^T, and the gradients of both; w is cut by rows along tp, or whole.
local function run(rows, words, loss_of)
    local x = drawn({p.batch, p.tokens, p.hidden}, 1, { dp = rows, tp = "R" })
    local w = drawn({p.vocabulary, p.hidden}, 2, { dp = "R", tp = words })
    local tape <close> = orrery.tape()
    tape:watch(x, w)
    local loss = loss_of(x:linear(w), targets{ dp = rows, tp = "R" })
    local dx, dw = tape:gradient(loss, x, w)
    return loss, dx, dw
end

local plain = { run("R", "R", function(logits, t) return logits:cross_entropy(t) end) }
local function compare(rows, words, options)
    local got = { run(rows, words, function(logits, t)
        return losses.cross_entropy(logits, t, options)
    end) }
    print(string.format("x %s, w %s: loss %s, dx %s, dw %s", rows, words, got[1]:place(),
                        got[2]:place(), got[3]:place()))
    for i = 1, 3 do
        local a, b = got[i]:future(), plain[i]:future()
        if orrery.timing_only then
            a:wait()
            b:wait()
        elseif i == 1 then
            expect.close(a:get(), b:get(), tolerance)
        else
            expect.close(a:get(), b:get(), tolerance)
        end
        a:free()
        b:free()
    end
end
compare("R", "R")
compare("R", "S(0)")
compare("S(0)", "S(0)")
compare("S(1)", "S(0)", { total = p.batch * p.tokens })
expect.clean()
