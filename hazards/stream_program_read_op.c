#include <string.h>

#include "hazards/stream_program_read_internal.h"

/* One operation: its fields as texts, and at its end, when all are known, as numbers. */

enum { ITEMS_MAX = 1 << 28, WANTS_STRING = 1, WANTS_NUMBER = 2, WANTS_BOOL = 4, WANTS_ARRAY = 8 };

static const unsigned char wanted[ORR__FIELDS] = {
    [ORR__FIELD_OP] = WANTS_STRING,
    [ORR__FIELD_HOST] = WANTS_STRING,
    [ORR__FIELD_STREAM] = WANTS_STRING,
    [ORR__FIELD_EVENT] = WANTS_STRING,
    [ORR__FIELD_FLAG] = WANTS_STRING,
    [ORR__FIELD_LOCK] = WANTS_STRING,
    [ORR__FIELD_BUF] = WANTS_STRING,
    [ORR__FIELD_OF] = WANTS_STRING,
    [ORR__FIELD_REUSE] = WANTS_STRING,
    [ORR__FIELD_COMM] = WANTS_STRING,
    [ORR__FIELD_PEER] = WANTS_STRING | WANTS_NUMBER,
    [ORR__FIELD_RANK] = WANTS_STRING | WANTS_NUMBER,
    [ORR__FIELD_KIND] = WANTS_STRING,
    [ORR__FIELD_COUNT] = WANTS_NUMBER,
    [ORR__FIELD_DEV] = WANTS_NUMBER,
    [ORR__FIELD_DEVS] = WANTS_ARRAY,
    [ORR__FIELD_IGNORED] = WANTS_BOOL,
    [ORR__FIELD_READS] = WANTS_ARRAY,
    [ORR__FIELD_WRITES] = WANTS_ARRAY,
    [ORR__FIELD_BODY] = WANTS_ARRAY,
    [ORR__FIELD_SITE] = WANTS_STRING,
    [ORR__FIELD_LABEL] = WANTS_STRING,
};

void orr__reader_op_begin(struct orr_stream_program_reader *reader) {
    struct orr__gathered_op *op = &reader->op;
    op->seen = op->wrong = 0;
    op->device = 0;
    op->wrong_text = SIZE_MAX;
    op->is_ignored = op->has_unknown_step = false;
    op->access_count[0] = op->access_count[1] = op->device_count = op->step_count = 0;
    orr__builder_restart(&op->text);
    orr__build_bytes(&op->text, "", 1); /* so that no text is at 0 */
    orr__reader_open(reader, ORR__AT_OP);
}

void orr__reader_op_clear(struct orr_stream_program_reader *reader) {
    struct orr__gathered_op *op = &reader->op;
    orr__builder_clear(&op->text);
    orr_memory_free(reader->memory, op->accesses[0]);
    orr_memory_free(reader->memory, op->accesses[1]);
    orr_memory_free(reader->memory, op->bounds[0]);
    orr_memory_free(reader->memory, op->bounds[1]);
    orr_memory_free(reader->memory, op->devices);
    orr_memory_free(reader->memory, op->steps);
}

/* --- values --- */

static unsigned kind_bit(enum orr__json_kind kind) {
    switch (kind) {
    case ORR__JSON_STRING: return WANTS_STRING;
    case ORR__JSON_NUMBER: return WANTS_NUMBER;
    case ORR__JSON_BOOL: return WANTS_BOOL;
    case ORR__JSON_ARRAY: return WANTS_ARRAY;
    default: return 0;
    }
}

/* Keeps a text; its offset. Fields that are compared as JSON values are kept as JSON. */
static size_t keep_text(struct orr__gathered_op *op, const struct orr__json_value *value,
                        bool as_json) {
    size_t at = op->text.length;
    if (value->kind == ORR__JSON_NUMBER)
        orr__build_json_number(&op->text, value->text);
    else if (as_json)
        orr__build_json_string(&op->text, value->text);
    else
        orr__build_bytes(&op->text, value->text, value->length);
    orr__build_bytes(&op->text, "", 1);
    return at;
}

static bool open_array(struct orr_stream_program_reader *reader, enum orr__op_field field) {
    struct orr__gathered_op *op = &reader->op;
    switch (field) {
    case ORR__FIELD_READS:
        op->access_count[0] = 0;
        orr__reader_open(reader, ORR__AT_READS);
        break;
    case ORR__FIELD_WRITES:
        op->access_count[1] = 0;
        orr__reader_open(reader, ORR__AT_WRITES);
        break;
    case ORR__FIELD_DEVS:
        op->device_count = 0;
        orr__reader_open(reader, ORR__AT_DEVS);
        break;
    default:
        op->step_count = 0;
        op->has_unknown_step = false;
        orr__reader_open(reader, ORR__AT_BODY);
    }
    return true;
}

