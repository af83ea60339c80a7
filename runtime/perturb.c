#include "runtime/perturb.h"

#include <stdio.h>
#include <string.h>

#include "runtime/device_spec.h"

enum field {
    FIELD_PLAIN, /* the figure of a key without fields */
    FIELD_DEVICE,
    FIELD_PEER,
    FIELD_RANK,
    FIELD_NAME,
    FIELD_STREAM,
    FIELD_NTH,
    FIELD_AT,
    FIELD_NS,
    FIELD_BY,
    FIELD_BYTES,
    FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {
    "", "device", "peer", "rank", "name", "stream", "nth", "at", "ns", "by", "bytes"};

#define BIT(field) (1u << FIELD_##field)

/* What a key may have, and must. */
static const struct {
    const char *key;
    uint32_t allowed, required;
} kinds[ORR_PERTURB_KIND_COUNT] = {
    [ORR_PERTURB_JITTER] = {"jitter", BIT(PLAIN), BIT(PLAIN)},
    [ORR_PERTURB_HOST_JITTER] = {"host_jitter", BIT(PLAIN), BIT(PLAIN)},
    [ORR_PERTURB_SEED] = {"seed", BIT(PLAIN), BIT(PLAIN)},
    [ORR_PERTURB_ALLOCATOR] = {"allocator", BIT(PLAIN), BIT(PLAIN)},
    [ORR_PERTURB_STRAGGLER] = {"straggler", BIT(DEVICE) | BIT(BY) | BIT(AT) | BIT(NAME),
                               BIT(DEVICE) | BIT(BY)},
    [ORR_PERTURB_SLOW_LINK] = {"slow_link", BIT(DEVICE) | BIT(PEER) | BIT(BY) | BIT(AT),
                               BIT(DEVICE) | BIT(BY)},
    [ORR_PERTURB_FAIL_LINK] = {"fail_link", BIT(DEVICE) | BIT(PEER) | BIT(AT), BIT(DEVICE)},
    [ORR_PERTURB_LOSE_LINK] = {"lose_link", BIT(DEVICE) | BIT(PEER) | BIT(AT), BIT(DEVICE)},
    [ORR_PERTURB_DEVICE_ERROR] = {"device_error", BIT(DEVICE) | BIT(NTH) | BIT(AT), BIT(DEVICE)},
    [ORR_PERTURB_LOSE_DEVICE] = {"lose_device", BIT(DEVICE) | BIT(AT), BIT(DEVICE)},
    [ORR_PERTURB_LOSE_RANK] = {"lose_rank", BIT(RANK) | BIT(AT), 0},
    [ORR_PERTURB_LATE_RANK] = {"late_rank", BIT(RANK) | BIT(NS), BIT(NS)},
    [ORR_PERTURB_STALL_HOST] = {"stall_host", BIT(RANK) | BIT(NTH) | BIT(NS), BIT(NS)},
    [ORR_PERTURB_DELAY] = {"delay", BIT(NAME) | BIT(STREAM) | BIT(DEVICE) | BIT(NTH) | BIT(NS),
                           BIT(NS)},
    [ORR_PERTURB_MEMORY] = {"memory", BIT(DEVICE) | BIT(BYTES), BIT(BYTES)},
    [ORR_PERTURB_FAIL_ALLOC] = {"fail_alloc", BIT(DEVICE) | BIT(NTH), BIT(DEVICE) | BIT(NTH)},
};

const char *orr_perturb_key(enum orr_perturb_kind kind) {
    return kinds[kind].key;
}

static bool is_plain(enum orr_perturb_kind kind) {
    return kinds[kind].allowed == BIT(PLAIN);
}

/* --- figures --- */

static const struct {
    const char *unit;
    uint64_t times;
} time_units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
  byte_units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

#define TIME_MAX_NS UINT64_C(1000000000000000) /* 11 days, as of any call */
#define BYTES_MAX   (UINT64_C(1) << 61)

static bool read_whole(const char *text, uint64_t *out_value, const char **out_rest) {
    uint64_t value = 0;
    size_t digits = strspn(text, "0123456789");
    *out_rest = text + digits;
    for (size_t i = 0; i < digits; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out_value = value;
    return digits > 0;
}

static bool read_number(const char *text, uint64_t max, uint64_t *out_value) {
    const char *rest;
    return read_whole(text, out_value, &rest) && *rest == '\0' && *out_value <= max;
}

/* A time in ns, at most 11 days, or bytes. */
static bool read_amount(const char *text, bool time, uint64_t *out_value) {
    const char *rest;
    if (!read_whole(text, out_value, &rest))
        return false;
    size_t count =
        time ? sizeof time_units / sizeof *time_units : sizeof byte_units / sizeof *byte_units;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rest, time ? time_units[i].unit : byte_units[i].unit) != 0)
            continue;
        uint64_t times = time ? time_units[i].times : byte_units[i].times;
        if (*out_value > (time ? TIME_MAX_NS : BYTES_MAX) / times)
            return false;
        *out_value *= times;
        return true;
    }
    return false;
}

