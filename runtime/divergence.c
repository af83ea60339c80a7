#include "runtime/divergence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    AHEAD = 512, /* operators that one run may have alone, one after the other */
    STEPS = 48,  /* operators of both together that are skipped to get in step again */
    STEADY = 8   /* operators in a row that agree when they are */
};

/* Operators of a run, without redistributions. */
struct side {
    const struct orr_recording *recording;
    uint32_t *calls;
    uint32_t count;
};

/* What makes two operators the same one. */
enum match { MATCH_SITE, MATCH_NAME };

static const struct orr_recorded_call *call_of(const struct side *side, uint32_t index) {
    return orr_recording_call(side->recording, side->calls[index]);
}

static bool same_name(const struct side *a, uint32_t i, const struct side *b, uint32_t k) {
    return strcmp(call_of(a, i)->op, call_of(b, k)->op) == 0;
}

static bool same(const struct side *a, uint32_t i, const struct side *b, uint32_t k,
                 enum match match) {
    return same_name(a, i, b, k) &&
           (match == MATCH_NAME || strcmp(call_of(a, i)->site, call_of(b, k)->site) == 0);
}

static enum orr_status open_side(struct side *side, const struct orr_recording *recording,
                                 const struct orr_memory *memory) {
    uint32_t count = orr_recording_call_count(recording);
    *side = (struct side){.recording = recording};
    side->calls = orr_memory_alloc(memory, (count + 1) * sizeof *side->calls);
    if (!side->calls) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (orr_recording_call(recording, i)->row) {
            side->calls[side->count++] = i;
        }
    }
    return ORR_OK;
}

/* --- matching --- */

/* How many of each to skip to the next pair that matches: the fewest together. */
static bool find_next(const struct side *a, uint32_t i, const struct side *b, uint32_t k,
                      enum match match, uint32_t *out_a, uint32_t *out_b) {
    for (uint32_t sum = 0; sum <= AHEAD; sum++) {
        for (uint32_t skip = 0; skip <= sum; skip++) {
            uint32_t x = i + skip, y = k + sum - skip;
            if (x < a->count && y < b->count && same(a, x, b, y, match)) {
                *out_a = x;
                *out_b = y;
                return true;
            }
        }
    }
    return false;
}

static bool called_alike(const struct side *a, const struct side *b) {
    bool alike = a->count == b->count;
    for (uint32_t i = 0; alike && i < a->count; i++) {
        alike = same_name(a, i, b, i);
    }
    return alike;
}

/* By lines, unless most operators of the shorter run have none in common. */
static enum match choose(const struct side *a, const struct side *b) {
    uint32_t x = 0, y = 0, matched = 0;
    if (called_alike(a, b)) {
        return MATCH_NAME;
    }
    while (find_next(a, x, b, y, MATCH_SITE, &x, &y)) {
        matched++;
        x++;
        y++;
    }
    return matched * 2 >= (a->count < b->count ? a->count : b->count) ? MATCH_SITE : MATCH_NAME;
}

/* --- comparing --- */