bool orr__reader_op_field(struct orr_stream_program_reader *reader,
                          const struct orr__json_value *value) {
    struct orr__gathered_op *op = &reader->op;
    enum orr__op_field field = (enum orr__op_field)reader->field;
    if (field == ORR__FIELDS)
        return true;
    uint32_t bit = UINT32_C(1) << field;
    op->seen &= ~bit;
    if (value->kind == ORR__JSON_NULL)
        return true;
    op->seen |= bit;
    if (!(kind_bit(value->kind) & wanted[field])) {
        op->wrong |= bit;
        return true;
    }
    if (value->kind == ORR__JSON_ARRAY)
        return open_array(reader, field);
    if (field == ORR__FIELD_IGNORED) {
        op->is_ignored = value->is_true;
    } else if (field == ORR__FIELD_DEV) {
        uint64_t device;
        if (!orr__reader_integer(reader, value->text, ORR_NONE - 1, &device))
            op->wrong |= bit;
        op->device = (uint32_t)device;
    } else {
        enum orr_name_space space = orr__op_field_space(field);
        bool as_json = space == ORR_NAME_RANK || field == ORR__FIELD_KIND;
        op->texts[field] = keep_text(op, value, as_json);
    }
    return !op->text.failed;
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A bound of digits, up to `end`; false: it is none. One beyond 2^64 - 2 is 0, and *out_big is
 * where its text begins, NUL-terminated and without leading zeros. */
static bool take_bound(char **at, char end, uint64_t *out_value, char **out_big) {
    char *from = *at;
    uint64_t value = 0;
    bool is_big = false;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        is_big = is_big || value > (ORR_RANGE_WHOLE - 1 - digit) / 10;
        value = is_big ? 0 : 10 * value + digit;
    }
    bool is_bound = *at > from && **at == end;
    *out_value = value;
    *out_big = is_big && is_bound ? from + strspn(from, "0") : NULL;
    if (!is_bound)
        return false;
    *(*at)++ = '\0';
    return true;
}

/* "name" or "name[lo:hi]", which is cut into pieces. out_big: bounds beyond 64 bits, or NULL. */
static bool parse_access(char *text, struct orr_stream_access *access, char *out_big[2]) {
    char *end = text;
    while (is_name_char(*end))
        end++;
    access->lo = 0;
    access->hi = ORR_RANGE_WHOLE;
    out_big[0] = out_big[1] = NULL;
    if (end == text || *end == '\0')
        return end > text;
    if (*end != '[')
        return false;
    *end++ = '\0';
    return take_bound(&end, ':', &access->lo, &out_big[0]) &&
           take_bound(&end, ']', &access->hi, &out_big[1]) && *end == '\0';
}

static bool grow_accesses(struct orr_stream_program_reader *reader, bool is_write) {
    struct orr__gathered_op *op = &reader->op;
    size_t needed = (size_t)op->access_count[is_write] + 1;
    return orr_memory_grow(reader->memory, &op->accesses[is_write], &op->access_capacity[is_write],
                           needed, sizeof **op->accesses, ITEMS_MAX) == ORR_OK &&
           orr_memory_grow(reader->memory, &op->bounds[is_write], &op->bound_capacity[is_write],
                           2 * needed, sizeof **op->bounds, ITEMS_MAX) == ORR_OK;
}

/* The first item of reads or writes that is no access, kept as it was. */
static void keep_wrong_access(struct orr__gathered_op *op, bool is_write,
                              const struct orr__json_value *value) {
    if (!(op->wrong & (ORR__FIELD_BIT(READS) | ORR__FIELD_BIT(WRITES)))) {
        op->wrong_item = op->access_count[is_write];
        op->wrong_text = keep_text(op, value, false);
    }
    op->wrong |= is_write ? ORR__FIELD_BIT(WRITES) : ORR__FIELD_BIT(READS);
}

