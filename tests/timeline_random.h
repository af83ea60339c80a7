/* Timelines of random values, and whether two are equal in every field.
 *
 *     struct orr_timeline *timeline = timeline_random(&memory, seed, TIMELINE_IMPORTED);
 *     const char *difference = timeline_difference(timeline, other, text);
 *     assert_null(difference);
 *     orr_timeline_destroy(&timeline);
 *
 * Values are drawn for every member alike, extreme ones often; what must hold of a timeline does
 * (ids ascend, arrays are sorted, codes are known ones). Nothing else does: references lead
 * nowhere, ends lie before begins.
 *
 * Out of memory ends the test program; this is test code. Threads: one. */
#ifndef ORR_TESTS_TIMELINE_RANDOM_H
#define ORR_TESTS_TIMELINE_RANDOM_H

#include "trace/timeline.h"

enum timeline_sort { TIMELINE_OWN, TIMELINE_IMPORTED };

enum { TIMELINE_DIFFERENCE_MAX = 256 };

struct orr_timeline *timeline_random(const struct orr_memory *memory, uint64_t seed,
                                     enum timeline_sort sort);

/* What differs first, in `text`: "commands[3].flops"; NULL: nothing. */
const char *timeline_difference(const struct orr_timeline *a, const struct orr_timeline *b,
                                char text[TIMELINE_DIFFERENCE_MAX]);

#endif
