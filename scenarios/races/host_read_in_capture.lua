-- The host reads a number inside a captured function: what is recorded is not run yet, so there is
-- nothing to read. A stream capture would fail (code 900); here the function breaks into two pieces
-- at the read, which are run one after the other, and the capture is worth nothing.
--
-- fixed=true: the number is read from what the function returns.
--
-- devices: sim:teaching
-- test: --check
-- test: fixed=true --check

local p = orrery.args{ fixed = false }
local x = orrery.randn{ shape = {64, 64} }
local step = orrery.capture(function(x)
    local y = orrery.relu(x:matmul(x))
    local loss = y:sum()
    if not p.fixed then
        print("inside: a number " .. (loss:future():get() > 0 and "above" or "below") .. " 0")
    end
    return y * 2, loss
end)

for _ = 1, 3 do
    local y, loss = step(x)
    if p.fixed then
        print("outside: a number " .. (loss:future():get() > 0 and "above" or "below") .. " 0")
    end
end
local counts = step:counts()
print(string.format("%d captures, %d replays, %d breaks", counts.captures, counts.replays,
                    counts.breaks))
if p.fixed then
    expect.equal(counts.breaks, 0)
    expect.clean()
else
    expect.finding("graph-break")
end
