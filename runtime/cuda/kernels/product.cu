/* Kernels of product.h. */
#include "device.h"

#include "runtime/cuda/kernels/product.h"

KERNEL(product_integer, struct orr__k_product) {
    int64_t each = a->m * a->n;
    for (int64_t i = first_index(lane); i < a->batch * each; i += index_step(lane)) {
        int64_t batch = i / each, row = i % each / a->n, column = i % a->n;
        int64_t from_a = batch * a->stride_a + (a->transpose_a ? row : row * a->k);
        int64_t from_b = batch * a->stride_b + (a->transpose_b ? column * a->k : column);
        int64_t step_a = a->transpose_a ? a->m : 1, step_b = a->transpose_b ? 1 : a->n;
        uint64_t sum = 0;
        for (int64_t j = 0; j < a->k; j++)
            sum += (uint64_t)load_i64(a->a, a->dtype, from_a + j * step_a) *
                   (uint64_t)load_i64(a->b, a->dtype, from_b + j * step_b);
        int64_t to = batch * a->stride_c + i % each;
        if (a->dtype == ORR_DTYPE_I32)
            ((uint32_t *)a->c)[to] = (uint32_t)sum;
        else
            ((uint64_t *)a->c)[to] = sum;
    }
}

KERNEL(product_repeat, struct orr__k_repeat) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        int64_t from = i / a->inner % a->length;
        if (a->bytes == 2)
            ((uint16_t *)a->to)[i] = ((const uint16_t *)a->values)[from];
        else if (a->bytes == 4)
            ((uint32_t *)a->to)[i] = ((const uint32_t *)a->values)[from];
        else
            ((uint64_t *)a->to)[i] = ((const uint64_t *)a->values)[from];
    }
}

KERNEL(product_finish, struct orr__k_finish) {
    for (int64_t i = first_index(lane); i < a->rows * a->columns; i += index_step(lane)) {
        int64_t column = i % a->columns, to = i / a->columns * a->step + column;
        if (a->wide) {
            double value = ((const double *)a->from)[i];
            value = a->scale ? value * (double)a->scale[column] : value;
            value = a->bias ? value + load_f64(a->bias, a->dtype, column) : value;
            store_f64(a->to, a->dtype, to, value);
        } else {
            float value = ((const float *)a->from)[i];
            value = a->scale ? value * a->scale[column] : value;
            value = a->bias ? value + load_f32(a->bias, a->dtype, column) : value;
            store_f32(a->to, a->dtype, to, value);
        }
    }
}