static double magnitude_of(const struct orr_recorded_value *value, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(orr_dtype_load(value->info.dtype, value->data, (size_t)i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

static double between(double x, double y) {
    if (x == y || (isnan(x) && isnan(y))) {
        return 0;
    }
    double difference = fabs(x - y);
    return isnan(difference) ? (double)INFINITY : difference;
}

static void compare_elements(struct orr_difference *d) {
    int64_t count = orr_shape_count(&d->a->info.shape);
    d->magnitude = fmax(magnitude_of(d->a, count), magnitude_of(d->b, count));
    for (int64_t i = 0; i < count; i++) {
        double x = orr_dtype_load(d->a->info.dtype, d->a->data, (size_t)i);
        double y = orr_dtype_load(d->b->info.dtype, d->b->data, (size_t)i);
        double difference = between(x, y);
        if (difference > d->largest || i == 0) {
            d->largest = difference;
            d->worst = i;
            d->value_a = x;
            d->value_b = y;
        }
    }
}

/* The operator that made it, however often it moved since; NULL: it was there before. */
static const struct orr_recorded_call *maker_of(const struct side *side,
                                                const struct orr_recorded_value *value) {
    while (value->maker >= 0) {
        const struct orr_recorded_call *maker =
            orr_recording_call(side->recording, (uint32_t)value->maker);
        if (maker->row) {
            return maker;
        }
        value = orr_recording_value(side->recording, maker->inputs[0]);
    }
    return NULL;
}

static struct orr_difference compare(const struct side *a, uint32_t value_a, const struct side *b,
                                     uint32_t value_b) {
    struct orr_difference d = {.a = orr_recording_value(a->recording, value_a),
                               .b = orr_recording_value(b->recording, value_b)};
    d.maker_a = maker_of(a, d.a);
    d.maker_b = maker_of(b, d.b);
    d.shapes_differ = !orr_shape_equal(&d.a->info.shape, &d.b->info.shape);
    if (!d.shapes_differ) {
        compare_elements(&d);
    }
    return d;
}

static bool parts(const struct orr_difference *d, double tolerance) {
    return d->shapes_differ || d->largest > tolerance * d->magnitude;
}

static void fill_inputs(struct orr_divergence *out, const struct side *a, const struct side *b,
                        const struct orr_recorded_call *x, const struct orr_recorded_call *y) {
    out->input_count = x->input_count < y->input_count ? x->input_count : y->input_count;
    for (int i = 0; i < out->input_count; i++) {
        out->inputs[i] = compare(a, x->inputs[i], b, y->inputs[i]);
        out->input_names[i] = x->row->input_names[i];
    }
}

/* The pair's first result that parts. */
static bool compare_pair(struct orr_divergence *out, const struct side *a, uint32_t i,
                         const struct side *b, uint32_t k) {
    const struct orr_recorded_call *x = call_of(a, i), *y = call_of(b, k);
    out->compared++;
    for (int n = 0; n < x->output_count && n < y->output_count; n++) {
        out->result = compare(a, x->outputs[n], b, y->outputs[n]);
        if (parts(&out->result, out->tolerance)) {
            out->parts = true;
            out->call_a = x;
            out->call_b = y;
            out->index_a = i;
            out->index_b = k;
            out->output = n;
            fill_inputs(out, a, b, x, y);
            return true;
        }
    }
    return false;
}

/* Do the operands agree, as far as both have them? */
static bool inputs_agree(const struct orr_divergence *d) {
    for (int i = 0; i < d->input_count; i++) {
        if (parts(&d->inputs[i], d->tolerance)) {
            return false;
        }
    }
    return true;
}

static bool results_agree(const struct side *a, uint32_t i, const struct side *b, uint32_t k,
                          double tolerance) {
    struct orr_difference d = compare(a, call_of(a, i)->outputs[0], b, call_of(b, k)->outputs[0]);
    return !parts(&d, tolerance);
}

/* The nearest pair behind this one that matches and agrees: the runs may be out of step. */
static bool find_step(const struct side *a, uint32_t i, const struct side *b, uint32_t k,
                      enum match match, double tolerance, uint32_t *out_a, uint32_t *out_b) {
    for (uint32_t sum = 1; sum <= STEPS; sum++) {
        for (uint32_t skip = 0; skip <= sum; skip++) {
            uint32_t x = i + skip, y = k + sum - skip;
            if (x < a->count && y < b->count && same(a, x, b, y, match) &&
                results_agree(a, x, b, y, tolerance)) {
                *out_a = x;
                *out_b = y;
                return true;
            }
        }
    }
    return false;
}

/* A pair that parts although its operands agree is what is looked for. One whose operands differ
 * already may be two operators that only look alike: it is forgotten if the runs get in step behind
 * it, and else the answer if there is no better one. */
static void walk(struct orr_divergence *out, const struct side *a, const struct side *b) {
    enum match match = choose(a, b);
    struct orr_divergence suspect = {.parts = false};
    uint32_t i = 0, k = 0, x, y, steady = 0;
    while (find_next(a, i, b, k, match, &x, &y)) {
        out->only_a += x - i;
        out->only_b += y - k;
        i = x + 1;
        k = y + 1;
        if (!compare_pair(out, a, x, b, y)) {
            steady += call_of(a, x)->input_count > 0;
            suspect.parts = suspect.parts && steady < STEADY;
            continue;
        }
        steady = 0;
        if (inputs_agree(out)) {
            return;
        }
        if (!suspect.parts) {
            suspect = *out;
        }
        out->parts = false;
        if (find_step(a, x, b, y, match, out->tolerance, &i, &k)) {
            out->only_a += i - x;
            out->only_b += k - y;
        }
    }
    out->only_a += a->count - i;
    out->only_b += b->count - k;
    if (suspect.parts) {
        *out = suspect;
    }
}

enum orr_status orr_divergence_find(const struct orr_recording *a, const struct orr_recording *b,
                                    double tolerance, const struct orr_memory *memory,
                                    struct orr_divergence *out_divergence,
                                    struct orr_error *error) {
    struct side one = {0}, two = {0};
    *out_divergence = (struct orr_divergence){.tolerance = tolerance};
    if (!orr_recording_is_good(a) || !orr_recording_is_good(b)) {
        return orr_error_set(error, ORR_INVALID,
                             "two runs are compared once their recordings have ended well");
    }
    enum orr_status status = open_side(&one, a, memory);
    if (status == ORR_OK) {
        status = open_side(&two, b, memory);
    }
    if (status == ORR_OK) {
        walk(out_divergence, &one, &two);
    } else {
        (void)orr_error_set(error, status, "out of memory for comparing two runs");
    }
    orr_memory_free(memory, one.calls);
    orr_memory_free(memory, two.calls);
    return status;
}

/* --- text --- */

struct writer {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(w->at, w->left, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < w->left ? (size_t)length : w->left - 1;
    w->at += used;
    w->left -= used;
}

/* "[1, 3]": the position of an element. */
static void put_position(struct writer *w, const struct orr_shape *shape, int64_t index) {
    struct orr_shape position = *shape;
    char text[ORR_SHAPE_TEXT_MAX];
    for (int i = shape->rank - 1; i >= 0; i--) {
        position.dims[i] = index % shape->dims[i];
        index /= shape->dims[i];
    }
    put(w, "%s", orr_shape_text(&position, text));
}

static void put_tensor(struct writer *w, const struct orr_recorded_value *value) {
    char text[ORR_SHAPE_TEXT_MAX];
    put(w, "%s %s %s", orr_dtype_name(value->info.dtype), orr_shape_text(&value->info.shape, text),
        value->place);
}

static void put_share(struct writer *w, const struct orr_difference *d) {
    put(w, "%.3g", d->largest);
    if (d->magnitude > 0 && isfinite(d->largest)) {
        put(w, " (%.2g of the largest magnitude)", d->largest / d->magnitude);
    }
}

static const char *site_of(const struct orr_recorded_call *call) {
    return call->site[0] ? call->site : "an unknown line";
}

static void put_attribute(struct writer *w, enum orr_attribute_kind kind,
                          const struct orr_attribute *value) {
    char text[ORR_SHAPE_TEXT_MAX];
    switch (kind) {
    case ORR_ATTRIBUTE_INT: put(w, "%lld", (long long)value->integer); break;
    case ORR_ATTRIBUTE_BOOL: put(w, value->integer ? "true" : "false"); break;
    case ORR_ATTRIBUTE_REAL: put(w, "%.9g", value->real); break;
    case ORR_ATTRIBUTE_DTYPE: put(w, "%s", orr_dtype_name((enum orr_dtype)value->integer)); break;
    case ORR_ATTRIBUTE_SHAPE: put(w, "%s", orr_shape_text(&value->shape, text)); break;
    }
}

static bool same_attribute(const struct orr_attribute *x, const struct orr_attribute *y) {
    return x->integer == y->integer && x->real == y->real && orr_shape_equal(&x->shape, &y->shape);
}

/* Both call the same operator, perhaps not in the same way. */
static void put_attributes(struct writer *w, const struct orr_divergence *d) {
    const struct orr_attribute_spec *specs = d->call_a->row->attributes;
    for (int i = 0; i < ORR_ATTRIBUTES_MAX && specs[i].name; i++) {
        const struct orr_attribute *x = &d->call_a->attributes.values[i];
        const struct orr_attribute *y = &d->call_b->attributes.values[i];
        if (!same_attribute(x, y)) {
            put(w, "  attribute %s is not the same: ", specs[i].name);
            put_attribute(w, specs[i].kind, x);
            put(w, " and ");
            put_attribute(w, specs[i].kind, y);
            put(w, "\n");
        }
    }
}

static void put_maker(struct writer *w, const struct orr_recorded_call *maker) {
    if (maker) {
        put(w, "%s at %s", maker->op, site_of(maker));
    } else {
        put(w, "what came before");
    }
}

static void put_input(struct writer *w, const struct orr_divergence *d, int index,
                      const char *name_a, const char *name_b) {
    const struct orr_difference *input = &d->inputs[index];
    bool differs = parts(input, d->tolerance);
    put(w, "  %s ", d->input_names[index]);
    if (input->shapes_differ) {
        put(w, "has another shape already");
    } else if (input->largest == 0) {
        put(w, "is equal");
    } else {
        put(w, differs ? "differs already, by " : "agrees, within ");
        put_share(w, input);
    }
    put(w, "; %s: ", name_a);
    put_tensor(w, input->a);
    put(w, ", %s: ", name_b);
    put_tensor(w, input->b);
    if (differs) {
        put(w, "; made by ");
        put_maker(w, input->maker_a);
        put(w, " and by ");
        put_maker(w, input->maker_b);
    }
    put(w, "\n");
}

static void put_result(struct writer *w, const struct orr_divergence *d, const char *name_a,
                       const char *name_b) {
    const struct orr_difference *result = &d->result;
    put(w, "  %s: ", name_a);
    put_tensor(w, result->a);
    put(w, " at %s\n  %s: ", site_of(d->call_a), name_b);
    put_tensor(w, result->b);
    put(w, " at %s\n", site_of(d->call_b));
    if (!result->shapes_differ) {
        put(w, "  they differ by up to ");
        put_share(w, result);
        put(w, ", most at ");
        put_position(w, &result->a->info.shape, result->worst);
        put(w, ": %.9g and %.9g\n", result->value_a, result->value_b);
    }
}

const char *orr_divergence_text(const struct orr_divergence *d, const char *name_a,
                                const char *name_b, char *buffer, size_t size) {
    struct writer w = {buffer, size};
    put(&w, "%u operators compared within %g", (unsigned)d->compared, d->tolerance);
    if (d->only_a + d->only_b > 0) {
        put(&w, "; without a counterpart: %u of %s, %u of %s", (unsigned)d->only_a, name_a,
            (unsigned)d->only_b, name_b);
    }
    if (!d->parts) {
        put(&w, ": they agree\n");
        return buffer;
    }
    put(&w, "; the first that parts is operator %u, %s, result %d\n", (unsigned)d->index_a,
        d->call_a->op, d->output);
    put_result(&w, d, name_a, name_b);
    put_attributes(&w, d);
    for (int i = 0; i < d->input_count; i++) {
        put_input(&w, d, i, name_a, name_b);
    }
    return buffer;
}
