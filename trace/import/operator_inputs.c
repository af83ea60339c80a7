#include "trace/import/operator_inputs.h"

#include <stdbool.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * JSON arrays, an item after another */

struct items {
    const char *at, *end;
    bool bad;
};

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_spaces(struct items *i) {
    while (i->at < i->end && is_space(*i->at)) {
        i->at++;
    }
}

static struct items open_items(struct orr__json_text text) {
    struct items i = {NULL, NULL, false};
    if (text.length == 0) {
        return i;
    }
    i.at = text.at;
    i.end = text.at + text.length;
    skip_spaces(&i);
    i.bad = i.at == i.end || *i.at != '[';
    i.at += !i.bad;
    return i;
}

/* Behind the string that begins at `at`. */
static const char *string_end(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' && at + 1 < end;
    }
    return at < end ? at + 1 : end;
}

/* The next item, without spaces around it; false at the end of the array, or of the text. */
static bool next_item(struct items *i, struct orr__json_text *out) {
    *out = (struct orr__json_text){.at = "", .length = 0};
    if (i->bad || !i->at) {
        return false;
    }
    skip_spaces(i);
    if (i->at < i->end && *i->at == ',') {
        i->at++;
        skip_spaces(i);
    }
    if (i->at == i->end || *i->at == ']') {
        i->bad = i->at == i->end;
        return false;
    }
    const char *begin = i->at;
    for (int depth = 0; i->at < i->end;) {
        char c = *i->at;
        if (depth == 0 && (c == ',' || c == ']')) {
            break;
        }
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        i->at = c == '"' ? string_end(i->at, i->end) : i->at + 1;
    }
    const char *last = i->at;
    while (last > begin && is_space(last[-1])) {
        last--;
    }
    *out = (struct orr__json_text){.at = begin, .length = (size_t)(last - begin)};
    return true;
}

/* Without the quotes of a string. */
static struct orr__json_text unquote(struct orr__json_text item) {
    if (item.length >= 2 && item.at[0] == '"' && item.at[item.length - 1] == '"') {
        return (struct orr__json_text){.at = item.at + 1, .length = item.length - 2};
    }
    return item;
}

