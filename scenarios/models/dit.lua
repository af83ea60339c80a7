-- A diffusion transformer like FLUX makes an image: Euler steps of flow matching from noise, then a
-- decoder of convolutions; tokens are sharded over all devices, or sp of them (library/dit.lua).
--
--     cache=n          the blocks run in every n-th step only; prints what that does to the image
--     quantize=i8      weights of linear layers as 8-bit codes (or f8e4m3); prints the same
--     guidance=g       two evaluations a step, with and without a prompt
--
-- The tiny model computes: on several devices its image is the one of a single device. At FLUX's
-- size (model=flux --timing-only) it prints the simulated time of a step.
--
--     orrery run scenarios/models/dit.lua model=flux steps=4 --devices 'sim:dgx-h100' --timing-only
--
-- devices: sim:h100*2
-- test:
-- test: sp=1 guidance=3.5 steps=2
-- test: cache=2 guidance=2.0 steps=3
-- test: quantize=i8 steps=2
-- test: quantize=f8e4m3 steps=2
-- test: model=flux steps=1 --timing-only

local dit = require "dit"

local p = orrery.args{ model = "tiny", steps = 8, sp = 0, cache = 0, quantize = "none",
                       guidance = 0.0 }

local function mesh_of(count)
    local devices = {}
    for index = 0, count - 1 do
        devices[#devices + 1] = index
    end
    return orrery.mesh{ shape = {count}, names = {"sp"}, devices = devices }
end

local sp = p.sp == 0 and orrery.devices or p.sp
if sp < 1 or sp > orrery.devices then
    error(string.format("sp is %d, but the run has %d devices", sp, orrery.devices))
end

-- The image, and the nanoseconds of every step and of the decoder.
local function generate(count, quantize, cache)
    local mesh = mesh_of(count)
    local m = dit.model{ size = p.model, mesh = mesh, quantize = quantize }
    local decoder = dit.decoder{ size = p.model, mesh = mesh }
    orrery.device(0):sync()
    local times, began = {}, orrery.now()
    local function after()
        orrery.device(0):sync()
        times[#times + 1] = orrery.now() - began
        began = orrery.now()
    end
    local latent = dit.sample(m, { steps = p.steps, cache = cache, guidance = p.guidance,
                                   after = after })
    local image = decoder:forward(latent)
    after()
    return image, times
end

-- Root of the summed squares of the difference, relative to the image's own; and the largest
-- difference relative to the largest number.
local function difference(image, wanted)
    local got, want = image:future():get(), wanted:future():get()
    local squares, own, worst, largest = 0, 0, 0, 0
    expect.equal(image:count_nonfinite():future():get(), 0)
    for i = 1, #want do
        squares, own = squares + (got[i] - want[i]) ^ 2, own + want[i] ^ 2
        worst = math.max(worst, math.abs(got[i] - want[i]))
        largest = math.max(largest, math.abs(want[i]))
    end
    return math.sqrt(squares / own), worst / largest
end

local quantize = p.quantize ~= "none" and p.quantize or nil
local image, times = generate(sp, quantize, p.cache)
local memory = orrery.device(0):memory()
local longest, sum = 0, 0
for step = 1, p.steps do
    longest, sum = math.max(longest, times[step]), sum + times[step]
end
print(string.format("%s on %d device%s, %d steps: %.3f ms a step (longest %.3f), decoder %.3f ms",
                    p.model, sp, sp == 1 and "" or "s", p.steps, sum / p.steps / 1e6, longest / 1e6,
                    times[p.steps + 1] / 1e6))
print(string.format("parameters %.3f MiB, peak of device 0 %.3f MiB",
                    memory.roles.parameter.used / 2^20, memory.allocated_peak / 2^20))

expect.clean()
if not orrery.timing_only then
    if sp > 1 then
        local _, worst = difference(image, (generate(1, quantize, p.cache)))
        expect.less(worst, 1e-5)
        print(worst < 1e-5 and "the image of one device, within 1e-5" or
              string.format("not the image of one device: %.1e of its largest number", worst))
    end
    if quantize then
        local error_of_all = difference(image, (generate(1, nil, p.cache)))
        print(string.format("weights in %s: relative error %.4f", quantize, error_of_all))
        expect.less(error_of_all, quantize == "i8" and 0.03 or 0.12)
        expect.less(1e-6, error_of_all)
    end
    if p.cache > 1 then
        local error_of_all = difference(image, (generate(1, quantize, 0)))
        print(string.format("blocks in every step %d of %d: relative error %.4f", 1, p.cache,
                            error_of_all))
        expect.less(error_of_all, 0.25)
        expect.less(1e-6, error_of_all)
    end
end
