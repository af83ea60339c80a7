/* Internal to analyzer/imported_cost*.c: one calculation, and the formulas by subject.
 *
 * A formula adds to `cost` and says with orr__formula_unknown when it can't. Sums and products that
 * do not fit say so by themselves.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_IMPORTED_COST_INTERNAL_H
#define ORR_ANALYZER_IMPORTED_COST_INTERNAL_H

#include "analyzer/imported_cost.h"
#include "analyzer/imported_inputs.h"
#include "runtime/cost.h"

struct orr__formula;

struct orr__calculation {
    const struct orr__inputs *inputs;
    const struct orr__formula *formula;
    bool in_place; /* the name ends in '_': the result is the first input */
    struct orr_imported_cost *cost;
};

struct orr__formula {
    const char *name; /* without "aten::", and without the '_' of the form in place */
    const char *kind;
    void (*add)(struct orr__calculation *c);
    int a, b; /* numbers that the function knows the meaning of */
};

/* The first reason stays. */
void orr__formula_unknown(struct orr__calculation *c, const char *why);
/* x * y, or "too large" and 0. */
uint64_t orr__formula_times(struct orr__calculation *c, uint64_t x, uint64_t y);
/* Adds x * y to a figure of the cost. */
void orr__formula_add(struct orr__calculation *c, uint64_t *figure, uint64_t x, uint64_t y);
/* The tensor at a place, whose type must be known; NULL after saying so if it isn't. */
const struct orr__input *orr__formula_tensor(struct orr__calculation *c, unsigned index);
/* Reads a tensor whole; as broadcast if it has fewer elements than `result` and is not the only
 * one. */
void orr__formula_read(struct orr__calculation *c, const struct orr__input *tensor,
                       uint64_t result);
/* Writes `count` elements. */
void orr__formula_write(struct orr__calculation *c, uint64_t count, struct orr__element element);

/* --- the formulas; a and b of each --- */

/* imported_products.c */
void orr__formula_mm(struct orr__calculation *c); /* a: place of the first matrix; the bias, if a >
                                                    * 0, is before it; b: rank, 2 or 3 */
void orr__formula_linear(struct orr__calculation *c);               /* x[.., k], w[n, k], bias */
void orr__formula_matmul(struct orr__calculation *c);               /* of any ranks */
void orr__formula_convolution(struct orr__calculation *c);          /* a: enum orr__conv_order */
void orr__formula_convolution_backward(struct orr__calculation *c); /* aten::convolution_backward */

/* Places of stride, padding, dilation, transposed, groups; b: place of the bias or 0. */
enum orr__conv_order {
    ORR__CONV_PLAIN,  /* x w bias stride padding dilation groups */
    ORR__CONV_FULL,   /* x w bias stride padding dilation transposed output_padding groups */
    ORR__CONV_CUDNN,  /* x w padding stride dilation groups */
    ORR__CONV_MIOPEN, /* x w bias padding stride dilation groups */
};

/* imported_attention.c: a: place of q; b: place of is_causal */
void orr__formula_attention_bshd(struct orr__calculation *c);          /* q[b, s, h, d] */
void orr__formula_attention_bhsd(struct orr__calculation *c);          /* q[b, h, s, d] */
void orr__formula_attention_backward_bshd(struct orr__calculation *c); /* grad q k v out .. */
void orr__formula_attention_backward_bhsd(struct orr__calculation *c);

/* imported_elements.c */
void orr__formula_elements(struct orr__calculation *c);   /* a: inputs; b: FLOPs an element */
void orr__formula_compare(struct orr__calculation *c);    /* likewise; the result is bool */
void orr__formula_add_scaled(struct orr__calculation *c); /* add, sub: x, y, alpha */
void orr__formula_gelu(struct orr__calculation *c);       /* a: place of "approximate"; b: inputs */
void orr__formula_where(struct orr__calculation *c);      /* condition, x, y */
void orr__formula_masked_fill(struct orr__calculation *c);
void orr__formula_dropout(struct orr__calculation *c); /* native_dropout: result and mask */
void orr__formula_copy(struct orr__calculation *c);    /* copy_: to, from */
void orr__formula_fill(struct orr__calculation *c);
void orr__formula_cat(struct orr__calculation *c);

/* imported_rows.c */
void orr__formula_reduction(struct orr__calculation *c); /* a: enum orr__reduction */
void orr__formula_scan(struct orr__calculation *c);      /* cumsum */
void orr__formula_softmax(struct orr__calculation *c);
void orr__formula_softmax_backward(struct orr__calculation *c);
void orr__formula_norm(
    struct orr__calculation *c); /* a: FLOPs an element without weight and bias; b:
                                                  * numbers kept for the backward in each row */
void orr__formula_norm_backward(struct orr__calculation *c); /* native_layer_norm_backward */
void orr__formula_batch_norm(struct orr__calculation *c);
void orr__formula_embedding(struct orr__calculation *c);
void orr__formula_index_select(struct orr__calculation *c);
void orr__formula_gather(struct orr__calculation *c);

enum orr__reduction {
    ORR__REDUCE_SUM,   /* integers are summed in i64; x, dim, keepdim, dtype, or x, dtype */
    ORR__REDUCE_MEAN,  /* likewise, floats alone */
    ORR__REDUCE_SAME,  /* amax: x, dim, keepdim */
    ORR__REDUCE_BOOL,  /* any: x, or x, dim, keepdim */
    ORR__REDUCE_INDEX, /* argmax: i64 */
    ORR__REDUCE_BOTH   /* max: x alone, or x, dim, keepdim: values and i64 */
};

#endif
