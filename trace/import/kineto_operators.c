/* The cpu_op that work comes from, by External id: its name and the shapes of its inputs. */
#include "trace/import/kineto_internal.h"
#include "trace/import/operator_inputs.h"

/* c10's names of types, and those of communication. */
static const struct {
    const char *text;
    enum orr_dtype dtype;
} dtypes[] = {
    {"float", ORR_DTYPE_F32},
    {"Float", ORR_DTYPE_F32},
    {"c10::BFloat16", ORR_DTYPE_BF16},
    {"BFloat16", ORR_DTYPE_BF16},
    {"c10::Half", ORR_DTYPE_F16},
    {"Half", ORR_DTYPE_F16},
    {"long int", ORR_DTYPE_I64},
    {"long", ORR_DTYPE_I64},
    {"Long", ORR_DTYPE_I64},
    {"int", ORR_DTYPE_I32},
    {"Int", ORR_DTYPE_I32},
    {"double", ORR_DTYPE_F64},
    {"Double", ORR_DTYPE_F64},
    {"bool", ORR_DTYPE_BOOL},
    {"Bool", ORR_DTYPE_BOOL},
    {"signed char", ORR_DTYPE_I8},
    {"Char", ORR_DTYPE_I8},
    {"c10::Float8_e4m3fn", ORR_DTYPE_F8E4M3},
    {"Float8_e4m3fn", ORR_DTYPE_F8E4M3},
    {"c10::Float8_e5m2", ORR_DTYPE_F8E5M2},
    {"Float8_e5m2", ORR_DTYPE_F8E5M2},
};

enum orr_dtype orr__kineto_dtype(struct orr__json_text text) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].text) == text.length &&
            memcmp(dtypes[i].text, text.at, text.length) == 0)
            return dtypes[i].dtype;
    return ORR_DTYPE_NONE;
}

/* An array of the event's arguments; empty if it is not there. */
static struct orr__json_text array_of(const struct orr__kineto *k, enum orr__arg arg) {
    const struct orr__json_value *value = &k->event.args[arg];
    bool there = (k->event.has >> arg & 1) != 0 && value->kind == ORR__JSON_ARRAY;
    return there ? value->text : (struct orr__json_text){.at = "", .length = 0};
}

/* "bf16[8, 512], bf16[512, 512], 1": see operator_inputs.h. */
static const char *inputs_text(struct orr__kineto *k) {
    size_t length = orr__operator_inputs(array_of(k, ORR__ARG_DIMS), array_of(k, ORR__ARG_TYPES),
                                         array_of(k, ORR__ARG_VALUES), k->text);
    return orr__builder_text(k->builder, k->text, length);
}

static bool external_id(const struct orr__kineto *k, uint64_t *out_id) {
    return (orr__kineto_u64(k, ORR__ARG_EXTERNAL_ID, out_id) ||
            orr__kineto_u64(k, ORR__ARG_EXTERNAL_ID_OLD, out_id)) &&
           *out_id != 0;
}

void orr__kineto_operator(struct orr__kineto *k, uint64_t slice, const char *name) {
    uint64_t id;
    if (!external_id(k, &id))
        id = 0; /* none */
    struct orr__kineto_operator *op = ORR__KINETO_ADD(k, operators);
    if (!op)
        return;
    *op = (struct orr__kineto_operator){
        .external_id = id, .slice = slice, .name = name, .shape = "", .dtype = ORR_DTYPE_NONE};
    if (orr__kineto_has_arg(k, ORR__ARG_DIMS)) {
        op->shape = inputs_text(k);
        op->dtype = orr__operator_dtype(op->shape);
    }
}

void orr__kineto_reference(struct orr__kineto *k, uint64_t command) {
    uint64_t id;
    struct orr__kineto_reference *reference =
        external_id(k, &id) ? ORR__KINETO_ADD(k, references) : NULL;
    if (reference)
        *reference = (struct orr__kineto_reference){command, id};
}

/* -- Resolving --------------------------------------------------------------------------------- */

static uint32_t find_operator(const struct orr__kineto *k, const struct orr__index *index,
                              uint64_t id) {
    uint64_t hash = orr__hash_mix(id, 1);
    size_t at = orr__index_start(index, hash);
    uint32_t item;
    while ((item = orr__index_item(index, &at, hash)) != ORR__INDEX_NONE) {
        if (k->operators[item].external_id == id)
            return item;
        at++;
    }
    return ORR__INDEX_NONE;
}

/* Does `a` come before `b`, whatever the order of the file? Of two with one id, which profilers do
 * not write, the first in this order counts. */
