#include "runtime/operators/rows_internal.h"

#include <math.h>

enum { LANES = 16 };

/* Adds the lanes in pairs: 8, 4, 2, 1. */
static double add_lanes(double *lanes) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* Sum of an expression over x = row[i]. */
#define ROW_SUM(expression)                                                                        \
    double lanes[LANES] = {0};                                                                     \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= count; i += LANES)                                                         \
        for (int lane = 0; lane < LANES; lane++) {                                                 \
            double x = row[i + lane];                                                              \
            lanes[lane] += expression;                                                             \
        }                                                                                          \
    for (int lane = 0; i < count; i++, lane++) {                                                   \
        double x = row[i];                                                                         \
        lanes[lane] += expression;                                                                 \
    }                                                                                              \
    return add_lanes(lanes);

double orr__row_sum_f32(const float *row, int64_t count) {
    ROW_SUM(x)
}

double orr__row_sum_f64(const double *row, int64_t count) {
    ROW_SUM(x)
}

double orr__row_squares_f32(const float *row, int64_t count, double center) {
    ROW_SUM((x - center) * (x - center))
}

double orr__row_squares_f64(const double *row, int64_t count,
                            double center){ROW_SUM((x - center) * (x - center))}

#define ROW_MAX(name, type)                                                                        \
    type name(const type *row, int64_t count) {                                                    \
        type lanes[LANES];                                                                         \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            lanes[lane] = -(type)INFINITY;                                                         \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES)                                                     \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                type x = row[i + lane], y = lanes[lane];                                           \
                lanes[lane] = y != y || y > x ? y : x;                                             \
            }                                                                                      \
        for (; i < count; i++)                                                                     \
            lanes[0] = lanes[0] != lanes[0] || lanes[0] > row[i] ? lanes[0] : row[i];              \
        for (int lane = 1; lane < LANES; lane++)                                                   \
            lanes[0] = lanes[0] != lanes[0] || lanes[0] > lanes[lane] ? lanes[0] : lanes[lane];    \
        return lanes[0];                                                                           \
    }
ROW_MAX(orr__row_max_f32, float) ROW_MAX(orr__row_max_f64, double)

/* The largest element is subtracted first, so exp cannot overflow. A negative scale turns the
 * largest product into the smallest element's, so products are formed before the maximum. */
#define ROW_EXP(name, type, exponential, row_max, row_sum)                                         \
    double name(type *row, int64_t count, type scale) {                                            \
        if (scale != 1)                                                                            \
            for (int64_t i = 0; i < count; i++)                                                    \
                row[i] *= scale;                                                                   \
        type largest = row_max(row, count);                                                        \
        for (int64_t i = 0; i < count; i++)                                                        \
            row[i] = exponential(row[i] - largest);                                                \
        return row_sum(row, count);                                                                \
    }
    ROW_EXP(orr__row_exp_f32, float, expf, orr__row_max_f32, orr__row_sum_f32)
        ROW_EXP(orr__row_exp_f64, double, exp, orr__row_max_f64, orr__row_sum_f64)
