/* Kernels of norm.h. */
#include "device.h"

#include "runtime/cuda/kernels/bodies/index.h"
#include "runtime/cuda/kernels/fold.h"
#include "runtime/cuda/kernels/norm.h"

#define REAL       float
#define NAME(name) name##_f32
#define LOAD       load_f32
#define STORE      store_f32
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/norm.h"
#undef REAL
#undef NAME
#undef LOAD
#undef STORE

#define REAL       double
#define NAME(name) name##_f64
#define LOAD       load_f64
#define STORE      store_f64
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/norm.h"

KERNEL(norm_f32, struct orr__k_norm) {
    ORR__FOLD_NARROW(norm_rows_f32, a->rows.dtype);
}

KERNEL(norm_f64, struct orr__k_norm) {
    norm_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(norm_backward_f32, struct orr__k_norm_backward) {
    ORR__FOLD_NARROW(norm_backward_rows_f32, a->rows.dtype);
}

KERNEL(norm_backward_f64, struct orr__k_norm_backward) {
    norm_backward_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(norm_moments_f32, struct orr__k_norm_moments) {
    ORR__FOLD_NARROW(moments_rows_f32, a->rows.dtype);
}

KERNEL(norm_moments_f64, struct orr__k_norm_moments) {
    moments_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(norm_columns_f32, struct orr__k_norm_weight) {
    ORR__FOLD_NARROW(weight_columns_f32, a->rows.dtype);
}

KERNEL(norm_columns_f64, struct orr__k_norm_weight) {
    weight_columns_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(norm_places_f32, struct orr__k_norm_weight) {
    ORR__FOLD_NARROW(weight_places_f32, a->rows.dtype);
}

KERNEL(norm_places_f64, struct orr__k_norm_weight) {
    weight_places_f64(lane, a, ORR_DTYPE_F64);
}
