#include "trace/timeline_pack.h"

#include <string.h>

#include "trace/text_ids.h"
#include "trace/timeline_arrays.h"
#include "trace/timeline_sort.h"
#include "trace/timeline_source.h"
#include "trace/timeline_texts.h"

enum { PREDICTORS = 3, LEB_MAX = 10 };

/* -- Bytes that grow --------------------------------------------------------------------------- */

struct bytes {
    const struct orr_memory *memory;
    unsigned char *items;
    size_t count, capacity;
    bool failed;
};

static bool make_room(struct bytes *bytes, size_t more) {
    if (bytes->capacity - bytes->count >= more)
        return true;
    if (!bytes->failed && orr_memory_grow(bytes->memory, &bytes->items, &bytes->capacity,
                                          bytes->count + more, 1, SIZE_MAX / 2) != ORR_OK)
        bytes->failed = true;
    return !bytes->failed;
}

static void put_number(struct bytes *bytes, uint64_t number) {
    if (!make_room(bytes, LEB_MAX))
        return;
    for (; number >= 128; number >>= 7)
        bytes->items[bytes->count++] = (unsigned char)(number | 128);
    bytes->items[bytes->count++] = (unsigned char)number;
}

static void put_text(struct bytes *bytes, const char *text) {
    size_t length = strlen(text);
    put_number(bytes, length);
    if (bytes->failed || length == 0 || !make_room(bytes, length))
        return;
    memcpy(bytes->items + bytes->count, text, length);
    bytes->count += length;
}

/* -- Values ------------------------------------------------------------------------------------ */

struct packer {
    const struct orr_timeline *timeline;
    struct orr__text_ids *ids;
    uint64_t *values, *before; /* of a column, and of the one before it */
    size_t capacity;
    struct bytes out;
};