static bool operator_before(const struct orr_timeline *timeline,
                            const struct orr__kineto_operator *a,
                            const struct orr__kineto_operator *b) {
    const struct orr_timeline_slice *x = &timeline->slices[a->slice],
                                    *y = &timeline->slices[b->slice];
    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order < 0 : strcmp(a->shape, b->shape) < 0;
}

static enum orr_status index_operators(struct orr__kineto *k, const struct orr_timeline *timeline,
                                       struct orr__index *index) {
    for (size_t i = 0; i < k->operators_count; i++) {
        struct orr__kineto_operator *op = &k->operators[i];
        if (op->external_id == 0)
            continue;
        uint32_t known = find_operator(k, index, op->external_id);
        if (known != ORR__INDEX_NONE) {
            if (operator_before(timeline, op, &k->operators[known])) {
                struct orr__kineto_operator other = k->operators[known];
                k->operators[known] = *op;
                *op = other; /* calls may stand in it */
            }
            continue;
        }
        enum orr_status status =
            orr__index_add(index, k->memory, orr__hash_mix(op->external_id, 1), (uint32_t)i);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

static enum orr_status add_op(struct orr_timeline *timeline, const struct orr_memory *memory,
                              size_t *capacity, const struct orr__kineto_operator *from) {
    enum orr_status status = orr_memory_grow(
        memory, &timeline->ops, capacity, timeline->op_count + 1, sizeof *timeline->ops, INT32_MAX);
    if (status != ORR_OK)
        return status;
    timeline->ops[timeline->op_count] = (struct orr_timeline_op){.id = timeline->op_count + 1,
                                                                 .name = from->name,
                                                                 .kind = "cpu_op",
                                                                 .site = "",
                                                                 .shape = from->shape,
                                                                 .dtype = from->dtype};
    timeline->op_count++;
    return ORR_OK;
}

enum orr_status orr__kineto_assign(const struct orr__kineto *k, struct orr_timeline *timeline,
                                   size_t *op_capacity, uint32_t item,
                                   struct orr_timeline_command *command) {
    struct orr_timeline_slice *slice = &timeline->slices[k->operators[item].slice];
    enum orr_status status = ORR_OK;
    if (slice->op == 0) {
        status = add_op(timeline, k->memory, op_capacity, &k->operators[item]);
        slice->op = status == ORR_OK ? timeline->op_count : 0;
    }
    command->op = slice->op;
    return status;
}

/* In files of older profilers the ids of calls and of operators are two countings, and equal ones
 * mean nothing. The call of the work must stand in the operator. */
static bool stands_in(const struct orr_timeline *timeline, const struct orr__kineto_operator *op,
                      const struct orr_timeline_command *command) {
    const struct orr_timeline_slice *slice = &timeline->slices[op->slice];
    return slice->host == command->host && slice->begin_ns <= command->enqueue_ns &&
           command->enqueue_ns < slice->end_ns;
}

/* Work without a call cannot be checked: its ids count if nearly all of the others are right. */
static enum orr_status follow(struct orr__kineto *k, struct orr_timeline *timeline,
                              const struct orr__index *index, bool linked, bool *ids_are_good,
                              size_t *op_capacity) {
    enum { WRONG_MAX = 20 }; /* one in so many */
    size_t right = 0, wrong = 0;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; status == ORR_OK && i < k->references_count; i++) {
        const struct orr__kineto_reference *reference = &k->references[i];
        struct orr_timeline_command *command = &timeline->commands[reference->command - 1];
        uint32_t item = find_operator(k, index, reference->external_id);
        if (item == ORR__INDEX_NONE || (command->call != 0) != linked)
            continue;
        bool good = !linked || stands_in(timeline, &k->operators[item], command);
        right += good;
        wrong += !good;
        if (good)
            status = orr__kineto_assign(k, timeline, op_capacity, item, command);
    }
    *ids_are_good = wrong <= right / WRONG_MAX;
    return status;
}

static enum orr_status resolve(struct orr__kineto *k, struct orr_timeline *timeline,
                               struct orr__index *index) {
    size_t capacity = 0;
    bool ids_are_good = false, unused;
    enum orr_status status = index_operators(k, timeline, index);
    if (status == ORR_OK)
        status = follow(k, timeline, index, true, &ids_are_good, &capacity);
    if (status == ORR_OK && ids_are_good)
        status = follow(k, timeline, index, false, &unused, &capacity);
    return status == ORR_OK ? orr__kineto_nest(k, timeline, &capacity) : status;
}

enum orr_status orr__kineto_resolve_operators(struct orr__kineto *k,
                                              struct orr_timeline *timeline) {
    struct orr__index index = {0};
    enum orr_status status = resolve(k, timeline, &index);
    orr__index_free(&index, k->memory);
    return status;
}
