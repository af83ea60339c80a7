#include "analyzer/imported_inputs.h"

#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static struct orr__element element_of(const char *word, size_t length) {
    static const struct {
        const char *name;
        struct orr__element element;
    } elements[] = {
        {"f32", {4, ORR_DTYPE_F32, true, false}},
        {"bf16", {2, ORR_DTYPE_BF16, true, false}},
        {"f16", {2, ORR_DTYPE_F16, true, false}},
        {"f64", {8, ORR_DTYPE_F64, true, false}},
        {"i64", {8, ORR_DTYPE_I64, false, true}},
        {"i32", {4, ORR_DTYPE_I32, false, true}},
        {"bool", {1, ORR_DTYPE_BOOL, false, false}},
        {"i16", {2, ORR_DTYPE_NONE, false, true}},
        {"i8", {1, ORR_DTYPE_I8, false, true}},
        {"u8", {1, ORR_DTYPE_NONE, false, true}},
        {"f8e4m3", {1, ORR_DTYPE_F8E4M3, true, false}},
        {"f8e5m2", {1, ORR_DTYPE_F8E5M2, true, false}},
        {"c64", {8, ORR_DTYPE_NONE, false, false}},
        {"c128", {16, ORR_DTYPE_NONE, false, false}},
    };
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (strlen(elements[i].name) == length && memcmp(elements[i].name, word, length) == 0) {
            return elements[i].element;
        }
    }
    return (struct orr__element){0, ORR_DTYPE_NONE, false, false};
}

/* "[8, 64]" at *at, which moves behind it; the product of the dimensions fits. */
static bool parse_dims(const char **at, struct orr__input *out) {
    const char *p = *at + 1;
    out->rank = 0;
    out->count = 1;
    while (*p != ']') {
        uint64_t dim = 0;
        if (!is_digit(*p) || out->rank == ORR__INPUT_RANK_MAX) {
            return false;
        }
        for (; is_digit(*p); p++) {
            if (__builtin_mul_overflow(dim, 10, &dim) ||
                __builtin_add_overflow(dim, (uint64_t)(*p - '0'), &dim)) {
                return false;
            }
        }
        out->dims[out->rank++] = dim;
        if (__builtin_mul_overflow(out->count, dim, &out->count)) {
            return false;
        }
        if (strncmp(p, ", ", 2) == 0) {
            p += 2;
        } else if (*p != ']') {
            return false;
        }
    }
    *at = p + 1;
    return true;
}

/* "bf16[8, 64]" at *at. */
static bool parse_tensor(const char **at, struct orr__input *out) {
    size_t word = strcspn(*at, "[");
    out->kind = ORR__INPUT_TENSOR;
    out->element = element_of(*at, word);
    *at += word;
    return **at == '[' && parse_dims(at, out);
}

/* "(f32[4], f32[8])" at *at: the sum of what its tensors have; one type, or none known. */
static bool parse_list(const char **at, struct orr__input *out) {
    uint64_t count = 0;
    *out = (struct orr__input){.kind = ORR__INPUT_LIST};
    for (++*at; **at != ')';) {
        struct orr__input tensor = {0};
        if (!parse_tensor(at, &tensor) || __builtin_add_overflow(count, tensor.count, &count)) {
            return false;
        }
        bool same =
            out->rank == 0 || out->element.bytes == 0 || out->element.dtype == tensor.element.dtype;
        out->element = same ? tensor.element : (struct orr__element){0};
        out->rank++; /* of a list: how many tensors */
        if (strncmp(*at, ", ", 2) == 0) {
            *at += 2;
        } else if (**at != ')') {
            return false;
        }
    }
    ++*at;
    out->count = count;
    return true;
}

/* "True", "[-1, 2]", "0.5": up to a comma outside brackets. */
static void parse_value(const char **at, struct orr__input *out) {
    const char *begin = *at;
    int depth = 0;
    for (; **at && !(depth == 0 && **at == ','); ++*at) {
        depth += **at == '[' ? 1 : **at == ']' ? -1 : 0;
    }
    *out = (struct orr__input){
        .kind = ORR__INPUT_VALUE, .value = begin, .value_length = (size_t)(*at - begin)};
}

/* Does a tensor begin here? A letter or '?', then '[' before anything that ends a word. */
static bool begins_tensor(const char *at) {
    size_t word = strcspn(at, "[, ()");
    return at[word] == '[' && word > 0 && word < 8;
}

bool orr__inputs_parse(const char *line, struct orr__inputs *out_inputs) {
    out_inputs->count = 0;
    while (*line) {
        if (out_inputs->count == ORR__INPUT_COUNT_MAX) {
            return true; /* what is behind is of no operator that we know */
        }
        struct orr__input *input = &out_inputs->items[out_inputs->count++];
        *input = (struct orr__input){0};
        bool good = true;
        if (*line == '(') {
            good = parse_list(&line, input);
        } else if (begins_tensor(line)) {
            good = parse_tensor(&line, input);
        } else {
            parse_value(&line, input);
        }
        if (!good || (*line && strncmp(line, ", ", 2) != 0)) {
            return false;
        }
        line += *line ? 2 : 0;
    }
    return out_inputs->count > 0;
}

const struct orr__input *orr__inputs_tensor(const struct orr__inputs *inputs, unsigned index) {
    bool tensor = index < inputs->count && inputs->items[index].kind == ORR__INPUT_TENSOR;
    return tensor ? &inputs->items[index] : NULL;
}

bool orr__inputs_value_is(const struct orr__inputs *inputs, unsigned index, const char *word) {
    if (index >= inputs->count || inputs->items[index].kind != ORR__INPUT_VALUE) {
        return false;
    }
    const struct orr__input *input = &inputs->items[index];
    return input->value_length == strlen(word) &&
           memcmp(input->value, word, input->value_length) == 0;
}

bool orr__inputs_has_value(const struct orr__inputs *inputs, unsigned index) {
    return index < inputs->count && inputs->items[index].kind == ORR__INPUT_VALUE &&
           !orr__inputs_value_is(inputs, index, "-");
}

int orr__inputs_numbers(const struct orr__inputs *inputs, unsigned index, int64_t *out_numbers,
                        unsigned max) {
    if (!orr__inputs_has_value(inputs, index)) {
        return -1;
    }
    const char *p = inputs->items[index].value, *end = p + inputs->items[index].value_length;
    unsigned count = 0;
    while (p < end) {
        bool negative = *p == '-' && p + 1 < end && is_digit(p[1]);
        if (!negative && !is_digit(*p)) {
            if (*p != '[' && *p != ']' && *p != ',' && *p != ' ') {
                return -1;
            }
            p++;
            continue;
        }
        int64_t number = 0;
        for (p += negative; p < end && is_digit(*p); p++) {
            if (number > INT32_MAX / 10) {
                return -1;
            }
            number = number * 10 + (*p - '0');
        }
        if (count == max) {
            return -1;
        }
        out_numbers[count++] = negative ? -number : number;
    }
    return (int)count;
}
