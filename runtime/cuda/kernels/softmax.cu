/* Kernels of softmax.h. */
#include "device.h"

#include "runtime/cuda/kernels/fold.h"
#include "runtime/cuda/kernels/softmax.h"

#define REAL       float
#define NAME(name) name##_f32
#define LOAD       load_f32
#define STORE      store_f32
#define EXP        expf
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/softmax.h"
#undef REAL
#undef NAME
#undef LOAD
#undef STORE
#undef EXP

#define REAL       double
#define NAME(name) name##_f64
#define LOAD       load_f64
#define STORE      store_f64
#define EXP        exp
#include "runtime/cuda/kernels/bodies/batch.h"
#include "runtime/cuda/kernels/bodies/softmax.h"

KERNEL(softmax_f32, struct orr__k_softmax) {
    ORR__FOLD_NARROW(softmax_rows_f32, a->dtype);
}

KERNEL(softmax_f64, struct orr__k_softmax) {
    softmax_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(softmax_backward_f32, struct orr__k_softmax_backward) {
    ORR__FOLD_NARROW(softmax_backward_rows_f32, a->dtype);
}

KERNEL(softmax_backward_f64, struct orr__k_softmax_backward) {
    softmax_backward_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(loss_f32, struct orr__k_loss) {
    ORR__FOLD_NARROW(loss_rows_f32, a->dtype);
}

KERNEL(loss_f64, struct orr__k_loss) {
    loss_rows_f64(lane, a, ORR_DTYPE_F64);
}

KERNEL(loss_backward_f32, struct orr__k_loss_backward) {
    ORR__FOLD_NARROW(loss_backward_rows_f32, a->dtype);
}

KERNEL(loss_backward_f64, struct orr__k_loss_backward) {
    loss_backward_rows_f64(lane, a, ORR_DTYPE_F64);
}