bool orr__reader_op_access(struct orr_stream_program_reader *reader, bool is_write,
                           const struct orr__json_value *value) {
    struct orr__gathered_op *op = &reader->op;
    if (op->wrong & (is_write ? ORR__FIELD_BIT(WRITES) : ORR__FIELD_BIT(READS)))
        return true;
    struct orr_stream_access access = {.is_write = is_write};
    char *big[2] = {NULL, NULL};
    size_t at = keep_text(op, value, false);
    if (op->text.failed || !grow_accesses(reader, is_write))
        return false;
    if (value->kind != ORR__JSON_STRING || !parse_access(op->text.data + at, &access, big)) {
        op->text.length = at;
        keep_wrong_access(op, is_write, value);
        return !op->text.failed;
    }
    enum orr_status status = orr_stream_program_name(reader->line.program, ORR_NAME_BUFFER,
                                                     op->text.data + at, &access.buffer);
    size_t *bounds = op->bounds[is_write] + 2 * (size_t)op->access_count[is_write];
    for (int i = 0; i < 2; i++)
        bounds[i] = big[i] ? (size_t)(big[i] - op->text.data) : 0;
    if (!big[0] && !big[1])
        op->text.length = at; /* its text is not needed any more */
    op->accesses[is_write][op->access_count[is_write]++] = access;
    return status == ORR_OK;
}

bool orr__reader_op_device(struct orr_stream_program_reader *reader,
                           const struct orr__json_value *value) {
    struct orr__gathered_op *op = &reader->op;
    uint64_t device;
    if (value->kind != ORR__JSON_NUMBER ||
        !orr__reader_integer(reader, value->text, ORR_NONE - 1, &device)) {
        op->wrong |= ORR__FIELD_BIT(DEVS);
        return true;
    }
    if (orr_memory_grow(reader->memory, &op->devices, &op->device_capacity,
                        (size_t)op->device_count + 1, sizeof *op->devices, ITEMS_MAX) != ORR_OK)
        return false;
    op->devices[op->device_count++] = (uint32_t)device;
    return true;
}

bool orr__reader_op_word(struct orr_stream_program_reader *reader,
                         const struct orr__json_value *value) {
    struct orr__gathered_op *op = &reader->op;
    bool is_body = reader->places[reader->place_count - 1] == ORR__AT_BODY;
    if (is_body && value->kind == ORR__JSON_ARRAY) {
        op->step_words = 0;
        orr__reader_open(reader, ORR__AT_STEP);
        return true;
    }
    if (is_body || value->kind != ORR__JSON_STRING || op->step_words == ORR__STEP_WORDS) {
        op->wrong |= ORR__FIELD_BIT(BODY);
        return true;
    }
    op->step_texts[op->step_words++] = keep_text(op, value, false);
    return !op->text.failed;
}

bool orr__reader_op_step(struct orr_stream_program_reader *reader) {
    struct orr__gathered_op *op = &reader->op;
    if (op->step_words != ORR__STEP_WORDS)
        op->wrong |= ORR__FIELD_BIT(BODY);
    if (op->wrong & ORR__FIELD_BIT(BODY))
        return true;
    struct orr_stream_step step = {.kind = orr__stream_op_find(op->text.data + op->step_texts[0])};
    bool is_lock = step.kind == ORR_OP_LOCK || step.kind == ORR_OP_UNLOCK;
    if (!is_lock && step.kind != ORR_OP_SYNC_STREAM) {
        op->unknown_step = op->has_unknown_step ? op->unknown_step : op->step_texts[0];
        op->has_unknown_step = true;
        return true;
    }
    if (orr_stream_program_name(reader->line.program, is_lock ? ORR_NAME_LOCK : ORR_NAME_STREAM,
                                op->text.data + op->step_texts[1], &step.object) != ORR_OK ||
        orr_memory_grow(reader->memory, &op->steps, &op->step_capacity, (size_t)op->step_count + 1,
                        sizeof *op->steps, ITEMS_MAX) != ORR_OK)
        return false;
    op->steps[op->step_count++] = step;
    return true;
}

/* --- the end of an operation --- */

static const char *text_of(const struct orr__gathered_op *op, enum orr__op_field field) {
    return op->text.data + op->texts[field];
}

static bool has(const struct orr__gathered_op *op, enum orr__op_field field) {
    return field < ORR__FIELDS && (op->seen >> field & 1);
}