static bool is(struct orr__json_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

/* ------------------------------------------------------------------------------------------------
 * The line */

struct line {
    char *data;
    size_t length;
    bool bad;
};

static void put(struct line *l, const char *text, size_t size) {
    if (l->bad || size >= ORR__INPUTS_MAX - l->length) {
        l->bad = true;
        return;
    }
    memcpy(l->data + l->length, text, size);
    l->length += size;
    l->data[l->length] = '\0';
}

static void put_word(struct line *l, const char *word) {
    put(l, word, strlen(word));
}

/* Names of torch's types, as its profiler writes them, and ours. */
static const char *type_word(struct orr__json_text type) {
    static const char *const words[][2] = {
        {"float", "f32"},
        {"double", "f64"},
        {"c10::Half", "f16"},
        {"c10::BFloat16", "bf16"},
        {"long int", "i64"},
        {"long", "i64"},
        {"int", "i32"},
        {"bool", "bool"},
        {"short int", "i16"},
        {"short", "i16"},
        {"signed char", "i8"},
        {"unsigned char", "u8"},
        {"c10::Float8_e4m3fn", "f8e4m3"},
        {"c10::Float8_e5m2", "f8e5m2"},
        {"c10::complex<float>", "c64"},
        {"c10::complex<double>", "c128"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is(type, words[i][0])) {
            return words[i][1];
        }
    }
    return "?";
}

static bool is_list_type(struct orr__json_text type) {
    return is(type, "TensorList") || is(type, "GenericList");
}

/* "Scalar", "ScalarList", "" and what a later writer may call arguments that are no tensors. */
static bool is_value_type(struct orr__json_text type) {
    return type.length == 0 || is(type, "Scalar") || is(type, "ScalarList");
}

/* "[8, 64]" with our spaces; a dimension that is no number spoils the line. */
static void put_dims(struct line *l, struct orr__json_text dims) {
    struct items i = open_items(dims);
    struct orr__json_text dim;
    l->bad = l->bad || i.bad;
    put(l, "[", 1);
    for (bool first = true; next_item(&i, &dim); first = false) {
        for (size_t k = 0; k < dim.length; k++) {
            l->bad = l->bad || dim.at[k] < '0' || dim.at[k] > '9';
        }
        put(l, ", ", first ? 0 : 2);
        put(l, dim.at, dim.length);
    }
    put(l, "]", 1);
}

/* Is it a list of shapes, "[[4], [8]]"? */
static bool holds_lists(struct orr__json_text dims) {
    struct items i = open_items(dims);
    struct orr__json_text first;
    return next_item(&i, &first) && first.length > 0 && first.at[0] == '[';
}

/* "(f32[4], f32[8])"; `types` is a list of type names, or one name for a list of tensors. */
static void put_list(struct line *l, struct orr__json_text dims, struct orr__json_text types) {
    bool typed = types.length > 0 && types.at[0] == '[';
    struct items i = open_items(dims), t = open_items(types);
    struct orr__json_text shape, type;
    put(l, "(", 1);
    for (bool first = true; next_item(&i, &shape); first = false) {
        put(l, ", ", first ? 0 : 2);
        bool known = typed && next_item(&t, &type);
        put_word(l, known ? type_word(unquote(type)) : "?");
        put_dims(l, shape);
    }
    put(l, ")", 1);
}

static void put_value(struct line *l, struct orr__json_text value) {
    bool plain = value.length > 0 && value.length <= ORR__INPUT_VALUE_MAX;
    for (size_t i = 0; i < value.length && plain; i++) {
        unsigned char c = (unsigned char)value.at[i];
        plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '(' && c != ')';
    }
    if (plain) {
        put(l, value.at, value.length);
    } else {
        put(l, "-", 1);
    }
}

static void put_argument(struct line *l, struct orr__json_text dims, bool typed,
                         struct orr__json_text type, struct orr__json_text value) {
    struct orr__json_text name = unquote(type);
    bool shaped = dims.length > 0 && dims.at[0] == '[';
    if (shaped && (holds_lists(dims) || (typed && (is_list_type(name) || type.at[0] == '[')))) {
        put_list(l, dims, type);
    } else if (shaped && typed && !is_value_type(name)) {
        put_word(l, type_word(name));
        put_dims(l, dims);
    } else if (shaped && !typed && dims.length > 2) {
        put_word(l, "?");
        put_dims(l, dims);
    } else {
        put_value(l, unquote(value));
    }
}

size_t orr__operator_inputs(struct orr__json_text dims, struct orr__json_text types,
                            struct orr__json_text values, char *buffer) {
    struct line l = {.data = buffer};
    struct items d = open_items(dims), t = open_items(types), v = open_items(values);
    struct orr__json_text dim, type, value;
    buffer[0] = '\0';
    for (bool first = true; next_item(&d, &dim); first = false) {
        bool typed = next_item(&t, &type);
        (void)next_item(&v, &value);
        put(&l, ", ", first ? 0 : 2);
        put_argument(&l, dim, typed, type, value);
    }
    if (l.bad || d.bad || t.bad || v.bad) {
        buffer[0] = '\0';
        return 0;
    }
    return l.length;
}

enum orr_dtype orr__operator_dtype(const char *inputs) {
    for (const char *end = strchr(inputs, '['); end; end = strchr(end + 1, '[')) {
        const char *begin = end;
        char word[8];
        while (begin > inputs && begin[-1] != ' ' && begin[-1] != '(') {
            begin--;
        }
        size_t length = (size_t)(end - begin);
        if (length == 0 || length >= sizeof word) {
            continue; /* a value, or nothing of ours */
        }
        enum orr_dtype dtype = ORR_DTYPE_NONE;
        memcpy(word, begin, length);
        word[length] = '\0';
        return orr_dtype_parse(word, &dtype) == ORR_OK ? dtype : ORR_DTYPE_NONE;
    }
    return ORR_DTYPE_NONE;
}