/* A decimal fraction in millionths; further digits don't count. */
static bool read_ppm(const char *text, uint64_t *out_ppm) {
    enum { WHOLE_MAX = 1000000 };
    const char *rest;
    uint64_t whole, unit = ORR_PPM;
    if (!read_whole(text, &whole, &rest) || whole > WHOLE_MAX)
        return false;
    *out_ppm = whole * ORR_PPM;
    if (*rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
            unit /= 10;
            *out_ppm += (uint64_t)(*rest - '0') * unit;
        }
    return *rest == '\0';
}

/* --- rules --- */

static enum orr_status unknown(const char *what, const char *word, const char *const *names,
                               int count, struct orr_error *error) {
    const char *nearest = orr_nearest_name(word, names, count);
    return orr_error_set(error, ORR_INVALID, "perturb: unknown %s '%s'%s%s%s", what, word,
                         nearest ? "; did you mean '" : "", nearest ? nearest : "",
                         nearest ? "'?" : "");
}

static enum orr_status unknown_key(const char *key, struct orr_error *error) {
    const char *names[ORR_PERTURB_KIND_COUNT];
    for (int i = 0; i < ORR_PERTURB_KIND_COUNT; i++)
        names[i] = kinds[i].key;
    return unknown("key", key, names, ORR_PERTURB_KIND_COUNT, error);
}

static struct orr_perturb_rule *find(struct orr_perturb *perturb, enum orr_perturb_kind kind) {
    for (uint32_t i = 0; i < perturb->count; i++)
        if (perturb->rules[i].kind == kind)
            return &perturb->rules[i];
    return NULL;
}

const struct orr_perturb_rule *orr_perturb_find(const struct orr_perturb *perturb,
                                                enum orr_perturb_kind kind) {
    for (uint32_t i = 0; i < perturb->count; i++)
        if (perturb->rules[i].kind == kind)
            return &perturb->rules[i];
    return NULL;
}

/* Room for one more rule of a kind; NULL if there is none. */
static struct orr_perturb_rule *add(struct orr_perturb *perturb, enum orr_perturb_kind kind) {
    struct orr_perturb_rule *rule = is_plain(kind) ? find(perturb, kind) : NULL;
    if (!rule && perturb->count < ORR_PERTURB_RULES_MAX)
        rule = &perturb->rules[perturb->count++];
    if (rule)
        *rule = (struct orr_perturb_rule){.kind = kind,
                                          .device = ORR_PERTURB_ANY,
                                          .peer = ORR_PERTURB_ANY,
                                          .rank = ORR_PERTURB_ANY};
    return rule;
}

static enum orr_status too_many(struct orr_error *error) {
    return orr_error_set(error, ORR_INVALID, "perturb: more than %d rules", ORR_PERTURB_RULES_MAX);
}

