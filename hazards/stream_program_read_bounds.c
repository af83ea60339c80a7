#include <stdlib.h>
#include <string.h>

#include "hazards/stream_program_read_internal.h"

/* Bounds of ranges that 64 bits don't hold. Only how bounds compare with each other matters, so a
 * program with such a bound has all that are LARGE or more replaced by LARGE, LARGE + 1, ... in
 * their order: first the numbers, ascending, then the texts, which are all larger. */

enum { USES_MAX = 1 << 28 };
#define LARGE (UINT64_C(1) << 63)

struct ordered {
    const char *text;
    size_t length;
    uint32_t id;
};

bool orr__reader_bounds_add(struct orr_stream_program_reader *reader, uint32_t access, bool is_hi,
                            const char *text) {
    struct orr__bounds *bounds = &reader->bounds;
    struct orr__bound_use use = {.access = access, .is_hi = is_hi};
    if (orr__name_table_add(&bounds->texts, reader->memory, text, &use.text) != ORR_OK ||
        orr_memory_grow(reader->memory, &bounds->uses, &bounds->capacity, (size_t)bounds->count + 1,
                        sizeof *bounds->uses, USES_MAX) != ORR_OK)
        return false;
    bounds->uses[bounds->count++] = use;
    return true;
}

void orr__reader_bounds_forget(struct orr_stream_program_reader *reader) {
    reader->bounds.count = 0;
    orr__name_table_clear(&reader->bounds.texts, reader->memory);
}

void orr__reader_bounds_clear(struct orr_stream_program_reader *reader) {
    orr__reader_bounds_forget(reader);
    orr_memory_free(reader->memory, reader->bounds.uses);
    reader->bounds = (struct orr__bounds){0};
}

static int by_value(const void *a, const void *b) {
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static int by_text(const void *a, const void *b) {
    const struct ordered *left = a, *right = b;
    if (left->length != right->length)
        return left->length < right->length ? -1 : 1;
    return strcmp(left->text, right->text);
}

/* Large bounds that 64 bits hold, ascending, once each; the number of them. */
static size_t collect(const struct orr_stream_program *program, uint64_t *values) {
    size_t count = 0, kept = 0;
    for (uint32_t i = 0; i < program->access_count; i++) {
        const struct orr_stream_access *access = &program->accesses[i];
        if (access->lo >= LARGE)
            values[count++] = access->lo;
        if (access->hi >= LARGE && access->hi != ORR_RANGE_WHOLE)
            values[count++] = access->hi;
    }
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || values[kept - 1] != values[i])
            values[kept++] = values[i];
    return kept;
}

static void replace(uint64_t *bound, const uint64_t *values, size_t count) {
    if (*bound < LARGE || *bound == ORR_RANGE_WHOLE)
        return;
    const uint64_t *found = bsearch(bound, values, count, sizeof *values, by_value);
    *bound = LARGE + (uint64_t)(found - values);
}

static void resolve(struct orr_stream_program_reader *reader, uint64_t *values,
                    struct ordered *texts, uint64_t *of_text) {
    struct orr_stream_program *program = reader->line.program;
    const struct orr__bounds *bounds = &reader->bounds;
    size_t count = collect(program, values);
    for (uint32_t i = 0; i < program->access_count; i++) {
        replace(&program->accesses[i].lo, values, count);
        replace(&program->accesses[i].hi, values, count);
    }
    for (uint32_t i = 0; i < bounds->texts.count; i++)
        texts[i] = (struct ordered){bounds->texts.texts[i], strlen(bounds->texts.texts[i]), i};
    qsort(texts, bounds->texts.count, sizeof *texts, by_text);
    for (uint32_t i = 0; i < bounds->texts.count; i++)
        of_text[texts[i].id] = LARGE + count + i;
    for (uint32_t i = 0; i < bounds->count; i++) {
        struct orr_stream_access *access = &program->accesses[bounds->uses[i].access];
        *(bounds->uses[i].is_hi ? &access->hi : &access->lo) = of_text[bounds->uses[i].text];
    }
}

enum orr_status orr__reader_bounds_resolve(struct orr_stream_program_reader *reader) {
    const struct orr_memory *memory = reader->memory;
    const struct orr__bounds *bounds = &reader->bounds;
    if (bounds->count == 0)
        return ORR_OK;
    uint64_t *values =
        orr_memory_alloc(memory, 2 * (size_t)reader->line.program->access_count * sizeof *values);
    struct ordered *texts = orr_memory_alloc(memory, bounds->texts.count * sizeof *texts);
    uint64_t *of_text = orr_memory_alloc(memory, bounds->texts.count * sizeof *of_text);
    bool has_memory = values && texts && of_text;
    if (has_memory)
        resolve(reader, values, texts, of_text);
    orr_memory_free(memory, values);
    orr_memory_free(memory, texts);
    orr_memory_free(memory, of_text);
    return has_memory ? ORR_OK : ORR_NO_MEMORY;
}
