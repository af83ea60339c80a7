/* Kernels of experts.h. */
#include "device.h"

#include "runtime/cuda/kernels/bodies/index.h"
#include "runtime/cuda/kernels/experts.h"
#include "runtime/cuda/kernels/fold.h"

KERNEL(expert_keys, struct orr__k_expert_keys) {
    int64_t groups = a->gb * a->gs;
    for (int64_t i = first_index(lane); i < a->pairs; i += index_step(lane)) {
        int64_t expert = load_i64(a->indices, a->index_dtype, i);
        int64_t token = quotient(i, a->k), row = quotient(token, a->s), column = token - row * a->s;
        int64_t group = quotient(row, a->group_rows) * a->gs + quotient(column, a->group_columns);
        if (expert < 0 || expert >= a->experts) {
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, expert, a->experts);
            expert = a->experts;
            group = 0;
        }
        a->keys[i] = expert * groups + group;
    }
}

KERNEL(expert_slots, struct orr__k_expert_slots) {
    for (int64_t i = first_index(lane); i < a->pairs; i += index_step(lane)) {
        int64_t key = a->keys[i], row = -1;
        if (key < a->key_count && i - a->starts[key] < a->capacity)
            row = key * a->capacity + i - a->starts[key];
        a->slots[a->order[i]] = row;
    }
}

DEVICE void dispatch_rows(struct lane lane, const struct orr__k_expert_dispatch *a, int dtype) {
    for (int64_t row = block_index(lane); row < a->slots; row += block_count(lane)) {
        int64_t key = quotient(row, a->capacity), slot = row - key * a->capacity;
        int64_t at = a->starts[key] + slot, from = 0;
        bool taken = at < a->starts[key + 1];
        double weight = 0;
        if (taken) {
            from = quotient(a->order[at], a->k) * a->h;
            weight = a->weights ? load_f64(a->weights, dtype, a->order[at]) : 1;
        }
        for (int64_t i = thread_index(lane); i < a->h; i += thread_count(lane)) {
            double value = taken ? load_f64(a->x, dtype, from + i) * weight : 0;
            store_f64(a->to, dtype, row * a->h + i, value);
        }
    }
}

KERNEL(expert_dispatch, struct orr__k_expert_dispatch) {
    ORR__FOLD_FLOAT(dispatch_rows, a->dtype);
}

DEVICE void combine_rows(struct lane lane, const struct orr__k_expert_combine *a, int dtype) {
    for (int64_t token = block_index(lane); token < a->tokens; token += block_count(lane)) {
        for (int64_t i = thread_index(lane); i < a->h; i += thread_count(lane)) {
            double sum = 0;
            for (int64_t pair = token * a->k; pair < (token + 1) * a->k; pair++) {
                int64_t slot = a->slots[pair];
                double weight = a->weights ? load_f64(a->weights, dtype, pair) : 1;
                if (slot >= 0)
                    sum += weight * load_f64(a->y, dtype, slot * a->h + i);
            }
            store_f64(a->to, dtype, token * a->h + i, sum);
        }
    }
}

KERNEL(expert_combine, struct orr__k_expert_combine) {
    ORR__FOLD_FLOAT(combine_rows, a->dtype);
}

DEVICE void dot_pairs(struct lane lane, const struct orr__k_expert_dot *a, int dtype) {
    for (int64_t pair = block_index(lane); pair < a->pairs; pair += block_count(lane)) {
        int64_t token = quotient(pair, a->k), slot = a->slots[pair];
        double sum = 0;
        if (slot >= 0)
            for (int64_t i = thread_index(lane); i < a->h; i += thread_count(lane))
                sum += load_f64(a->x, dtype, token * a->h + i) *
                       load_f64(a->y, dtype, slot * a->h + i);
        sum = block_sum_f64(lane, sum, 0, (double *)shared_memory(lane));
        if (thread_index(lane) == 0)
            store_f64(a->to, dtype, pair, sum);
    }
}

KERNEL(expert_dot, struct orr__k_expert_dot) {
    ORR__FOLD_FLOAT(dot_pairs, a->dtype);
}

KERNEL(expert_load, struct orr__k_expert_load) {
    for (int64_t expert = block_index(lane); expert < a->experts; expert += block_count(lane)) {
        long long found = 0;
        for (int64_t i = thread_index(lane); i < a->count; i += thread_count(lane)) {
            int64_t index = load_i64(a->indices, a->index_dtype, i);
            if (index < 0 || index >= a->experts)
                fault_raise(lane, a->fault, ORR__FAULT_INDEX, index, a->experts);
            found += index == expert;
        }
        found = block_sum_i64(lane, found, 0, (long long *)shared_memory(lane));
        if (thread_index(lane) == 0)
            a->load[expert] = (float)found;
    }
}
