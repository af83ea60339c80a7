/* orrery.tape(): gradients.
 *
 *     local tape <close> = orrery.tape()
 *     tape:watch(w, b)
 *     local loss = orrery.cross_entropy(x:matmul(w) + b, targets)
 *     local dw, db = tape:gradient(loss, w, b) */
#include <stdio.h>
#include <string.h>

#include "runtime/autograd.h"
#include "scenarios/tensor_internal.h"

#define TAPE "orrery.tape"

static struct orr_gradient_tape *tape_at(lua_State *L, const char *what) {
    const struct orr__handle *handle = orr__handle(L, 1, TAPE, what);
    if (!handle->pointer) {
        orr__raise(L, ORR_INVALID, "%s: the tape has been freed", what);
    }
    return handle->pointer;
}

static int orrery_tape(lua_State *L) {
    static const char *const keys[] = {"persistent", NULL};
    bool persistent = false;
    lua_settop(L, 1);
    if (!lua_isnoneornil(L, 1)) {
        orr__check_keys(L, 1, "orrery.tape", keys);
        lua_getfield(L, 1, "persistent");
        persistent = lua_toboolean(L, -1);
    }
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_gradient_tape *tape;
    enum orr_status status = orr_gradient_tape_begin(scenario->runtime, &tape);
    if (status != ORR_OK) {
        return orr__raise_runtime(L, status);
    }
    if (persistent) {
        orr_gradient_tape_persist(tape);
    }
    orr__push_handle(L, TAPE, tape);
    return 1;
}

static int tape_text(lua_State *L) {
    lua_pushliteral(L, "tape");
    return 1;
}

/* tape:free(), and at <close>. */
static int tape_free(lua_State *L) {
    struct orr__handle *handle = orr__handle(L, 1, TAPE, "free");
    struct orr_gradient_tape *tape = handle->pointer;
    if (tape) {
        orr__caller(L);
        orr_gradient_tape_destroy(&tape);
        handle->pointer = NULL;
    }
    return 0;
}

/* tape:watch(w, ...) */
static int tape_watch(lua_State *L) {
    struct orr_gradient_tape *tape = tape_at(L, "watch");
    int top = lua_gettop(L);
    orr__caller(L);
    for (int i = 2; i <= top; i++) {
        enum orr_status status = orr_gradient_tape_watch(tape, orr__tensor(L, i, "watch"));
        if (status != ORR_OK) {
            return orr__raise_runtime(L, status);
        }
    }
    return 0;
}

/* Also the continuation of a call inside that was blocked. */
static int after_pause(lua_State *L, int status, lua_KContext context) {
    (void)context;
    const struct orr__handle *handle = orr__handle(L, 1, TAPE, "pause");
    if (handle->pointer) {
        orr_gradient_tape_pause(handle->pointer, false);
    }
    return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) - 1 : lua_error(L);
}

/* tape:pause(f, ...): calls f(...) unrecorded, returns its results. */
static int tape_pause(lua_State *L) {
    struct orr_gradient_tape *tape = tape_at(L, "pause");
    luaL_checkany(L, 2);
    orr_gradient_tape_pause(tape, true);
    return after_pause(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after_pause), 0);
}

uint32_t orr__device_argument(lua_State *L, int index, const char *what) {
    int64_t count = orr_runtime_device_count(orr__scenario_of(L)->runtime);
    return orr__is_handle(L, index, ORR__DEVICE)
               ? orr__device(L, index)
               : (uint32_t)orr__integer(L, index, what, 0, count - 1);
}

/* tape:bytes(), tape:bytes(device): a device's index or handle */
static int tape_bytes(lua_State *L) {
    const struct orr_gradient_tape *tape = tape_at(L, "bytes");
    if (lua_isnoneornil(L, 2)) {
        lua_pushinteger(L, (lua_Integer)orr_gradient_tape_bytes(tape));
        return 1;
    }
    uint32_t device = orr__device_argument(L, 2, "bytes: device");
    lua_pushinteger(L, (lua_Integer)orr_gradient_tape_bytes_on(tape, device));
    return 1;
}

/* tape:stop() */
static int tape_stop(lua_State *L) {
    struct orr_gradient_tape *tape = tape_at(L, "stop");
    orr__caller(L);
    orr_gradient_tape_stop(tape);
    return 0;
}

/* Reads {tensor, gradient or number} pairs of the list at index 2 into Lua-owned memory on top. */
static struct orr_gradient_seed *read_seeds(lua_State *L, int *out_count) {
    int count = (int)lua_rawlen(L, 2);
    struct orr_gradient_seed *seeds = lua_newuserdatauv(L, (size_t)count * sizeof *seeds + 1, 0);
    for (int i = 0; i < count; i++) {
        if (lua_rawgeti(L, 2, i + 1) != LUA_TTABLE) {
            orr__raise(L, ORR_INVALID,
                       "gradient: expected a list of {tensor, its gradient}, got %s",
                       luaL_typename(L, -1));
        }
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        bool number = lua_type(L, -1) == LUA_TNUMBER, given = !number && !lua_isnil(L, -1);
        seeds[i] = (struct orr_gradient_seed){
            .tensor = orr__tensor(L, -2, "gradient"),
            .gradient = given ? orr__tensor(L, -1, "gradient: seed") : NULL,
            .value = number ? lua_tonumber(L, -1) : 1};
        lua_pop(L, 3);
    }
    *out_count = count;
    return seeds;
}

