/* What broadcasting and reductions need on the way back.
 *
 *     unbroadcast    x    dims leading=0: the sum over the dimensions `dims`, which stay with size
 *                    1, but for the first `leading` ones, which go away: the gradient of an operand
 *                    that broadcast from that shape
 *     expand         x    shape dims=[] shards=[]: x repeated along the dimensions `dims` of
 *                    `shape`, which it lacks or has with size 1: the gradient of a sum over them.
 *                    `shards` names for each mesh axis the repeated dimension that the result is to
 *                    be cut along, or -1: every rank then makes its own piece
 *     max_backward   grad, x    dim=ORR_DIM_ALL keepdim=false: grad where x has its first largest
 *                    element (as argmax), zeros elsewhere
 *
 * Sums are taken in f64 in the order of memory and rounded once.
 *
 * Cost. unbroadcast: an addition for each element of x, as sum. max_backward: a comparison for each
 * element of x, as max. expand: none. Bytes: operands once, the result once. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

enum { PIECE = 512 }; /* elements converted at a time */

/* Dimensions named by a list, as bits; false if one is not in 0 .. rank - 1 or is there twice. */
static bool dim_set(const struct orr_shape *list, int rank, unsigned *out_set) {
    *out_set = 0;
    if (list->rank < 0 || list->rank > rank)
        return false;
    for (int i = 0; i < list->rank; i++) {
        if (list->dims[i] < 0 || list->dims[i] >= rank || *out_set >> list->dims[i] & 1u)
            return false;
        *out_set |= 1u << list->dims[i];
    }
    return true;
}

static enum orr_status refuse_dims(const struct orr_operator *op,
                                   const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_shape *list, int rank,
                                   struct orr_error *error) {
    char text[ORR_SHAPE_TEXT_MAX] = "too long";
    if (list->rank >= 0 && list->rank <= ORR_RANK_MAX)
        orr_shape_text(list, text);
    return orr__refuse(op, inputs, input_count, error, "dims %s are not some of the %d dimensions",
                       text, rank);
}

/* ---- unbroadcast ---- */

enum { UNBROADCAST_DIMS, UNBROADCAST_LEADING };

static enum orr_status infer_unbroadcast(const struct orr_operand_info *inputs, int input_count,
                                         const struct orr_attributes *attributes,
                                         struct orr_operand_info *out_outputs,
                                         struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_unbroadcast;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *x = &inputs[0].shape;
    const struct orr_shape *dims = &attributes->values[UNBROADCAST_DIMS].shape;
    int64_t leading = attributes->values[UNBROADCAST_LEADING].integer;
    unsigned set;
    if (!dim_set(dims, x->rank, &set))
        return refuse_dims(op, inputs, input_count, dims, x->rank, error);
    if (leading < 0 || leading > x->rank || (set & ((1u << leading) - 1)) != (1u << leading) - 1)
        return orr__refuse(op, inputs, input_count, error,
                           "the first %" PRId64 " dimensions are not all among dims", leading);
    struct orr_operand_info result = {.dtype = inputs[0].dtype};
    for (int i = (int)leading; i < x->rank; i++)
        result.shape.dims[result.shape.rank++] = set >> i & 1u ? 1 : x->dims[i];
    out_outputs[0] = result;
    return ORR_OK;
}

/* Strides of the result over x's dimensions, 0 where it is summed. */
static struct orr__strided sums_over(const struct orr_shape *x,
                                     const struct orr_attributes *attributes) {
    unsigned set = 0;
    (void)dim_set(&attributes->values[UNBROADCAST_DIMS].shape, x->rank, &set);
    struct orr__strided array = {.rank = x->rank};
    int64_t stride = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        array.dims[i] = x->dims[i];
        array.strides[i] = set >> i & 1u ? 0 : stride;
        stride *= set >> i & 1u ? 1 : x->dims[i];
    }
    orr__strided_merge(&array);
    return array;
}

/* Adds a run of x, which lies along one dimension, to the sums. */
static void add_run(const struct orr_tensor_view *x, int64_t first, int64_t count, double *sums,
                    bool spread) {
    size_t size = orr_dtype_size(x->dtype);
    for (int64_t done = 0; done < count; done += PIECE) {
        double values[PIECE], sum = 0;
        int64_t piece = count - done < PIECE ? count - done : PIECE;
        orr_dtype_convert(ORR_DTYPE_F64, values, x->dtype,
                          (const char *)x->data + (size_t)(first + done) * size, (size_t)piece);
        for (int64_t i = 0; spread && i < piece; i++)
            sums[done + i] += values[i];
        for (int64_t i = 0; !spread && i < piece; i++)
            sum += values[i];
        if (!spread)
            sums[0] += sum;
    }
}

