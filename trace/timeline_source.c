#include "trace/timeline_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "source_";
static const char *const formats[] = {"orrery", "kineto", "nsys"};

/* What is no number; schema.sql says what the values are. */
static const char *const facts[] = {"format", "time_base_ns", "knows_waits", "knows_syncs"};

struct number {
    const char *name;
    size_t offset; /* in struct orr_timeline_source */
};

static const struct number numbers[] = {
#define NUMBER(member) {#member, offsetof(struct orr_timeline_source, member)},
    ORR_SOURCE_NUMBER_LIST(NUMBER)
#undef NUMBER
};

enum { FACT_COUNT = sizeof facts / sizeof *facts, NUMBER_COUNT = sizeof numbers / sizeof *numbers };
_Static_assert((int)FACT_COUNT + (int)NUMBER_COUNT <= (int)ORR__SOURCE_ROWS_MAX, "room for all");

/* The member's number in facts, or FACT_COUNT + its number in numbers; -1: none. */
static int find(const char *key) {
    if (strncmp(key, prefix, sizeof prefix - 1) != 0)
        return -1;
    key += sizeof prefix - 1;
    for (int i = 0; i < FACT_COUNT; i++)
        if (strcmp(key, facts[i]) == 0)
            return i;
    for (int i = 0; i < NUMBER_COUNT; i++)
        if (strcmp(key, numbers[i].name) == 0)
            return FACT_COUNT + i;
    return -1;
}

bool orr__source_key(const char *key) {
    return find(key) >= 0;
}

static uint64_t get(const struct orr_timeline_source *source, size_t offset) {
    uint64_t value;
    memcpy(&value, (const unsigned char *)source + offset, sizeof value);
    return value;
}

static bool is_import(const struct orr_timeline_source *source) {
    return strcmp(source->format, formats[0]) != 0;
}

static struct orr__source_row *add(struct orr__source_row *rows, size_t *count, const char *name) {
    struct orr__source_row *row = &rows[(*count)++];
    snprintf(row->key, sizeof row->key, "%s%s", prefix, name);
    return row;
}

size_t orr__source_rows(const struct orr_timeline *timeline,
                        struct orr__source_row rows[ORR__SOURCE_ROWS_MAX]) {
    const struct orr_timeline_source *source = &timeline->source;
    struct orr__source_row *row;
    size_t count = 0;
    if (is_import(source)) {
        row = add(rows, &count, facts[0]);
        snprintf(row->value, sizeof row->value, "%s", source->format);
    }
    if (source->has_time_base) {
        row = add(rows, &count, facts[1]);
        snprintf(row->value, sizeof row->value, "%lld", (long long)source->time_base_ns);
    }
    if (is_import(source) || !source->knows_waits || !source->knows_syncs) {
        row = add(rows, &count, facts[2]);
        snprintf(row->value, sizeof row->value, "%s", source->knows_waits ? "true" : "false");
        row = add(rows, &count, facts[3]);
        snprintf(row->value, sizeof row->value, "%s", source->knows_syncs ? "true" : "false");
    }
    for (int i = 0; i < NUMBER_COUNT; i++) {
        uint64_t value = get(source, numbers[i].offset);
        if (value == ORR_SOURCE_NONE)
            continue;
        row = add(rows, &count, numbers[i].name);
        snprintf(row->value, sizeof row->value, "%llu", (unsigned long long)value);
    }
    return count;
}

static void set_format(struct orr_timeline *timeline, const char *value) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(value, formats[i]) == 0)
            timeline->source.format = formats[i];
}

static void set_time_base(struct orr_timeline_source *source, const char *value) {
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno == 0 && end != value && *end == '\0') {
        source->has_time_base = true;
        source->time_base_ns = number;
    }
}

static void set_number(struct orr_timeline_source *source, size_t offset, const char *value) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    uint64_t exact = (uint64_t)number;
    if (errno == 0 && end != value && *end == '\0' && value[0] != '-')
        memcpy((unsigned char *)source + offset, &exact, sizeof exact);
}

static void set(struct orr_timeline *timeline, int member, const char *value) {
    struct orr_timeline_source *source = &timeline->source;
    switch (member) {
    case 0: set_format(timeline, value); break;
    case 1: set_time_base(source, value); break;
    case 2: source->knows_waits = strcmp(value, "true") == 0; break;
    case 3: source->knows_syncs = strcmp(value, "true") == 0; break;
    default: set_number(source, numbers[member - FACT_COUNT].offset, value); break;
    }
}

void orr__source_from_meta(struct orr_timeline *timeline) {
    for (size_t i = 0; i < timeline->meta_count; i++)
        if (find(timeline->meta[i].key) >= 0)
            set(timeline, find(timeline->meta[i].key), timeline->meta[i].value);
    bool import = is_import(&timeline->source);
    size_t kept = 0;
    for (size_t i = 0; i < timeline->meta_count; i++) {
        const char *key = timeline->meta[i].key;
        if (find(key) < 0 && !(import && strcmp(key, "schema_version") == 0))
            timeline->meta[kept++] = timeline->meta[i];
    }
    timeline->meta_count = kept;
}
