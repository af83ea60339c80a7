/* The operator table in Lua: x:matmul(w), orrery.softmax(x), orrery.randn{shape = {4, 4}}.
 *
 * Operands come first, in the operator's order; a table behind them holds its attributes by name.
 * Sources take the table only, with `mesh` and `place` beside the attributes. */
#include <stdio.h>
#include <string.h>

#include "runtime/splitmix.h"
#include "scenarios/tensor_internal.h"

static const struct orr_operator *operator_of(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

static void read_attribute(lua_State *L, const struct orr_operator *op, int index,
                           struct orr_attribute *value) {
    const struct orr_attribute_spec *spec = &op->attributes[index];
    char what[96];
    snprintf(what, sizeof what, "%s: %s", op->name, spec->name);
    switch (spec->kind) {
    case ORR_ATTRIBUTE_INT: value->integer = orr__integer(L, -1, what, INT64_MIN, INT64_MAX); break;
    case ORR_ATTRIBUTE_BOOL:
        if (!lua_isboolean(L, -1)) {
            orr__raise(L, ORR_INVALID, "%s: expected true or false, got %s", what,
                       luaL_typename(L, -1));
        }
        value->integer = lua_toboolean(L, -1);
        break;
    case ORR_ATTRIBUTE_REAL: value->real = orr__number(L, -1, what); break;
    case ORR_ATTRIBUTE_DTYPE:
        if (lua_type(L, -1) != LUA_TSTRING) {
            orr__raise(L, ORR_INVALID, "%s: expected a text such as 'bf16', got %s", what,
                       luaL_typename(L, -1));
        }
        value->integer = orr__dtype(L, what, lua_tostring(L, -1));
        break;
    case ORR_ATTRIBUTE_SHAPE: value->shape = orr__shape(L, -1, what); break;
    }
}

/* Does the runtime set the attribute itself, for pieces of a whole? */
static bool is_internal(const struct orr_attribute_spec *spec) {
    return spec->local == ORR_LOCAL_START || spec->local == ORR_LOCAL_WHOLE;
}

static void check_attribute_keys(lua_State *L, const struct orr_operator *op, int index) {
    const char *names[ORR_ATTRIBUTES_MAX + 3];
    int count = 0;
    for (int i = 0; op->attributes[i].name; i++) {
        if (!is_internal(&op->attributes[i])) {
            names[count++] = op->attributes[i].name;
        }
    }
    if (op->class == ORR_OPERATOR_SOURCE) {
        names[count++] = "mesh";
        names[count++] = "place";
    }
    names[count] = NULL;
    if (count == 0) {
        orr__raise(L, ORR_INVALID, "%s takes no attributes", op->name);
    }
    orr__check_keys(L, index, op->name, names);
}

/* A seed for a random operator that was given none: another one for each, all from the run's
 * seed. */
static int64_t next_seed(lua_State *L) {
    uint64_t state = orr_runtime_seed(orr__scenario_of(L)->runtime);
    return (int64_t)(orr_splitmix_mix(state + ORR_SPLITMIX_STEP * orr__draw(L)) >> 1);
}

static bool is_drawn(const struct orr_operator *op, int attribute) {
    return strcmp(op->attributes[attribute].name, "seed") == 0;
}

static void read_attributes(lua_State *L, const struct orr_operator *op, int index,
                            struct orr_attributes *attributes) {
    orr_operator_defaults(op, attributes);
    bool given = lua_istable(L, index);
    if (given) {
        check_attribute_keys(L, op, index);
    }
    for (int i = 0; op->attributes[i].name; i++) {
        if (given && lua_getfield(L, index, op->attributes[i].name) != LUA_TNIL) {
            read_attribute(L, op, i, &attributes->values[i]);
        } else if (op->attributes[i].required) {
            orr__raise(L, ORR_INVALID, "%s: '%s' is missing", op->name, op->attributes[i].name);
        } else if (is_drawn(op, i)) {
            attributes->values[i].integer = next_seed(L);
        }
        lua_settop(L, given ? index : lua_gettop(L));
    }
}

static enum orr_status apply(lua_State *L, const struct orr_operator *op,
                             struct orr_tensor *const *inputs, int count,
                             const struct orr_attributes *attributes,
                             const struct orr_layout *layout) {
    const struct orr_scenario *scenario = orr__caller(L);
    struct orr_tensor *outputs[ORR_OUTPUTS_MAX];
    bool random = orr_operator_attribute(op, "seed") >= 0;
    luaL_checkstack(L, ORR_OUTPUTS_MAX + 8, op->name);
    uint64_t draw = random ? orr__draw(L) : 0;
    enum orr_status status =
        orr_tensor_apply(scenario->runtime, op, inputs, count, attributes, layout, outputs);
    for (int i = 0; status == ORR_OK && i < op->outputs; i++) {
        orr__push_tensor(L, outputs[i]);
    }
    if (status == ORR_OK && random) {
        orr__drawn(L, draw); /* once it has been enqueued: a call that blocks is made again */
    }
    return status;
}

static int operator_source(lua_State *L) {
    const struct orr_operator *op = operator_of(L);
    struct orr_attributes attributes;
    struct orr_layout layout;
    lua_settop(L, 1);
    if (!lua_istable(L, 1)) {
        return orr__raise(L, ORR_INVALID, "orrery.%s takes a table of named arguments, got %s",
                          op->name, luaL_typename(L, 1));
    }
    read_attributes(L, op, 1, &attributes);
    bool placed = orr__field_layout(L, 1, op->name, &layout);
    enum orr_status status = apply(L, op, NULL, 0, &attributes, placed ? &layout : NULL);
    return orr__finish(L, status, 1, op->outputs, operator_source);
}

static int operator_call(lua_State *L) {
    const struct orr_operator *op = operator_of(L);
    struct orr_tensor *inputs[ORR_INPUTS_MAX];
    struct orr_attributes attributes;
    int count = 0;
    while (orr__is_handle(L, count + 1, ORR__TENSOR)) {
        if (count == ORR_INPUTS_MAX) {
            return orr__raise(L, ORR_INVALID, "%s: at most %d operands", op->name, ORR_INPUTS_MAX);
        }
        inputs[count] = orr__tensor(L, count + 1, op->name);
        count++;
    }
    int top = lua_gettop(L);
    bool table = top == count + 1 && lua_istable(L, top);
    if (top > count && !table) {
        return orr__raise(L, ORR_INVALID,
                          "%s: argument %d: expected a tensor or, last, a table of attributes, got "
                          "%s",
                          op->name, count + 1, luaL_typename(L, count + 1));
    }
    read_attributes(L, op, count + 1, &attributes);
    enum orr_status status = apply(L, op, inputs, count, &attributes, NULL);
    return orr__finish(L, status, top, op->outputs, operator_call);
}

void orr__add_operators(lua_State *L, int functions, int methods) {
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        bool source = op->class == ORR_OPERATOR_SOURCE;
        lua_pushlightuserdata(L, (void *)(uintptr_t)op);
        lua_pushcclosure(L, source ? operator_source : operator_call, 1);
        if (!source) {
            lua_pushvalue(L, -1);
            lua_setfield(L, methods, op->name);
        }
        lua_setfield(L, functions, op->name);
    }
}