static enum orr_status compute_unbroadcast(const struct orr_tensor_view *inputs, int input_count,
                                           const struct orr_attributes *attributes,
                                           const struct orr_tensor_view *outputs,
                                           const struct orr_memory *memory,
                                           struct orr_error *error) {
    (void)input_count;
    int64_t results = orr_shape_count(&outputs[0].shape), total = orr_shape_count(&inputs[0].shape);
    if (results == 0)
        return ORR_OK;
    size_t bytes = (size_t)results * sizeof(double);
    double *sums = orr_memory_resize(memory, NULL, bytes);
    if (!sums)
        return orr__no_scratch(&orr__operator_unbroadcast, bytes, error);
    memset(sums, 0, bytes);
    struct orr__strided array = sums_over(&inputs[0].shape, attributes);
    int64_t run = array.rank ? array.dims[array.rank - 1] : 1, at[ORR_RANK_MAX];
    bool spread = array.rank == 0 || array.strides[array.rank - 1] != 0;
    for (int64_t first = 0; first < total; first += run)
        add_run(&inputs[0], first, run, sums + orr__strided_seek(&array, first, at), spread);
    orr_dtype_convert(outputs[0].dtype, outputs[0].data, ORR_DTYPE_F64, sums, (size_t)results);
    orr_memory_free(memory, sums);
    return ORR_OK;
}

static const char *const one_name[] = {"x"};
static const struct orr_attribute_spec unbroadcast_attributes[] = {
    [UNBROADCAST_DIMS] = {.name = "dims", .kind = ORR_ATTRIBUTE_SHAPE, .required = true},
    [UNBROADCAST_LEADING] = {.name = "leading", .kind = ORR_ATTRIBUTE_INT},
    {.name = NULL},
};

const struct orr_operator orr__operator_unbroadcast = {
    .name = "unbroadcast",
    .class = ORR_OPERATOR_REDUCTION,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = unbroadcast_attributes,
    .infer = infer_unbroadcast,
    .cost = orr__cost_reduce,
    .compute = compute_unbroadcast,
};

/* ---- expand ---- */

enum { EXPAND_SHAPE, EXPAND_DIMS, EXPAND_SHARDS };

/* x's dimension behind each dimension of the result, -1 where it is repeated and x lacks it; false
 * if the shapes don't fit. */
static bool map_dims(const struct orr_shape *x, const struct orr_shape *shape, unsigned repeated,
                     int *out_dims) {
    bool keeps = x->rank == shape->rank;
    int next = 0;
    for (int i = 0; i < shape->rank; i++) {
        bool repeats = repeated >> i & 1u;
        out_dims[i] = repeats && !keeps ? -1 : next++;
        if (out_dims[i] >= x->rank)
            return false;
        if (out_dims[i] >= 0 && x->dims[out_dims[i]] != (repeats ? 1 : shape->dims[i]))
            return false;
    }
    return next == x->rank;
}

static enum orr_status infer_expand(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_expand;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    if (status != ORR_OK)
        return status;
    const struct orr_shape *shape = &attributes->values[EXPAND_SHAPE].shape;
    const struct orr_shape *dims = &attributes->values[EXPAND_DIMS].shape;
    struct orr_operand_info result = {.dtype = inputs[0].dtype, .shape = *shape};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status != ORR_OK)
        return status;
    unsigned set;
    int map[ORR_RANK_MAX];
    if (!dim_set(dims, shape->rank, &set))
        return refuse_dims(op, inputs, input_count, dims, shape->rank, error);
    if (!map_dims(&inputs[0].shape, shape, set, map)) {
        char text[ORR_SHAPE_TEXT_MAX], list[ORR_SHAPE_TEXT_MAX];
        return orr__refuse(op, inputs, input_count, error,
                           "x repeated along dimensions %s does not have shape %s",
                           orr_shape_text(dims, list), orr_shape_text(shape, text));
    }
    out_outputs[0] = result;
    return ORR_OK;
}

static struct orr_cost cost_expand(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    struct orr_cost cost = {.bytes_written = orr__bytes(&outputs[0]), .unit = ORR_UNIT_VECTOR};
    orr__charge_operand(&cost, &inputs[0], &outputs[0]);
    return cost;
}

/* `count` copies of an element. */
static void repeat(char *to, const char *element, size_t size, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        memcpy(to + (size_t)i * size, element, size);
}

static enum orr_status compute_expand(const struct orr_tensor_view *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs,
                                      const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    const struct orr_shape *x = &inputs[0].shape, *shape = &outputs[0].shape;
    int64_t total = orr_shape_count(shape), dense[ORR_RANK_MAX], at[ORR_RANK_MAX];
    unsigned set = 0;
    int map[ORR_RANK_MAX];
    (void)dim_set(&attributes->values[EXPAND_DIMS].shape, shape->rank, &set);
    (void)map_dims(x, shape, set, map);
    orr__dense_strides(x, dense);
    struct orr__strided array = {.rank = shape->rank};
    for (int i = 0; i < shape->rank; i++) {
        array.dims[i] = shape->dims[i];
        array.strides[i] = set >> i & 1u ? 0 : dense[map[i]];
    }
    orr__strided_merge(&array);
    size_t size = orr_dtype_size(inputs[0].dtype);
    int64_t run = array.rank ? array.dims[array.rank - 1] : 1;
    bool copies = array.rank == 0 || array.strides[array.rank - 1] != 0;
    for (int64_t first = 0; first < total; first += run) {
        char *to = (char *)outputs[0].data + (size_t)first * size;
        const char *from =
            (const char *)inputs[0].data + (size_t)orr__strided_seek(&array, first, at) * size;
        if (copies)
            memcpy(to, from, (size_t)run * size);
        else
            repeat(to, from, size, run);
    }
    return ORR_OK;
}

