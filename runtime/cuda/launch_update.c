/* Launchers of optimizers. What depends on attributes only is computed here, in f64, as
 * runtime/operators/update.c does it. */
#include <math.h>

#include "runtime/cuda/launch.h"

/* Operands in their places; results are those of `to`, -1 is none: to[i] is result places[i]. */
static enum orr_status launch(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                              struct orr__k_update *a, const int *places, struct orr_error *error) {
    enum orr__cuda_kernel kernel =
        call->inputs[0].dtype == ORR_DTYPE_F64 ? ORR__K_update_f64 : ORR__K_update_f32;
    a->count = orr_shape_count(&call->inputs[0].shape);
    for (int i = 0; i < 4; i++) {
        a->from[i] = i < call->input_count ? call->inputs[i].data : NULL;
        a->dtypes[i] = i < call->input_count ? (int32_t)call->inputs[i].dtype : 0;
        a->to[i] = places[i] >= 0 ? call->outputs[places[i]].data : NULL;
    }
    return orr__cuda_launch(queue, kernel, orr__cuda_grid(queue, (uint64_t)a->count),
                            ORR__CUDA_BLOCK, 0, a, error);
}

static enum orr_status launch_sgd(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, struct orr_error *error) {
    static const int places[4] = {0, -1, -1, -1};
    struct orr__k_update a = {
        .rule = ORR__UPDATE_SGD,
        .lr = orr__cuda_real(call, "lr"),
        .decay = orr__cuda_real(call, "weight_decay"),
    };
    return launch(queue, call, &a, places, error);
}

static enum orr_status launch_momentum(struct orr__cuda_queue *queue,
                                       const struct orr_task_operator *call,
                                       struct orr_error *error) {
    static const int places[4] = {0, -1, 1, -1};
    struct orr__k_update a = {
        .rule = ORR__UPDATE_MOMENTUM,
        .nesterov = orr__cuda_integer(call, "nesterov") != 0,
        .lr = orr__cuda_real(call, "lr"),
        .decay = orr__cuda_real(call, "weight_decay"),
        .beta1 = orr__cuda_real(call, "momentum"),
    };
    return launch(queue, call, &a, places, error);
}

static struct orr__k_update adamw_of(const struct orr_task_operator *call) {
    double lr = orr__cuda_real(call, "lr"), beta1 = orr__cuda_real(call, "beta1");
    double beta2 = orr__cuda_real(call, "beta2"), step = (double)orr__cuda_integer(call, "step");
    return (struct orr__k_update){
        .rule = ORR__UPDATE_ADAMW,
        .lr = lr,
        .decay = 1 - lr * orr__cuda_real(call, "weight_decay"),
        .beta1 = beta1,
        .beta2 = beta2,
        .rest1 = 1 - beta1,
        .rest2 = 1 - beta2,
        .up1 = 1 / (1 - pow(beta1, step)),
        .up2 = 1 / (1 - pow(beta2, step)),
        .eps = orr__cuda_real(call, "eps"),
    };
}

static enum orr_status launch_adamw(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    static const int places[4] = {0, -1, 1, 2};
    struct orr__k_update a = adamw_of(call);
    return launch(queue, call, &a, places, error);
}

static enum orr_status launch_master(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    static const int places[4] = {1, 0, 2, 3};
    struct orr__k_update a = adamw_of(call);
    return launch(queue, call, &a, places, error);
}

const struct orr__cuda_operator orr__cuda_update_operators[] = {
    {"sgd", launch_sgd},
    {"sgd_momentum", launch_momentum},
    {"adamw", launch_adamw},
    {"adamw_master", launch_master},
    {NULL, NULL},
};
