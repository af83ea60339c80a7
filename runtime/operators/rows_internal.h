/* Arithmetic along one contiguous row, in f32 or f64, for the norms, attention and the loss.
 *
 * Sums are taken in f64, in 16 lanes that are added in a fixed order.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_ROWS_INTERNAL_H
#define ORR_RUNTIME_ROWS_INTERNAL_H

#include <stdint.h>

double orr__row_sum_f32(const float *row, int64_t count);
double orr__row_sum_f64(const double *row, int64_t count);

/* Sum of (x - center)^2. */
double orr__row_squares_f32(const float *row, int64_t count, double center);
double orr__row_squares_f64(const double *row, int64_t count, double center);

/* The largest element, NaN if there is a NaN, -infinity for an empty row. */
float orr__row_max_f32(const float *row, int64_t count);
double orr__row_max_f64(const double *row, int64_t count);

/* Replaces each element x by exp(x * scale - m), m = the row's largest x * scale; returns their
 * sum. */
double orr__row_exp_f32(float *row, int64_t count, float scale);
double orr__row_exp_f64(double *row, int64_t count, double scale);

#endif
