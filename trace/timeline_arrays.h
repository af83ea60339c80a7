/* What a timeline consists of, as data: for whoever treats all of it alike (a whole copy in another
 * form, a comparison).
 *
 *     for (size_t a = 0; a < ORR__ARRAY_COUNT; a++) {
 *         const struct orr__array *array = &orr__arrays[a];
 *         const unsigned char *item = orr__array_items(timeline, array);
 *         for (size_t i = 0; i < orr__array_count(timeline, array); i++, item += array->size)
 *             for (size_t m = 0; m < array->member_count; m++)
 *                 use(&array->members[m], item + array->members[m].offset);
 *     }
 *
 * A member that is not listed is padding; a test compares the sizes.
 *
 * Threads: any. */
#ifndef ORR_TRACE_TIMELINE_ARRAYS_H
#define ORR_TRACE_TIMELINE_ARRAYS_H

#include <stddef.h>

#include "trace/timeline.h"

enum orr__member_type {
    ORR__MEMBER_U8,
    ORR__MEMBER_BOOL,
    ORR__MEMBER_ENUM,
    ORR__MEMBER_DTYPE, /* an enum, too */
    ORR__MEMBER_U32,
    ORR__MEMBER_U64,
    ORR__MEMBER_I64,
    ORR__MEMBER_REAL,
    ORR__MEMBER_TEXT /* const char * */
};

struct orr__member {
    const char *name;
    uint8_t type;
    uint16_t offset, repeat; /* repeat: values one after the other */
    uint32_t limit;          /* of U8, ENUM: values are below; 0: any */
};

struct orr__array {
    const char *name;          /* "commands" */
    size_t items, count, size; /* offsets in struct orr_timeline; bytes of an item */
    size_t id_size; /* items ascend by the id that is their first member; 0: they don't */
    size_t member_count;
    const struct orr__member *members;
};

enum { ORR__ARRAY_COUNT = 21 };
extern const struct orr__array orr__arrays[ORR__ARRAY_COUNT];

/* Bytes of one value. */
size_t orr__member_size(const struct orr__member *member);

void *orr__array_items(const struct orr_timeline *timeline, const struct orr__array *array);
size_t orr__array_count(const struct orr_timeline *timeline, const struct orr__array *array);
/* Gives the timeline the array; what it had is not freed. */
void orr__array_set(struct orr_timeline *timeline, const struct orr__array *array, void *items,
                    size_t count);

#endif