/* orrery.accumulate(sum, gradient): frees the sum, returns the new one; nil is none yet. */
static int orrery_accumulate(lua_State *L) {
    lua_settop(L, 2);
    struct orr_tensor *gradient = orr__tensor(L, 2, "orrery.accumulate");
    struct orr_tensor *sum = lua_isnil(L, 1) ? NULL : orr__tensor(L, 1, "orrery.accumulate");
    bool given = sum != NULL;
    orr__caller(L);
    enum orr_status status = orr_gradient_accumulate(&sum, gradient);
    if (status == ORR_OK) {
        if (given) {
            orr__handle(L, 1, ORR__TENSOR, "orrery.accumulate")->pointer = NULL;
        }
        orr__push_tensor(L, sum);
    }
    return orr__finish(L, status, 2, 1, orrery_accumulate);
}

/* Reads the tensors from index `first` on into Lua-owned memory on top. */
static struct orr_tensor **read_tensors(lua_State *L, int first, int count, const char *what) {
    luaL_checkstack(L, count + 16, what);
    struct orr_tensor **tensors = lua_newuserdatauv(L, (size_t)count * sizeof *tensors + 1, 0);
    for (int i = 0; i < count; i++) {
        tensors[i] = orr__tensor(L, first + i, what);
    }
    return tensors;
}

static int push_gradients(lua_State *L, enum orr_status status, int top,
                          struct orr_tensor *const *gradients, int count, lua_CFunction again) {
    if (status != ORR_OK && status != ORR_BLOCKED) {
        return orr__raise_gradient(L, status);
    }
    for (int i = 0; status == ORR_OK && i < count; i++) {
        orr__push_tensor(L, gradients[i]);
    }
    return orr__finish(L, status, top, count, again);
}

static struct orr_tensor *loss_at(lua_State *L, int index, const char *what) {
    char text[ORR_SHAPE_TEXT_MAX];
    snprintf(text, sizeof text, "%s: loss", what);
    struct orr_tensor *loss = orr__tensor(L, index, text);
    const struct orr_shape *shape = &orr_tensor_info(loss)->shape;
    if (orr_shape_count(shape) != 1) {
        orr__raise(L, ORR_INVALID,
                   "%s: the loss has shape %s, expected one element; give other tensors a gradient "
                   "to start from",
                   what, orr_shape_text(shape, text));
    }
    return loss;
}

/* A loss's gradient, or that of the seeds at index 2; all of it, or the part of the inputs. */
static int gradient_of(lua_State *L, const char *what, bool inputs, lua_CFunction again) {
    struct orr_gradient_tape *tape = tape_at(L, what);
    int top = lua_gettop(L), wanted_count = top - 2, seed_count = 0;
    if (wanted_count < 1) {
        return orr__raise(L, ORR_INVALID,
                          "%s: expected a loss and the tensors whose gradients are wanted", what);
    }
    struct orr_tensor **wanted = read_tensors(L, 3, wanted_count, what);
    struct orr_tensor **gradients =
        lua_newuserdatauv(L, (size_t)wanted_count * sizeof(struct orr_tensor *), 0);
    const struct orr_gradient_seed *seeds = NULL;
    struct orr_gradient_seed from_loss = {.tensor = NULL};
    if (lua_istable(L, 2)) {
        seeds = read_seeds(L, &seed_count);
    } else {
        from_loss.tensor = loss_at(L, 2, what);
    }
    struct orr_scenario *scenario = orr__caller(L);
    lua_State *before = scenario->playing;
    if (!seeds) {
        seeds = &from_loss;
        seed_count = 1;
    }
    scenario->playing = L;
    enum orr_status status =
        inputs ? orr_gradient_inputs(tape, seeds, seed_count, wanted, wanted_count, gradients)
               : orr_gradient_from(tape, seeds, seed_count, wanted, wanted_count, gradients);
    scenario->playing = before;
    return push_gradients(L, status, top, gradients, wanted_count, again);
}

/* tape:gradient(loss, w, ...), or tape:gradient({{y, dy}, ...}, w, ...) */
static int tape_gradient(lua_State *L) {
    return gradient_of(L, "gradient", false, tape_gradient);
}

/* tape:backward_input({{y, dy}, ...}, x, ...) */
static int tape_backward_input(lua_State *L) {
    return gradient_of(L, "backward_input", true, tape_backward_input);
}

/* tape:backward_weight(w, ...) */
static int tape_backward_weight(lua_State *L) {
    struct orr_gradient_tape *tape = tape_at(L, "backward_weight");
    int top = lua_gettop(L), count = top - 1;
    struct orr_tensor **weights = read_tensors(L, 2, count, "backward_weight");
    struct orr_tensor **gradients =
        lua_newuserdatauv(L, (size_t)count * sizeof(struct orr_tensor *) + 1, 0);
    struct orr_scenario *scenario = orr__caller(L);
    lua_State *before = scenario->playing;
    scenario->playing = L;
    enum orr_status status = orr_gradient_weights(tape, weights, count, gradients);
    scenario->playing = before;
    return push_gradients(L, status, top, gradients, count, tape_backward_weight);
}

void orr__open_autograd(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"tape", orrery_tape}, {"accumulate", orrery_accumulate}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"watch", tape_watch},
                                       {"gradient", tape_gradient},
                                       {"backward_input", tape_backward_input},
                                       {"backward_weight", tape_backward_weight},
                                       {"pause", tape_pause},
                                       {"stop", tape_stop},
                                       {"bytes", tape_bytes},
                                       {"free", tape_free},
                                       {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, TAPE, tape_text);
    luaL_getmetatable(L, TAPE);
    lua_pushcfunction(L, tape_free);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}