static uint64_t load(struct packer *packer, const struct orr__member *member,
                     const unsigned char *at) {
    uint64_t wide = 0;
    uint32_t narrow;
    const char *text;
    switch ((enum orr__member_type)member->type) {
    case ORR__MEMBER_U8:
    case ORR__MEMBER_BOOL: return *at;
    case ORR__MEMBER_ENUM:
    case ORR__MEMBER_DTYPE:
    case ORR__MEMBER_U32: memcpy(&narrow, at, sizeof narrow); return narrow;
    case ORR__MEMBER_TEXT:
        memcpy(&text, at, sizeof text);
        wide = orr__text_ids_of(packer->ids, text);
        packer->out.failed |= wide == 0;
        return wide;
    case ORR__MEMBER_U64:
    case ORR__MEMBER_I64:
    case ORR__MEMBER_REAL: break;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static uint64_t predict(unsigned predictor, const uint64_t *values, const uint64_t *before,
                        size_t index) {
    if (predictor == 1)
        return index > 0 ? values[index - 1] : 0;
    return predictor == 2 ? before[index] : 0;
}

static uint64_t zigzag(uint64_t residual) {
    return residual << 1 ^ (0 - (residual >> 63));
}

static uint64_t unzigzag(uint64_t number) {
    return number >> 1 ^ (0 - (number & 1));
}

static size_t leb_size(uint64_t number) {
    size_t size = 1;
    for (; number >= 128; number >>= 7)
        size++;
    return size;
}

/* Bytes of a column with this predictor; into `out`, unless that is NULL. */
static size_t encode(const uint64_t *values, const uint64_t *before, size_t count,
                     unsigned predictor, struct bytes *out) {
    size_t size = 0;
    for (size_t i = 0; i < count;) {
        uint64_t residual = values[i] - predict(predictor, values, before, i);
        size_t run = 1;
        while (run < ORR__PACK_RUN_MAX + 2 && i + run < count &&
               values[i + run] - predict(predictor, values, before, i + run) == residual)
            run++;
        uint64_t number = zigzag(residual);
        size += leb_size(number) * (run > 1 ? 2 : 1) + (run > 1);
        if (out) {
            put_number(out, number);
            if (run > 1) {
                put_number(out, number);
                put_number(out, run - 2);
            }
        }
        i += run;
    }
    return size;
}

static void pack_column(struct packer *packer, size_t count) {
    unsigned best = 0;
    size_t best_size = SIZE_MAX;
    for (unsigned predictor = 0; predictor < PREDICTORS; predictor++) {
        size_t size = encode(packer->values, packer->before, count, predictor, NULL);
        if (size < best_size) {
            best = predictor;
            best_size = size;
        }
    }
    put_number(&packer->out, best);
    encode(packer->values, packer->before, count, best, &packer->out);
}

static void pack_member(struct packer *packer, const struct orr__array *array,
                        const struct orr__member *member, size_t count) {
    const unsigned char *items = orr__array_items(packer->timeline, array);
    for (size_t k = 0; k < member->repeat; k++) {
        size_t offset = member->offset + k * orr__member_size(member);
        for (size_t i = 0; i < count; i++)
            packer->values[i] = load(packer, member, items + i * array->size + offset);
        pack_column(packer, count);
        uint64_t *spare = packer->before;
        packer->before = packer->values;
        packer->values = spare;
    }
}

static void pack_array(struct packer *packer, const struct orr__array *array) {
    size_t count = orr__array_count(packer->timeline, array);
    put_number(&packer->out, count);
    if (count > 0)
        memset(packer->before, 0, count * sizeof *packer->before);
    for (size_t m = 0; m < array->member_count && count > 0; m++)
        pack_member(packer, array, &array->members[m], count);
}

static void pack_source(struct packer *packer) {
    struct orr__source_row rows[ORR__SOURCE_ROWS_MAX];
    size_t count = orr__source_rows(packer->timeline, rows);
    put_number(&packer->out, count);
    for (size_t i = 0; i < count; i++) {
        put_text(&packer->out, rows[i].key);
        put_text(&packer->out, rows[i].value);
    }
}

uint32_t orr__timeline_pack_fingerprint(void) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t a = 0; a < ORR__ARRAY_COUNT; a++)
        for (size_t m = 0; m < orr__arrays[a].member_count; m++) {
            const struct orr__member *member = &orr__arrays[a].members[m];
            for (const char *at = member->name; *at != '\0'; at++)
                hash = (hash ^ (unsigned char)*at) * 16777619u;
            hash = (hash ^ member->type) * 16777619u;
            hash = (hash ^ member->repeat) * 16777619u;
        }
    return hash;
}

/* Texts come first for the reader, and are known last: the arrays are packed apart. */
static void pack_texts(struct packer *packer, struct bytes *head) {
    put_number(head, ORR__PACK_VERSION);
    put_number(head, orr__timeline_pack_fingerprint());
    put_number(head, orr__text_ids_count(packer->ids) - 1);
    for (uint32_t id = 1; id < orr__text_ids_count(packer->ids); id++)
        put_text(head, orr__text_ids_text(packer->ids, id));
}

static size_t longest_array(const struct orr_timeline *timeline) {
    size_t most = 0;
    for (size_t i = 0; i < ORR__ARRAY_COUNT; i++)
        if (orr__array_count(timeline, &orr__arrays[i]) > most)
            most = orr__array_count(timeline, &orr__arrays[i]);
    return most;
}

static bool join(struct bytes *head, const struct bytes *body) {
    if (head->failed || body->failed || !make_room(head, body->count))
        return false;
    if (body->count > 0)
        memcpy(head->items + head->count, body->items, body->count);
    head->count += body->count;
    return true;
}