static void say_wrong_field(struct orr_stream_program_reader *reader, uint32_t index,
                            enum orr__op_field field) {
    struct orr__gathered_op *op = &reader->op;
    char shown[ORR__SHOWN_MAX];
    bool is_access = field == ORR__FIELD_READS || field == ORR__FIELD_WRITES;
    if (is_access && op->access_count[field == ORR__FIELD_WRITES] == op->wrong_item &&
        op->wrong_text < op->text.length)
        orr__reader_wrong(reader,
                          "ops[%u].%s[%u]: '%s' is no access; expected \"name\" or \"name[lo:hi]\"",
                          index, orr__op_field_text(field), op->wrong_item,
                          orr__shown(op->text.data + op->wrong_text, shown));
    else
        orr__reader_wrong(reader, "ops[%u].%s: expected %s", index, orr__op_field_text(field),
                          orr__op_field_expected(field));
}

/* The operation's kind, if its name and the types of its fields are right. */
static bool find_kind(struct orr_stream_program_reader *reader, uint32_t index,
                      enum orr_stream_op_kind *out_kind) {
    struct orr__gathered_op *op = &reader->op;
    char shown[ORR__SHOWN_MAX];
    *out_kind = ORR_OP_COUNT;
    if (!has(op, ORR__FIELD_OP) || (op->wrong & ORR__FIELD_BIT(OP))) {
        orr__reader_wrong(reader, "ops[%u].op: %s; expected the name of an operation, a string",
                          index, has(op, ORR__FIELD_OP) ? "no string" : "missing");
        return false;
    }
    const char *name = text_of(op, ORR__FIELD_OP);
    *out_kind = orr__stream_op_find(name);
    if (*out_kind == ORR_OP_COUNT) {
        const char *names[ORR_OP_COUNT];
        for (int i = 0; i < ORR_OP_COUNT; i++)
            names[i] = orr_stream_op_text((enum orr_stream_op_kind)i);
        const char *nearest = orr_nearest_name(name, names, ORR_OP_COUNT);
        orr__reader_wrong(reader, "ops[%u].op: '%s' is unknown; %s%s%s", index,
                          orr__shown(name, shown),
                          nearest ? "did you mean '" : "expected the name of an operation",
                          nearest ? nearest : "", nearest ? "'?" : "");
        return false;
    }
    uint32_t wrong = op->wrong & orr__op_fields(*out_kind);
    for (int field = 0; field < ORR__FIELDS; field++)
        if (wrong >> field & 1) {
            say_wrong_field(reader, index, (enum orr__op_field)field);
            return false;
        }
    return true;
}

static bool intern(struct orr_stream_program_reader *reader, enum orr__op_field field,
                   uint32_t *out_id) {
    if (!has(&reader->op, field) || (reader->op.wrong >> field & 1))
        return true;
    return orr_stream_program_name(reader->line.program, orr__op_field_space(field),
                                   text_of(&reader->op, field), out_id) == ORR_OK;
}

/* Who makes the call of a collective: the field, or the host's name as a string. */
static bool intern_rank(struct orr_stream_program_reader *reader, struct orr_stream_op *made) {
    if (has(&reader->op, ORR__FIELD_RANK))
        return intern(reader, ORR__FIELD_RANK, &made->rank);
    struct orr_stream_program *program = reader->line.program;
    struct orr__builder text = {.memory = reader->memory};
    orr__build_json_string(&text, orr_stream_program_text(program, ORR_NAME_HOST, made->host));
    bool kept = !text.failed &&
                orr_stream_program_name(program, ORR_NAME_RANK, text.data, &made->rank) == ORR_OK;
    orr__builder_clear(&text);
    return kept;
}

static bool intern_fields(struct orr_stream_program_reader *reader, struct orr_stream_op *made) {
    struct orr__gathered_op *op = &reader->op;
    enum orr_stream_op_kind kind = (enum orr_stream_op_kind)made->kind;
    uint32_t fields = orr__op_fields(kind);
    made->host = 0;
    if (!intern(reader, ORR__FIELD_HOST, &made->host) ||
        !intern(reader, orr__op_object_field(kind), &made->object) ||
        !intern(reader, orr__op_other_field(kind), &made->other) ||
        !intern(reader, ORR__FIELD_SITE, &made->site) ||
        !intern(reader, ORR__FIELD_LABEL, &made->label))
        return false;
    if ((fields & ORR__FIELD_BIT(STREAM)) && !intern(reader, ORR__FIELD_STREAM, &made->stream))
        return false;
    if ((fields & ORR__FIELD_BIT(RANK)) && !intern_rank(reader, made))
        return false;
    if ((fields & ORR__FIELD_BIT(KIND)) && !intern(reader, ORR__FIELD_KIND, &made->word))
        return false;
    bool is_one = has(op, ORR__FIELD_COUNT) && strcmp(text_of(op, ORR__FIELD_COUNT), "1") == 0;
    if ((fields & ORR__FIELD_BIT(COUNT)) && !is_one &&
        !intern(reader, ORR__FIELD_COUNT, &made->count))
        return false;
    made->device = fields & ORR__FIELD_BIT(DEV) ? op->device : 0;
    made->ignored = (fields & ORR__FIELD_BIT(IGNORED)) && op->is_ignored;
    return true;
}

