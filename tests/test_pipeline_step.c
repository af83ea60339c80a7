/* The library's pipeline.step: a training step of stages on devices of their own against the same
 * on one device, in whole numbers, so that both are equal to the last bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario_play.h"

/* Stage s multiplies by a weight: y = x * w, the last one sums up; x of microbatch i is [i + 1, 2].
 * setup(kind, p, m) returns the schedule and a model, whose weight of stage s is [s + 2, 1]. */
#define SETUP                                                                                      \
    "local pipeline = require 'pipeline'\n"                                                        \
    "local function on(device, values)\n"                                                          \
    "    local mesh = orrery.mesh{ shape = {1}, names = {'x'}, devices = {device} }\n"             \
    "    return orrery.tensor{ shape = {2}, dtype = 'f64', values = values, mesh = mesh,\n"        \
    "                          place = {'R'} }, mesh\n"                                            \
    "end\n"                                                                                        \
    "local function setup(kind, p, m)\n"                                                           \
    "    local s = pipeline.schedule{ kind = kind, ranks = p, microbatches = m,\n"                 \
    "                                 chunks = kind == 'interleaved' and 2 or nil }\n"             \
    "    local weights, meshes = { [0] = {}, [1] = {} }, { [0] = {}, [1] = {} }\n"                 \
    "    for r, here in ipairs(s.stages) do for _, at in ipairs(here) do\n"                        \
    "        local w, mesh = on(r - 1, { at.stage + 2, 1 })\n"                                     \
    "        weights[at.replica][at.stage] = { w = w }\n"                                          \
    "        meshes[at.replica][at.stage] = mesh\n"                                                \
    "    end end\n"                                                                                \
    "    return s, {\n"                                                                            \
    "        mesh = function(stage, replica) return meshes[replica][stage] end,\n"                 \
    "        parameters = function(stage, replica) return weights[replica][stage] end,\n"          \
    "        input = function(i, replica)\n"                                                       \
    "            return (on(s.rank_of(0, replica), { i + 1, 2 }))\n"                               \
    "        end,\n"                                                                               \
    "        forward = function(stage, x, i, replica)\n"                                           \
    "            local y = x * weights[replica][stage].w\n"                                        \
    "            return stage == s.stage_count - 1 and y:sum() or y\n"                             \
    "        end,\n"                                                                               \
    "    }\n"                                                                                      \
    "end\n"                                                                                        \
    "local function numbers(t) return table.concat(t:future():get(), ' ') end\n"

/* The loss of microbatch i is (i + 1) * 2 * 3 * ... + 2; the weight's gradient of stage s has
 * sum(i + 1) * product of the others, and 2m. */
static void every_kind_gives_the_gradients_of_one_device(void **state) {
    (void)state;
    expect_printed_on(
        4,
        SETUP "for _, kind in ipairs{ 'gpipe', '1f1b', 'interleaved', 'zero_bubble',\n"
              "                       'zero_bubble_2', 'zero_bubble_v', 'bidirectional',\n"
              "                       'dualpipe' } do for _, p in ipairs{2, 4} do\n"
              "    local m = 2 * p\n"
              "    local s, model = setup(kind, p, m)\n"
              "    model.scale = 3\n"
              "    local losses, grads = pipeline.step(s, model)\n"
              "    local product = 1\n"
              "    for stage = 0, s.stage_count - 1 do product = product * (stage + 2) end\n"
              "    for i = 1, m do\n"
              "        assert(losses[i]:future():get() == i * product + 2, kind)\n"
              "    end\n"
              "    for replica = 0, s.replicas - 1 do\n"
              "        for stage = 0, s.stage_count - 1 do\n"
              "            local g = grads[replica][stage].w:future():get()\n"
              "            assert(g[1] == 3 * m * (m + 1) / 2 * product / (stage + 2), kind)\n"
              "            assert(g[2] == 3 * 2 * m, kind)\n"
              "            assert(grads[replica][stage].w:mesh():devices()[1] ==\n"
              "                   s.rank_of(stage, replica))\n"
              "        end\n"
              "    end\n"
              "    print(kind, p, s.stage_count)\n"
              "end end\n",
        "gpipe\t2\t2\ngpipe\t4\t4\n1f1b\t2\t2\n1f1b\t4\t4\ninterleaved\t2\t4\ninterleaved\t4\t8\n"
        "zero_bubble\t2\t2\nzero_bubble\t4\t4\nzero_bubble_2\t2\t2\nzero_bubble_2\t4\t4\n"
        "zero_bubble_v\t2\t4\nzero_bubble_v\t4\t8\nbidirectional\t2\t2\nbidirectional\t4\t4\n"
        "dualpipe\t2\t2\ndualpipe\t4\t4\n");
}