enum orr_status orr_perturb_begin(struct orr_perturb *perturb, const char *key,
                                  struct orr_perturb_rule **out_rule, struct orr_error *error) {
    *out_rule = NULL;
    for (int i = 0; i < ORR_PERTURB_KIND_COUNT; i++)
        if (strcmp(kinds[i].key, key) == 0) {
            *out_rule = add(perturb, (enum orr_perturb_kind)i);
            return *out_rule ? ORR_OK : too_many(error);
        }
    return unknown_key(key, error);
}

/* A name as in field_names that the kind has; FIELD_COUNT if there is none. */
static enum field find_field(enum orr_perturb_kind kind, const char *name) {
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((kinds[kind].allowed & 1u << i) != 0 && strcmp(field_names[i], name) == 0)
            return (enum field)i;
    return FIELD_COUNT;
}

static enum orr_status unknown_field(enum orr_perturb_kind kind, const char *name,
                                     struct orr_error *error) {
    const char *names[FIELD_COUNT];
    char what[64];
    int count = 0;
    if (name[0] == '\0')
        return orr_error_set(error, ORR_INVALID, "perturb: %s: expected fields NAME:VALUE",
                             kinds[kind].key);
    if (is_plain(kind))
        return orr_error_set(error, ORR_INVALID, "perturb: %s has no fields: expected %s=VALUE",
                             kinds[kind].key, kinds[kind].key);
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((kinds[kind].allowed & 1u << i) != 0)
            names[count++] = field_names[i];
    snprintf(what, sizeof what, "field of %s", kinds[kind].key);
    return unknown(what, name, names, count, error);
}

static bool set_text(char *to, const char *value) {
    size_t length = strlen(value);
    if (length == 0 || length >= ORR_PERTURB_NAME_MAX)
        return false;
    memcpy(to, value, length + 1);
    return true;
}

static bool set_id(uint32_t *to, const char *value) {
    uint64_t number;
    if (!read_number(value, ORR_PERTURB_HOST - 1, &number))
        return false;
    *to = (uint32_t)number;
    return true;
}

static bool set_time(int64_t *to, const char *value) {
    uint64_t ns;
    if (!read_amount(value, true, &ns))
        return false;
    *to = (int64_t)ns;
    return true;
}

/* Returns what was expected if it is something else, NULL otherwise. */
static const char *set_plain(struct orr_perturb_rule *rule, const char *value) {
    switch (rule->kind) {
    case ORR_PERTURB_SEED:
        return read_number(value, UINT64_MAX, &rule->number) ? NULL : "a whole number";
    case ORR_PERTURB_ALLOCATOR:
        rule->number = strcmp(value, "adversarial") == 0;
        return rule->number || strcmp(value, "caching") == 0 ? NULL : "caching or adversarial";
    default:
        return read_ppm(value, &rule->ppm) && rule->ppm < ORR_PPM ? NULL
                                                                  : "a share from 0 to below 1";
    }
}

static const char *set_field(struct orr_perturb_rule *rule, enum field field, const char *value) {
    switch (field) {
    case FIELD_PLAIN: return set_plain(rule, value);
    case FIELD_DEVICE: return set_id(&rule->device, value) ? NULL : "the number of a device";
    case FIELD_PEER:
        if (strcmp(value, "host") == 0)
            rule->peer = ORR_PERTURB_HOST;
        else if (!set_id(&rule->peer, value))
            return "the number of a device, or host";
        return NULL;
    case FIELD_RANK: return set_id(&rule->rank, value) ? NULL : "the number of a rank";
    case FIELD_NAME: return set_text(rule->name, value) ? NULL : "a name of 1 to 63 bytes";
    case FIELD_STREAM: return set_text(rule->stream, value) ? NULL : "a name of 1 to 63 bytes";
    case FIELD_NTH:
        return read_number(value, UINT64_MAX, &rule->nth) && rule->nth > 0 ? NULL
                                                                           : "a number from 1";
    case FIELD_AT: return set_time(&rule->at_ns, value) ? NULL : "a time, as in 2000 or 2us";
    case FIELD_NS: return set_time(&rule->ns, value) ? NULL : "a time, as in 2000 or 2us";
    case FIELD_BY:
        return read_ppm(value, &rule->ppm) && rule->ppm > 0 ? NULL
                                                            : "a factor above 0, at most 1000000";
    case FIELD_BYTES:
        return read_amount(value, false, &rule->bytes) ? NULL : "bytes, as in 4096 or 2MiB";
    case FIELD_COUNT: break;
    }
    return "nothing";
}