static const struct orr_attribute_spec expand_attributes[] = {
    [EXPAND_SHAPE] = {.name = "shape",
                      .kind = ORR_ATTRIBUTE_SHAPE,
                      .required = true,
                      .local = ORR_LOCAL_PIECE,
                      .of = ORR_OF_RESULT},
    [EXPAND_DIMS] = {.name = "dims", .kind = ORR_ATTRIBUTE_SHAPE},
    [EXPAND_SHARDS] = {.name = "shards", .kind = ORR_ATTRIBUTE_SHAPE},
    {.name = NULL},
};

const struct orr_operator orr__operator_expand = {
    .name = "expand",
    .class = ORR_OPERATOR_MOVE,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = one_name,
    .attributes = expand_attributes,
    .infer = infer_expand,
    .cost = cost_expand,
    .compute = compute_expand,
};

/* ---- max_backward ---- */

static enum orr_status infer_max(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_max_backward;
    enum orr_status status = orr__check_same_dtype(op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    struct orr_error detail = {0};
    struct orr_operand_info result;
    if (orr__operator_max.infer(&inputs[1], 1, attributes, &result, &detail) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error, "%s", detail.text);
    if (!orr_shape_equal(&inputs[0].shape, &result.shape)) {
        char text[ORR_SHAPE_TEXT_MAX];
        return orr__refuse(op, inputs, input_count, error, "expected grad of shape %s",
                           orr_shape_text(&result.shape, text));
    }
    out_outputs[0] = inputs[1];
    return ORR_OK;
}

static struct orr_cost cost_max(const struct orr_operand_info *inputs, int input_count,
                                const struct orr_attributes *attributes,
                                const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    struct orr_cost cost = {
        .flops = (uint64_t)orr_shape_count(&inputs[1].shape),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    orr__charge_operand(&cost, &inputs[0], &outputs[0]);
    orr__charge_operand(&cost, &inputs[1], &outputs[0]);
    return cost;
}

/* Where the first largest of n elements `stride` apart is; a NaN is the largest. */
static int64_t first_largest(const struct orr_tensor_view *x, int64_t first, int64_t n,
                             int64_t stride) {
    int64_t found = first;
    double largest = orr_dtype_load(x->dtype, x->data, (size_t)first);
    for (int64_t i = 1; i < n && largest == largest; i++) {
        double value = orr_dtype_load(x->dtype, x->data, (size_t)(first + i * stride));
        if (value > largest || value != value) {
            largest = value;
            found = first + i * stride;
        }
    }
    return found;
}

static enum orr_status compute_max(const struct orr_tensor_view *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_tensor_view *outputs,
                                   const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)memory;
    (void)error;
    const struct orr_shape *x = &inputs[1].shape;
    int64_t dim = attributes->values[0].integer, outer = 1, n = orr_shape_count(x), inner = 1;
    size_t size = orr_dtype_size(inputs[1].dtype);
    memset(outputs[0].data, 0, (size_t)n * size);
    if (n == 0)
        return ORR_OK;
    if (dim != ORR_DIM_ALL) {
        int at = (int)(dim < 0 ? dim + x->rank : dim);
        outer = orr__dims_product(x, 0, at);
        n = x->dims[at];
        inner = orr__dims_product(x, at + 1, x->rank);
    }
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < inner; j++) {
            int64_t at = first_largest(&inputs[1], i * n * inner + j, n, inner);
            memcpy((char *)outputs[0].data + (size_t)at * size,
                   (const char *)inputs[0].data + (size_t)(i * inner + j) * size, size);
        }
    return ORR_OK;
}

static const char *const max_names[] = {"grad", "x"};
static const struct orr_attribute_spec max_attributes[] = {
    {.name = "dim", .kind = ORR_ATTRIBUTE_INT, .integer = ORR_DIM_ALL},
    {.name = "keepdim", .kind = ORR_ATTRIBUTE_BOOL},
    {.name = NULL},
};

const struct orr_operator orr__operator_max_backward = {
    .name = "max_backward",
    .class = ORR_OPERATOR_REDUCTION,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .input_names = max_names,
    .attributes = max_attributes,
    .infer = infer_max,
    .cost = cost_max,
    .compute = compute_max,
};