/* Stages that all lie on one device, one without parameters, and an input of whole numbers, which
 * has no gradient for the first part of a backward. */
static void stages_may_share_a_device_or_have_no_weights(void **state) {
    (void)state;
    expect_printed(
        SETUP
        "for _, rows in ipairs{ 'F0 F0b F1 B0b B0 F1b B1b B1',\n"
        "                       'F0 F0b B0b B0 W0b F1 W0 F1b B1b B1 W1 W1b' } do\n"
        "    local s = pipeline.parse(rows)\n"
        "    local table_of, mesh = on(0, {5, 7})\n"
        "    local used = orrery.device(0):memory().requested\n"
        "    local losses, grads = pipeline.step(s, {\n"
        "        mesh = function() return mesh end,\n"
        "        parameters = function(stage) return stage == 0 and { t = table_of } or {} end,\n"
        "        input = function(i)\n"
        "            return orrery.tensor{ shape = {3}, dtype = 'i64', values = {i, 1, 1},\n"
        "                                  mesh = mesh, place = {'R'} }\n"
        "        end,\n"
        "        forward = function(stage, x)\n"
        "            if stage == 1 then return (x * x):sum() end\n"
        "            return x:embedding(table_of:reshape{ shape = {2, 1} })\n"
        "        end,\n"
        "    })\n"
        "    print(losses[1]:future():get(), losses[2]:future():get(), numbers(grads[0][0].t))\n"
        "    print(next(grads[0][1]))\n"
        "    losses[1]:free() losses[2]:free() grads[0][0].t:free()\n"
        "    print(orrery.device(0):memory().requested - used)\n"
        "    table_of:free()\n"
        "end\n",
        "123.0\t147.0\t10.0 70.0\nnil\n0\n123.0\t147.0\t10.0 70.0\nnil\n0\n");
}

static void a_step_leaves_losses_and_gradients_and_nothing_else(void **state) {
    (void)state;
    expect_printed_on(
        2,
        SETUP "for _, kind in ipairs{ '1f1b', 'zero_bubble', 'dualpipe' } do\n"
              "    local s, model = setup(kind, 2, 4)\n"
              "    local order = {}\n"
              "    function model.before(action, rank)\n"
              "        order[#order + 1] = action.kind .. action.microbatch .. '@' .. rank\n"
              "    end\n"
              "    local before = orrery.device(0):memory().requested\n"
              "    local losses, grads = pipeline.step(s, model)\n"
              "    print(#order, table.concat(order, ' ', 1, 6))\n"
              "    for _, loss in ipairs(losses) do loss:free() end\n"
              "    for r = 0, s.replicas - 1 do for _, g in pairs(grads[r]) do g.w:free() end end\n"
              "    print(orrery.device(0):memory().requested - before)\n"
              "end\n",
        "16\tF0@0 F1@0 F0@1 BW0@1 F1@1 BW0@0\n0\n"
        "24\tF0@0 F1@0 F0@1 B0@1 F1@1 B0@0\n0\n"
        "18\tF0@0 F2@1 F0@1 F2@0 F3@1 F1@0\n0\n");
}

static void mistakes_in_a_model_are_named(void **state) {
    (void)state;
    expect_printed_on(
        2,
        SETUP "local s, model = setup('gpipe', 2, 2)\n"
              "local function try(change)\n"
              "    local other = {}\n"
              "    for name, f in pairs(model) do other[name] = f end\n"
              "    change(other)\n"
              "    print(select(2, pcall(pipeline.step, s, other)))\n"
              "end\n"
              "try(function(m) m.input = nil end)\n"
              "try(function(m) m.forwards = print end)\n"
              "try(function(m) m.forward = function() end end)\n"
              "print(select(2, pcall(pipeline.step, { ranks = {} }, model)))\n",
        "pipeline: pipeline.step: the model has no function 'input'\n"
        "pipeline: unknown key 'forwards' in pipeline.step; known: mesh, parameters, input, "
        "forward, before, after, scale\n"
        "pipeline: the forward of stage 0 returned nil; expected a tensor\n"
        "pipeline: the schedule has no action\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_the_gradients_of_one_device),
        cmocka_unit_test(stages_may_share_a_device_or_have_no_weights),
        cmocka_unit_test(a_step_leaves_losses_and_gradients_and_nothing_else),
        cmocka_unit_test(mistakes_in_a_model_are_named),
    };
    return cmocka_run_group_tests_name("pipeline steps", tests, NULL, NULL);
}