enum orr_status orr_perturb_set(struct orr_perturb_rule *rule, const char *field, const char *value,
                                struct orr_error *error) {
    const char *key = kinds[rule->kind].key;
    enum field found = find_field(rule->kind, field);
    if (found == FIELD_COUNT)
        return unknown_field(rule->kind, field, error);
    if (rule->given & 1u << found)
        return orr_error_set(error, ORR_INVALID, "perturb: %s: %s is there twice", key, field);
    rule->given |= 1u << found;
    const char *wanted = set_field(rule, found, value);
    if (wanted)
        return orr_error_set(error, ORR_INVALID, "perturb: %s%s%s: expected %s, got '%s'", key,
                             field[0] ? ": " : "", field, wanted, value);
    return ORR_OK;
}

enum orr_status orr_perturb_end(const struct orr_perturb_rule *rule, struct orr_error *error) {
    uint32_t missing = kinds[rule->kind].required & ~rule->given;
    const uint32_t either = BIT(NTH) | BIT(AT);
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((missing & 1u << i) != 0)
            return orr_error_set(error, ORR_INVALID, "perturb: %s: expected %s",
                                 kinds[rule->kind].key, i == 0 ? "a value" : field_names[i]);
    if (rule->kind == ORR_PERTURB_DEVICE_ERROR && (rule->given & either) == either)
        return orr_error_set(error, ORR_INVALID, "perturb: device_error: expected nth or at");
    if (rule->kind == ORR_PERTURB_DELAY && !(rule->given & ~(BIT(NTH) | BIT(NS))))
        return orr_error_set(error, ORR_INVALID,
                             "perturb: delay: expected a name, a stream or a device");
    return ORR_OK;
}

/* --- texts --- */

/* The value of a word: one figure, or fields. Cuts it up. */
static enum orr_status parse_value(struct orr_perturb_rule *rule, char *value,
                                   struct orr_error *error) {
    if (is_plain(rule->kind))
        return orr_perturb_set(rule, "", value, error);
    enum orr_status status = ORR_OK;
    while (value && status == ORR_OK) {
        char *comma = strchr(value, ',');
        if (comma)
            *comma++ = '\0';
        char *colon = strchr(value, ':');
        if (!colon)
            return orr_error_set(error, ORR_INVALID,
                                 "perturb: %s: expected fields NAME:VALUE, got '%s'",
                                 kinds[rule->kind].key, value);
        *colon = '\0';
        status = orr_perturb_set(rule, value, colon + 1, error);
        value = comma;
    }
    return status;
}

static enum orr_status parse_word(struct orr_perturb *perturb, char *word,
                                  struct orr_error *error) {
    char *equals = strchr(word, '=');
    if (!equals)
        return orr_error_set(error, ORR_INVALID, "perturb: expected KEY=VALUE, got '%s'", word);
    *equals = '\0';
    struct orr_perturb_rule *rule;
    enum orr_status status = orr_perturb_begin(perturb, word, &rule, error);
    if (status == ORR_OK)
        status = parse_value(rule, equals + 1, error);
    return status == ORR_OK ? orr_perturb_end(rule, error) : status;
}

enum orr_status orr_perturb_parse(struct orr_perturb *perturb, const char *text,
                                  struct orr_error *error) {
    static const char between[] = " ;\t\n";
    enum orr_status status = ORR_OK;
    while (status == ORR_OK) {
        char word[ORR_PERTURB_TEXT_MAX];
        text += strspn(text, between);
        size_t length = strcspn(text, between);
        if (length == 0)
            break;
        if (length >= sizeof word)
            return orr_error_set(error, ORR_INVALID, "perturb: a word of %zu bytes is too long",
                                 length);
        memcpy(word, text, length);
        word[length] = '\0';
        status = parse_word(perturb, word, error);
        text += length;
    }
    return status;
}

