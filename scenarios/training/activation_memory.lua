-- What a GPT layer keeps for its backward pass, in bytes, against the closed forms of Korthikanti
-- et al. 2022 ("Reducing Activation Recomputation in Large Transformer Models", equations 1 to 6):
-- 16-bit numbers, dropout with masks of one byte, attention step by step.
--
--     s tokens, b sequences, h hidden, a heads, t tensor-parallel ranks
--     alone                            s b h (34 + 5 a s / h)
--     tensor parallel                  s b h (10 + 24 / t + 5 a s / (h t))
--     tensor and sequence parallel     s b h / t (34 + 5 a s / h)
--     selective recomputation          the same without 5 a s / h
--     full recomputation               2 s b h; over t with sequence parallel
--
-- devices: sim:h100*8
-- runner: per-device
-- test:
-- test: tp=2 sequence=false
-- test: tp=4 sequence=false recompute=selective
-- test: tp=4
-- test: tp=8 recompute=selective
-- test: tp=2 recompute=full
-- test: tp=2 recompute=full sequence=false
-- test: tokens=2048 hidden=12288 heads=96 batch=1 tp=8 --timing-only

local parallel = require "parallel"
local stage = require "stage"
local sharded_optimizer = require "sharded_optimizer"
local transformer = require "transformer"

local p = orrery.args{ tokens = 16, batch = 2, hidden = 64, heads = 8, tp = 1, sequence = true,
                       recompute = "none" }

local config = transformer.configuration{
    layers = 3, tokens = p.tokens, hidden = p.hidden, heads = p.heads, ffn = 4 * p.hidden,
    norm = "layernorm", activation = "gelu", positions = "learned", bias = true, fused = false,
    dropout = 0.1, dtype = "f16",
}
local plan = parallel.plan{ tp = p.tp, sequence = p.sequence, recompute = p.recompute }
local store = sharded_optimizer.new{ plan = plan, lr = 1e-3 }
local layers = stage.new{ plan = plan, mesh = plan.meshes[0], store = store,
                          blocks = transformer.blocks(config, plan, {
                              first = 1, last = 1, mesh = plan.meshes[0] }) }
store:create_all(layers.blocks)

local x = orrery.randn{ shape = {p.batch, p.tokens, p.hidden}, dtype = "f16", seed = 1,
                        mesh = plan.meshes[0], place = plan:activation() }
layers:forward(0, x, { seed = 0 })
local kept = layers:kept_bytes(0, 0)

-- The closed form, in bytes.
local function formula()
    local s, b, h, a, t = p.tokens, p.batch, p.hidden, p.heads, plan.tp
    local split = plan.sequence and t or 1 -- what only sequence parallelism cuts
    local core = p.recompute == "none" and 5 * a * s / (h * t) or 0
    if p.recompute == "full" then
        return 2 * s * b * h // split
    end
    return math.tointeger(s * b * h * (10 / split + 24 / t + core))
end

print(string.format("%s: the layer keeps %d bytes on a device; the closed form says %d",
                    plan:text(), kept, formula()))
expect.equal(kept, formula())
expect.clean()
