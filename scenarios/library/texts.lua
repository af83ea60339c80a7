-- Made-up texts to train on.

local texts = {}

-- `count` sequences from number `first` on, of a configuration's length, in which each token
-- follows from the one before, so that they can be learned. Returns tokens and targets, each a flat
-- list.
function texts.successors(config, first, count)
    local tokens, targets = {}, {}
    if orrery.timing_only then
        return tokens, targets -- nobody looks at them
    end
    for i = first, first + count - 1 do
        local token = i * 7 % config.vocab
        for _ = 1, config.tokens do
            tokens[#tokens + 1] = token
            token = (token * 5 + 3) % config.vocab
            targets[#targets + 1] = token
        end
    end
    return tokens, targets
end

return texts