enum orr_status orr__timeline_pack(const struct orr_timeline *timeline,
                                   const struct orr_memory *memory, unsigned char **out_bytes,
                                   size_t *out_size) {
    size_t longest = longest_array(timeline);
    struct packer packer = {.timeline = timeline, .out = {.memory = memory}};
    struct bytes head = {.memory = memory};
    *out_bytes = NULL;
    *out_size = 0;
    packer.values = orr_memory_alloc(memory, (longest + 1) * sizeof *packer.values);
    packer.before = orr_memory_alloc(memory, (longest + 1) * sizeof *packer.before);
    enum orr_status status = orr__text_ids_create(memory, &packer.ids);
    if (!packer.values || !packer.before)
        status = ORR_NO_MEMORY;
    if (status == ORR_OK) {
        pack_source(&packer);
        for (size_t i = 0; i < ORR__ARRAY_COUNT; i++)
            pack_array(&packer, &orr__arrays[i]);
        pack_texts(&packer, &head);
        status = join(&head, &packer.out) ? ORR_OK : ORR_NO_MEMORY;
    }
    orr_memory_free(memory, packer.values);
    orr_memory_free(memory, packer.before);
    orr__text_ids_destroy(&packer.ids);
    orr_memory_free(memory, packer.out.items);
    if (status != ORR_OK) {
        orr_memory_free(memory, head.items);
        return status;
    }
    *out_bytes = head.items;
    *out_size = head.count;
    return ORR_OK;
}

/* -- Reading ----------------------------------------------------------------------------------- */

struct unpacker {
    const struct orr_memory *memory;
    const unsigned char *at, *end;
    struct orr_timeline *timeline;
    struct orr__texts *storage;
    const char **texts; /* by number; [0] unused */
    uint64_t text_count;
    uint64_t *values, *before;
    size_t capacity;
    enum orr_status status; /* the first failure */
    const char *why, *where;
};

static void fail(struct unpacker *unpacker, enum orr_status status, const char *why) {
    if (unpacker->status != ORR_OK)
        return;
    unpacker->status = status;
    unpacker->why = why;
}

