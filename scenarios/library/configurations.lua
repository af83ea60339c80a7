-- Dimensions of published models, for the module `transformer`. Each says where its numbers are
-- from; what is not said there is not guessed: `tokens` is the context of the training run that the
-- source reports.
--
--     local configurations = require "configurations"
--     local config = configurations.get("8b", { dtype = "bf16" })

local configurations = {}

-- Llama 3: "The Llama 3 Herd of Models" (Grattafiori et al. 2024), table 3; vocabulary 128,256 =
-- 128,000 + 256 special ones (its published config.json); sequences of 8,192 tokens (section 3.4).
local function llama3(layers, hidden, ffn, heads)
    return { vocab = 128256, hidden = hidden, layers = layers, heads = heads, kv_heads = 8,
             ffn = ffn, tokens = 8192, theta = 500000, dtype = "bf16" }
end

local MODELS = {
    -- small enough to compute with; heads and layers divide in many ways
    tiny = { vocab = 96, hidden = 32, layers = 8, heads = 8, kv_heads = 4, head = 4, ffn = 48,
             tokens = 16 },
    tiny_moe = { vocab = 96, hidden = 32, layers = 8, heads = 8, kv_heads = 4, head = 4, ffn = 48,
                 tokens = 16, moe = { experts = 8, top_k = 2, ffn = 24, shared = 24,
                                      routing = "fixed" } },
    tiny_gpt = { vocab = 96, hidden = 32, layers = 4, heads = 4, ffn = 128, tokens = 16,
                 norm = "layernorm", activation = "gelu", positions = "learned", bias = true,
                 fused = false, dropout = 0.1 },

    ["8b"] = llama3(32, 4096, 14336, 32),
    ["70b"] = llama3(80, 8192, 28672, 64),
    ["405b"] = llama3(126, 16384, 53248, 128),

    -- GPT-3: "Language Models are Few-Shot Learners" (Brown et al. 2020), table 2.1: 96 layers,
    -- width 12,288, 96 heads of 128, context 2,048; the vocabulary of GPT-2, 50,257, padded to a
    -- multiple of 128 * 8 as Megatron-LM does.
    ["gpt3-175b"] = { vocab = 51200, hidden = 12288, layers = 96, heads = 96, ffn = 4 * 12288,
                      tokens = 2048, norm = "layernorm", activation = "gelu",
                      positions = "learned", bias = true, dropout = 0.1, dtype = "bf16" },

    -- DeepSeek-V3-like (DeepSeek-AI 2024, section 4.2): 61 layers of which the first 3 are dense,
    -- width 7,168, 128 heads of 128, 256 routed experts of width 2,048, 8 per token, one shared,
    -- dense width 18,432, vocabulary 129,280, context 4,096. Its latent attention is replaced by
    -- multi-head attention of the same heads; capacity factor 1.25 in place of its balancing.
    ["deepseek-like"] = { vocab = 129280, hidden = 7168, layers = 61, heads = 128, head = 128,
                          ffn = 18432, tokens = 4096, dtype = "bf16",
                          moe = { first = 3, experts = 256, top_k = 8, ffn = 2048, shared = 2048,
                                  score = "sigmoid", routing = "learned",
                                  capacity_factor = 1.25 } },
}

function configurations.names()
    local names = {}
    for name in pairs(MODELS) do
        names[#names + 1] = name
    end
    return names
end

-- The configuration of a name, with `changes` in place of its own entries.
function configurations.get(name, changes)
    local model = MODELS[name]
    if not model then
        error(string.format("configurations: unknown model '%s'; there are %s", tostring(name),
                            table.concat(configurations.names(), ", ")), 2)
    end
    local config = {}
    for key, value in pairs(model) do
        config[key] = value
    end
    for key, value in pairs(changes or {}) do
        config[key] = value
    end
    return require("transformer").configuration(config)
end

return configurations
