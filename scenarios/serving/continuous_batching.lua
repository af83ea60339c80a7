-- A queue of requests before a decoder with a key-value cache: continuous batching (Yu et al.,
-- "Orca: a distributed serving system for transformer-based generative models", 2022) against
-- static batching, tensor-parallel on all devices of the run. Arrivals, prompts and lengths come
-- from the seed.
--
-- Printed are tokens a second, time to first token (from the arrival to the end of the prompt's
-- step) and time per output token (the mean of a request's later tokens), in virtual time, and what
-- the cache takes. The tiny model computes: its tokens are those of decoding one request after
-- another on one device.
--
--     orrery run scenarios/serving/continuous_batching.lua model=8b slots=16 capacity=512 \
--         requests=24 prompt_least=64 prompt_most=256 --devices 'sim:dgx-h100' --timing-only
--
-- devices: sim:h100*2
-- test:
-- test: slots=3 requests=7 interval_us=100
-- test: model=8b slots=2 requests=4 output_most=10 --timing-only

local serving = require "serving"

local p = orrery.args{ model = "tiny", slots = 4, capacity = 64, requests = 12, interval_us = 900,
                       prompt_least = 3, prompt_most = 12, output_least = 2, output_most = 24 }

if p.prompt_most + p.output_most > p.capacity then
    error(string.format("a request may have %d + %d tokens, but a slot has room for %d",
                        p.prompt_most, p.output_most, p.capacity))
end

local all = {}
for index = 0, orrery.devices - 1 do
    all[#all + 1] = index
end

local function model(devices, slots)
    return serving.model{ size = p.model, slots = slots, capacity = p.capacity,
                          mesh = orrery.mesh{ shape = {#devices}, names = {"tp"},
                                              devices = devices } }
end

local m = model(all, p.slots)
local requests = serving.requests{ count = p.requests, interval_us = p.interval_us,
                                   prompt_least = p.prompt_least, prompt_most = p.prompt_most,
                                   output_least = p.output_least, output_most = p.output_most,
                                   vocab = m.vocab }

local function show(name, r)
    print(string.format("%-11s %5d tokens in %4d steps, %9.3f ms: %8.1f tokens/s", name, r.count,
                        r.steps, r.seconds * 1e3, r.rate))
    print(string.format("            first token p50 %.3f ms, p99 %.3f ms; then p50 %.3f ms, " ..
                        "p99 %.3f ms", r.ttft_p50 * 1e3, r.ttft_p99 * 1e3, r.tpot_p50 * 1e3,
                        r.tpot_p99 * 1e3))
end

print(string.format("%s on %d devices, %d slots of %d positions: %.3f MiB of cache on each",
                    p.model, #all, p.slots, p.capacity, m:cache_bytes() / 2^20))
local continuous = serving.continuous(m, requests)
show("continuous", continuous)
local static = serving.static(m, requests)
show("static", static)

expect.clean()
expect.equal(m:cache_bytes(), m:cache_formula())
expect.equal(continuous.count, static.count)
if orrery.backend == "sim" then
    expect.less(static.rate, continuous.rate)
    expect.less(continuous.ttft_p99, static.ttft_p99)
end
if not orrery.timing_only then
    local wanted = serving.one_by_one(model({0}, 1), requests)
    expect.equal(continuous.tokens, wanted)
    expect.equal(static.tokens, wanted)
    print("tokens are those of one request at a time on one device")
end