static uint64_t take_number(struct unpacker *unpacker) {
    uint64_t number = 0;
    for (unsigned shift = 0; unpacker->at < unpacker->end && shift < 64; shift += 7) {
        unsigned char byte = *unpacker->at++;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    fail(unpacker, ORR_INVALID, "it ends too early");
    unpacker->at = unpacker->end;
    return 0;
}

static const char *take_text(struct unpacker *unpacker) {
    uint64_t length = take_number(unpacker);
    if (length > (uint64_t)(unpacker->end - unpacker->at)) {
        fail(unpacker, ORR_INVALID, "a text ends too early");
        return "";
    }
    const char *text = (const char *)unpacker->at;
    unpacker->at += length;
    if (length > 0 && memchr(text, '\0', (size_t)length))
        fail(unpacker, ORR_INVALID, "a text has a zero in it");
    const char *copy = orr__texts_add(unpacker->memory, &unpacker->storage, text, (size_t)length);
    if (!copy)
        fail(unpacker, ORR_NO_MEMORY, "no memory");
    return copy ? copy : "";
}

static void unpack_texts(struct unpacker *unpacker) {
    uint64_t count = take_number(unpacker);
    if (count > (uint64_t)(unpacker->end - unpacker->at)) { /* each takes a byte at least */
        fail(unpacker, ORR_INVALID, "more texts than bytes");
        return;
    }
    unpacker->texts = orr_memory_alloc(unpacker->memory, (size_t)(count + 1) * sizeof(char *));
    if (!unpacker->texts) {
        fail(unpacker, ORR_NO_MEMORY, "no memory");
        return;
    }
    for (uint64_t id = 1; id <= count && unpacker->status == ORR_OK; id++)
        unpacker->texts[id] = take_text(unpacker);
    unpacker->text_count = count;
}

/* Rows of meta for a moment, because that is how they are read. */
static void unpack_source(struct unpacker *unpacker) {
    struct orr_timeline_meta rows[ORR__SOURCE_ROWS_MAX];
    uint64_t count = take_number(unpacker);
    if (count > ORR__SOURCE_ROWS_MAX) {
        fail(unpacker, ORR_INVALID, "too much about its source");
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        rows[i].key = take_text(unpacker);
        rows[i].value = take_text(unpacker);
    }
    if (unpacker->status != ORR_OK)
        return;
    unpacker->timeline->meta = rows;
    unpacker->timeline->meta_count = (size_t)count;
    orr__source_from_meta(unpacker->timeline);
    unpacker->timeline->meta = NULL;
    unpacker->timeline->meta_count = 0;
}

static void unpack_column(struct unpacker *unpacker, size_t count) {
    uint64_t predictor = take_number(unpacker);
    if (predictor >= PREDICTORS)
        fail(unpacker, ORR_INVALID, "an unknown predictor");
    uint64_t residual = 0, last = 0;
    size_t repeats = 0; /* of `last` so far; 2 ask for a run */
    for (size_t i = 0; i < count && unpacker->status == ORR_OK;) {
        residual = unzigzag(take_number(unpacker));
        repeats = repeats > 0 && residual == last ? repeats + 1 : 1;
        last = residual;
        uint64_t run = 1;
        if (repeats == 2) {
            run += take_number(unpacker);
            repeats = 0;
        }
        if (run > ORR__PACK_RUN_MAX + 1 || run > count - i) {
            fail(unpacker, ORR_INVALID, "a run is too long");
            return;
        }
        for (; run > 0; run--, i++)
            unpacker->values[i] =
                residual + predict((unsigned)predictor, unpacker->values, unpacker->before, i);
    }
}

/* True if the value has sense for the member; then it is stored. */
static bool store(const struct unpacker *unpacker, const struct orr__member *member, uint64_t value,
                  unsigned char *at) {
    uint8_t byte = (uint8_t)value;
    uint32_t narrow = (uint32_t)value;
    bool truth = value != 0;
    switch ((enum orr__member_type)member->type) {
    case ORR__MEMBER_U8:
        memcpy(at, &byte, sizeof byte);
        return value < (member->limit ? member->limit : 256);
    case ORR__MEMBER_BOOL: memcpy(at, &truth, sizeof truth); return value <= 1;
    case ORR__MEMBER_ENUM:
        memcpy(at, &narrow, sizeof narrow);
        return value <= UINT32_MAX && (member->limit == 0 || value < member->limit);
    case ORR__MEMBER_DTYPE:
        memcpy(at, &narrow, sizeof narrow);
        return value < ORR_DTYPE_COUNT || value == ORR_DTYPE_NONE;
    case ORR__MEMBER_U32: memcpy(at, &narrow, sizeof narrow); return value <= UINT32_MAX;
    case ORR__MEMBER_TEXT:
        if (value == 0 || value > unpacker->text_count)
            return false;
        memcpy(at, &unpacker->texts[value], sizeof unpacker->texts[value]);
        return true;
    case ORR__MEMBER_U64:
    case ORR__MEMBER_I64:
    case ORR__MEMBER_REAL: break;
    }
    memcpy(at, &value, sizeof value);
    return true;
}

static void unpack_member(struct unpacker *unpacker, const struct orr__array *array,
                          const struct orr__member *member, unsigned char *items, size_t count) {
    for (size_t k = 0; k < member->repeat && unpacker->status == ORR_OK; k++) {
        size_t offset = member->offset + k * orr__member_size(member);
        unpack_column(unpacker, count);
        for (size_t i = 0; i < count && unpacker->status == ORR_OK; i++)
            if (!store(unpacker, member, unpacker->values[i], items + i * array->size + offset))
                fail(unpacker, ORR_INVALID, "a value has no sense");
        uint64_t *spare = unpacker->before;
        unpacker->before = unpacker->values;
        unpacker->values = spare;
    }
}

static size_t columns_of(const struct orr__array *array) {
    size_t columns = 0;
    for (size_t m = 0; m < array->member_count; m++)
        columns += array->members[m].repeat;
    return columns;
}

/* Room for the values of `count` items, if the bytes that are left can hold as many. */
static bool prepare(struct unpacker *unpacker, const struct orr__array *array, uint64_t count) {
    uint64_t left = (uint64_t)(unpacker->end - unpacker->at), columns = columns_of(array);
    if (count > 0 && (left / columns + 1) * (ORR__PACK_RUN_MAX + 2) < count) {
        fail(unpacker, ORR_INVALID, "more items than bytes");
        return false;
    }
    if (count > unpacker->capacity) {
        orr_memory_free(unpacker->memory, unpacker->values);
        orr_memory_free(unpacker->memory, unpacker->before);
        unpacker->capacity = (size_t)count;
        unpacker->values = orr_memory_alloc(unpacker->memory, (size_t)count * sizeof(uint64_t));
        unpacker->before = orr_memory_alloc(unpacker->memory, (size_t)count * sizeof(uint64_t));
    }
    if (count > 0 && (!unpacker->values || !unpacker->before)) {
        fail(unpacker, ORR_NO_MEMORY, "no memory");
        return false;
    }
    return true;
}

/* Ids must ascend: look-ups rely on it. */
static void check_ids(struct unpacker *unpacker, const struct orr__array *array,
                      const unsigned char *items, size_t count) {
    uint64_t last = 0;
    for (size_t i = 0; i < count && array->id_size > 0; i++) {
        uint64_t id = 0;
        uint32_t narrow;
        memcpy(&narrow, items + i * array->size, sizeof narrow);
        id = narrow;
        if (array->id_size == sizeof id)
            memcpy(&id, items + i * array->size, sizeof id);
        if (i > 0 && id <= last)
            fail(unpacker, ORR_INVALID, "ids do not ascend");
        last = id;
    }
}

static void unpack_array(struct unpacker *unpacker, const struct orr__array *array) {
    uint64_t count = take_number(unpacker);
    unpacker->where = array->name;
    if (unpacker->status != ORR_OK || count == 0 || !prepare(unpacker, array, count))
        return;
    unsigned char *items = orr_memory_alloc(unpacker->memory, (size_t)count * array->size);
    if (!items) {
        fail(unpacker, ORR_NO_MEMORY, "no memory");
        return;
    }
    orr__array_set(unpacker->timeline, array, items, (size_t)count);
    memset(unpacker->before, 0, (size_t)count * sizeof *unpacker->before);
    for (size_t m = 0; m < array->member_count && unpacker->status == ORR_OK; m++)
        unpack_member(unpacker, array, &array->members[m], items, (size_t)count);
    if (unpacker->status == ORR_OK)
        check_ids(unpacker, array, items, (size_t)count);
}

static void unpack_all(struct unpacker *unpacker) {
    uint64_t version = take_number(unpacker), fingerprint = take_number(unpacker);
    if (version != ORR__PACK_VERSION || fingerprint != orr__timeline_pack_fingerprint()) {
        fail(unpacker, ORR_INVALID, "another version of Orrery wrote it");
        return;
    }
    unpack_texts(unpacker);
    if (unpacker->status == ORR_OK)
        unpack_source(unpacker);
    for (size_t i = 0; i < ORR__ARRAY_COUNT && unpacker->status == ORR_OK; i++)
        unpack_array(unpacker, &orr__arrays[i]);
    if (unpacker->status == ORR_OK && unpacker->at != unpacker->end)
        fail(unpacker, ORR_INVALID, "there is more behind its end");
    if (unpacker->status == ORR_OK &&
        orr__timeline_sort(unpacker->timeline, unpacker->memory) != ORR_OK)
        fail(unpacker, ORR_NO_MEMORY, "no memory");
}

enum orr_status orr__timeline_unpack(const unsigned char *bytes, size_t size,
                                     const struct orr_memory *memory,
                                     struct orr_timeline **out_timeline, struct orr_error *error) {
    struct unpacker unpacker = {
        .memory = memory, .at = bytes, .end = bytes + size, .why = "", .where = "its beginning"};
    *out_timeline = NULL;
    if (orr_timeline_create(memory, &unpacker.timeline) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory");
    unpack_all(&unpacker);
    unpacker.timeline->texts = unpacker.storage;
    orr_memory_free(memory, unpacker.texts);
    orr_memory_free(memory, unpacker.values);
    orr_memory_free(memory, unpacker.before);
    if (unpacker.status == ORR_OK) {
        *out_timeline = unpacker.timeline;
        return ORR_OK;
    }
    orr_timeline_destroy(&unpacker.timeline);
    return orr_error_set(error, unpacker.status, "%s: %s", unpacker.where, unpacker.why);
}