enum orr_status orr_perturb_merge(struct orr_perturb *perturb, const struct orr_perturb *more,
                                  struct orr_error *error) {
    for (uint32_t i = 0; i < more->count; i++) {
        const struct orr_perturb_rule *rule = &more->rules[i];
        if (is_plain(rule->kind) && find(perturb, rule->kind))
            continue;
        struct orr_perturb_rule *added = add(perturb, rule->kind);
        if (!added)
            return too_many(error);
        *added = *rule;
    }
    return ORR_OK;
}

static int print_ppm(uint64_t ppm, char *text, size_t size) {
    int length = snprintf(text, size, "%llu.%06llu", (unsigned long long)(ppm / ORR_PPM),
                          (unsigned long long)(ppm % ORR_PPM));
    while (length > 0 && text[length - 1] == '0')
        text[--length] = '\0';
    if (length > 0 && text[length - 1] == '.')
        text[--length] = '\0';
    return length;
}

static void print_field(const struct orr_perturb_rule *rule, enum field field, char *text,
                        size_t size) {
    unsigned long long number = 0;
    switch (field) {
    case FIELD_NAME: snprintf(text, size, "%s", rule->name); return;
    case FIELD_STREAM: snprintf(text, size, "%s", rule->stream); return;
    case FIELD_BY: (void)print_ppm(rule->ppm, text, size); return;
    case FIELD_PLAIN:
        if (rule->kind == ORR_PERTURB_ALLOCATOR)
            snprintf(text, size, "%s", rule->number ? "adversarial" : "caching");
        else if (rule->kind == ORR_PERTURB_SEED)
            snprintf(text, size, "%llu", (unsigned long long)rule->number);
        else
            (void)print_ppm(rule->ppm, text, size);
        return;
    case FIELD_PEER:
        if (rule->peer == ORR_PERTURB_HOST) {
            snprintf(text, size, "host");
            return;
        }
        number = rule->peer;
        break;
    case FIELD_DEVICE: number = rule->device; break;
    case FIELD_RANK: number = rule->rank; break;
    case FIELD_NTH: number = rule->nth; break;
    case FIELD_AT: number = (unsigned long long)rule->at_ns; break;
    case FIELD_NS: number = (unsigned long long)rule->ns; break;
    case FIELD_BYTES: number = rule->bytes; break;
    case FIELD_COUNT: break;
    }
    snprintf(text, size, "%llu", number);
}

const char *orr_perturb_rule_text(const struct orr_perturb_rule *rule, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s=", kinds[rule->kind].key);
    bool first = true;
    for (int i = 0; i < FIELD_COUNT; i++) {
        if ((rule->given & 1u << i) == 0 || used >= size)
            continue;
        char value[ORR_PERTURB_NAME_MAX];
        print_field(rule, (enum field)i, value, sizeof value);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", first ? "" : ",",
                                 field_names[i], i == FIELD_PLAIN ? "" : ":", value);
        first = false;
    }
    return text;
}

const char *orr_perturb_text(const struct orr_perturb *perturb, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < perturb->count && used < size; i++) {
        char rule[ORR_PERTURB_TEXT_MAX];
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                                 orr_perturb_rule_text(&perturb->rules[i], rule, sizeof rule));
    }
    return text;
}

void orr_perturb_note(struct orr_perturb *perturb, const struct orr_perturb_rule *rule,
                      const char *what) {
    if (perturb->fault[0])
        return;
    char text[ORR_FAULT_TEXT_MAX / 2];
    snprintf(perturb->fault, sizeof perturb->fault, "%s (perturb %s)", what,
             orr_perturb_rule_text(rule, text, sizeof text));
}
