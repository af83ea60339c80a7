/* KEY=VALUE of a what-if. */
#include <stdio.h>
#include <string.h>

#include "analyzer/whatif.h"

enum { FACTOR_MAX = 1000000 };

static const char *const keys[] = {
#define ORR_WHATIF_KEY(name, text) text,
    ORR_WHATIF_LIST(ORR_WHATIF_KEY)
#undef ORR_WHATIF_KEY
};

/* What values a key takes. */
static const char *expected(enum orr_whatif_key key) {
    switch (key) {
    case ORR_WHATIF_LAUNCH_COST: return "0, xF or a number of ns";
    case ORR_WHATIF_GRAPH: return "on";
    case ORR_WHATIF_FUSE: return "NAME+NAME or elementwise";
    case ORR_WHATIF_OVERLAP: return "perfect";
    case ORR_WHATIF_STRAGGLER: return "none";
    default: return "xF, as in x2 or x0.5";
    }
}

/* Digits of a whole number below 10^15. */
static bool read_digits(const char **at, uint64_t *out_value) {
    size_t digits = strspn(*at, "0123456789");
    *out_value = 0;
    for (size_t i = 0; i < digits && digits <= 15; i++) {
        *out_value = *out_value * 10 + (uint64_t)((*at)[i] - '0');
    }
    *at += digits;
    return digits > 0 && digits <= 15;
}

/* "x2", "x0.25": millionths; above 0. */
static bool read_factor(const char *text, uint64_t *out_ppm) {
    uint64_t whole = 0, unit = ORR_WHATIF_MILLION;
    const char *at = text + 1;
    if (text[0] != 'x' || !read_digits(&at, &whole) || whole > FACTOR_MAX) {
        return false;
    }
    *out_ppm = whole * ORR_WHATIF_MILLION;
    if (*at == '.') {
        for (at++; *at >= '0' && *at <= '9' && unit > 1; at++) {
            unit /= 10;
            *out_ppm += unit * (uint64_t)(*at - '0');
        }
    }
    return *at == '\0' && *out_ppm > 0;
}

static enum orr_status wrong_key(const char *text, struct orr_error *error) {
    size_t length = strcspn(text, "=");
    char word[ORR_WHATIF_NAME_MAX];
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1),
             text);
    const char *nearest = orr_nearest_name(word, keys, ORR_WHATIF_COUNT);
    if (nearest) {
        return orr_error_set(error, ORR_INVALID, "--set '%s': unknown key '%s'; did you mean '%s'?",
                             text, word, nearest);
    }
    return orr_error_set(error, ORR_INVALID,
                         "--set '%s': unknown key '%s'; expected launch_cost, host, kernel:NAME, "
                         "class:CLASS, bandwidth, network, overlap, straggler, graph or fuse",
                         text, word);
}

static enum orr_status wrong_value(const char *text, enum orr_whatif_key key,
                                   struct orr_error *error) {
    return orr_error_set(error, ORR_INVALID, "--set '%s': %s takes %s", text, keys[key],
                         expected(key));
}

/* The key of a text, whose '=' is at `equals`; COUNT for none. kernel: and class: have their name
 * behind the colon, which may hold a '='. */
static enum orr_whatif_key find_key(const char *text, const char **out_equals) {
    const char *equals = strchr(text, '=');
    for (int k = 0; equals && k < ORR_WHATIF_COUNT; k++) {
        size_t length = strlen(keys[k]);
        bool named = keys[k][length - 1] == ':';
        if (strncmp(text, keys[k], length) != 0 || (!named && text[length] != '=')) {
            continue;
        }
        *out_equals = named ? strrchr(text, '=') : equals;
        return (enum orr_whatif_key)k;
    }
    return ORR_WHATIF_COUNT;
}

static enum orr_status read_class(struct orr_whatif_setting *setting, struct orr_error *error) {
    static const char *const classes[] = {"compute", "comm", "copy"};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(setting->name, classes[i]) == 0) {
            return ORR_OK;
        }
    }
    const char *nearest = orr_nearest_name(setting->name, classes, 3);
    return orr_error_set(error, ORR_INVALID, "--set '%s': unknown class '%s'; %s%s%s",
                         setting->text, setting->name, nearest ? "did you mean '" : "expected ",
                         nearest ? nearest : "compute, comm or copy", nearest ? "'?" : "");
}

/* launch_cost=NS or xF (of the cost); the others xF (of the speed). */
static bool read_number(struct orr_whatif_setting *setting, const char *value) {
    const char *at = value;
    uint64_t ns;
    if (setting->key == ORR_WHATIF_LAUNCH_COST && read_digits(&at, &ns) && *at == '\0') {
        setting->ns = (int64_t)ns;
        return true;
    }
    setting->scaled = read_factor(value, &setting->factor_ppm);
    if (!setting->scaled) {
        return false;
    }
    const uint64_t square = (uint64_t)ORR_WHATIF_MILLION * ORR_WHATIF_MILLION;
    setting->time_ppm = setting->key == ORR_WHATIF_LAUNCH_COST
                            ? setting->factor_ppm
                            : (square + setting->factor_ppm / 2) / setting->factor_ppm;
    return true;
}

static bool read_value(struct orr_whatif_setting *setting, const char *value) {
    switch (setting->key) {
    case ORR_WHATIF_GRAPH: return strcmp(value, "on") == 0;
    case ORR_WHATIF_OVERLAP: return strcmp(value, "perfect") == 0;
    case ORR_WHATIF_STRAGGLER: return strcmp(value, "none") == 0;
    case ORR_WHATIF_FUSE:
        snprintf(setting->name, sizeof setting->name, "%s", value);
        return strcmp(value, "elementwise") == 0 ||
               (strchr(value, '+') && value[0] != '+' && value[strlen(value) - 1] != '+' &&
                !strstr(value, "++"));
    default: return read_number(setting, value);
    }
}

enum orr_status orr_whatif_parse(const char *text, struct orr_whatif_setting *out_setting,
                                 struct orr_error *error) {
    *out_setting = (struct orr_whatif_setting){.key = ORR_WHATIF_COUNT};
    const char *equals = NULL;
    if (strlen(text) >= ORR_WHATIF_NAME_MAX) {
        return orr_error_set(error, ORR_INVALID, "--set '%.40s...': more than %d bytes", text,
                             ORR_WHATIF_NAME_MAX - 1);
    }
    if (!strchr(text, '=')) {
        return orr_error_set(error, ORR_INVALID, "--set '%s': expected KEY=VALUE", text);
    }
    out_setting->key = find_key(text, &equals);
    if (out_setting->key == ORR_WHATIF_COUNT) {
        return wrong_key(text, error);
    }
    memcpy(out_setting->text, text, strlen(text) + 1);
    size_t key_length = strlen(keys[out_setting->key]);
    if (keys[out_setting->key][key_length - 1] == ':') {
        const char *name = text + key_length;
        if (equals <= name) {
            return orr_error_set(error, ORR_INVALID, "--set '%s': expected %sNAME=xF", text,
                                 keys[out_setting->key]);
        }
        memcpy(out_setting->name, name, (size_t)(equals - name));
    }
    if (!read_value(out_setting, equals + 1)) {
        return wrong_value(text, out_setting->key, error);
    }
    return out_setting->key == ORR_WHATIF_CLASS ? read_class(out_setting, error) : ORR_OK;
}