/* Bounds beyond 64 bits of `count` accesses, which are number `first` and so on of the program. */
static bool add_bounds(struct orr_stream_program_reader *reader, bool is_write, uint32_t first,
                       uint32_t count) {
    struct orr__gathered_op *op = &reader->op;
    for (uint32_t i = 0; i < 2 * count; i++)
        if (op->bounds[is_write][i] > 0 &&
            !orr__reader_bounds_add(reader, first + i / 2, i % 2,
                                    op->text.data + op->bounds[is_write][i]))
            return false;
    return true;
}

static bool add_accesses(struct orr_stream_program_reader *reader,
                         const struct orr_stream_op *made) {
    struct orr__gathered_op *op = &reader->op;
    struct orr_stream_program *program = reader->line.program;
    bool has_accesses = orr__op_fields((enum orr_stream_op_kind)made->kind) & ORR__FIELD_BIT(READS);
    uint32_t reads = has_accesses && has(op, ORR__FIELD_READS) ? op->access_count[0] : 0;
    uint32_t writes = has_accesses && has(op, ORR__FIELD_WRITES) ? op->access_count[1] : 0;
    if (orr_memory_grow(reader->memory, &op->accesses[0], &op->access_capacity[0],
                        (size_t)reads + writes, sizeof **op->accesses, ITEMS_MAX) != ORR_OK)
        return false;
    if (writes > 0)
        memcpy(op->accesses[0] + reads, op->accesses[1], writes * sizeof **op->accesses);
    uint32_t first = program->access_count;
    return orr_stream_program_add(program, made, op->accesses[0], reads + writes) == ORR_OK &&
           add_bounds(reader, false, first, reads) &&
           add_bounds(reader, true, first + reads, writes);
}

static bool add_lists(struct orr_stream_program_reader *reader, enum orr_stream_op_kind kind) {
    struct orr__gathered_op *op = &reader->op;
    struct orr_stream_program *program = reader->line.program;
    uint32_t fields = orr__op_fields(kind) & op->seen;
    enum orr_status status = ORR_OK;
    if (fields & ORR__FIELD_BIT(BODY))
        for (uint32_t i = 0; status == ORR_OK && i < op->step_count; i++)
            status = orr_stream_program_add_step(program, op->steps[i]);
    if (!(fields & ORR__FIELD_BIT(DEVS)))
        return status == ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < op->device_count; i++)
        status = orr_stream_program_add_device(program, op->devices[i]);
    if (status == ORR_OK && op->device_count == 0)
        status = orr_stream_program_add_device(program, ORR_NONE); /* an empty list: no device */
    return status == ORR_OK;
}

/* What is not in the program but must be known when all of it is judged. */
static bool keep_facts(struct orr_stream_program_reader *reader, uint32_t index,
                       enum orr_stream_op_kind kind) {
    struct orr__gathered_op *op = &reader->op;
    struct orr__program_facts *facts = &reader->facts;
    if (kind == ORR_OP_HOST_READ && !has(op, ORR__FIELD_READS) && facts->no_reads == ORR_NONE)
        facts->no_reads = index;
    if (kind == ORR_OP_HOST_WRITE && !has(op, ORR__FIELD_WRITES) && facts->no_writes == ORR_NONE)
        facts->no_writes = index;
    if (kind != ORR_OP_HOSTFN || !has(op, ORR__FIELD_BODY) || !op->has_unknown_step ||
        facts->unknown_step != ORR_NONE)
        return true;
    facts->unknown_step = index;
    return orr_stream_program_name(reader->line.program, ORR_NAME_WORD,
                                   op->text.data + op->unknown_step, &facts->step_word) == ORR_OK;
}

bool orr__reader_op_end(struct orr_stream_program_reader *reader) {
    uint32_t index = reader->line.program->op_count;
    enum orr_stream_op_kind kind;
    if (!find_kind(reader, index, &kind))
        return true;
    struct orr_stream_op made = orr_stream_op(kind);
    return intern_fields(reader, &made) && add_accesses(reader, &made) && add_lists(reader, kind) &&
           keep_facts(reader, index, kind);
}
