/* Kernels of quantize.h. Quotients are taken in f64: a code must not depend on how x / scale was
 * rounded on its way to it. */
#include "device.h"

#include "runtime/cuda/kernels/quantize.h"

DEVICE double largest_code(int code) {
    return code == ORR_DTYPE_I8 ? 127 : code == ORR_DTYPE_F8E4M3 ? 448 : 57344;
}

DEVICE void store_code(void *to, int code, int64_t i, double value) {
    if (code != ORR_DTYPE_I8)
        store_f64(to, code, i, value);
    else if (value != value)
        ((int8_t *)to)[i] = 0;
    else
        ((int8_t *)to)[i] = (int8_t)rint(fmin(fmax(value, -127.0), 127.0));
}

KERNEL(quantize, struct orr__k_quantize) {
    double *scratch = (double *)shared_memory(lane);
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        int64_t first = row * a->width;
        double most = 0;
        for (int64_t i = thread_index(lane); i < a->width; i += thread_count(lane)) {
            double value = fabs(load_f64(a->x, a->dtype, first + i));
            most = value > most || value != value ? value : most;
        }
        most = block_max_f64(lane, most, 0, scratch);
        float scale = (float)(most / largest_code(a->code));
        scale = scale == 0 ? 1 : scale;
        if (thread_index(lane) == 0)
            a->scales[row] = scale;
        for (int64_t i = thread_index(lane); i < a->width; i += thread_count(lane))
            store_code(a->q, a->code, first + i,
                       load_f64(a->x, a->dtype, first + i) / (double)scale);
    }
}

KERNEL(dequantize, struct orr__k_dequantize) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        double value = a->code == ORR_DTYPE_I8 ? (double)load_i64(a->q, a->code, i)
                                               : (double)load_f32(a->q, a->code, i);
        store_f64(a->y, a->dtype, i, a->scales ? value * (double)a->scales[i / a->width] : value);
    }
}
