/* Devices that say the same, as one row of a report: "0-7,16-23".
 *
 *     struct orr_device_groups groups;
 *     if (orr__device_groups_make(memory, device_count, compare, analysis, &groups) == ORR_OK) ...
 *     for (size_t g = 0; g < groups.count; g++) {
 *         uint32_t example = groups.members[groups.first[g]];
 *         orr__device_group_text(&groups, g, ids, text);
 *     }
 *     orr__device_groups_free(memory, &groups);
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_DEVICE_GROUPS_H
#define ORR_ANALYZER_DEVICE_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

enum { ORR_DEVICE_GROUP_TEXT_MAX = 48 };

struct orr_device_groups {
    uint32_t *members; /* indices of devices, ascending within a group; owned */
    size_t *first;     /* members of group g: first[g] .. first[g + 1]; owned */
    size_t count;      /* groups are in the order of their first members */
};

/* Groups `device_count` devices. `compare` orders them as strcmp does; 0: they say the same.
 * ORR_NO_MEMORY leaves an empty struct. */
enum orr_status orr__device_groups_make(const struct orr_memory *memory, size_t device_count,
                                        int (*compare)(const void *context, uint32_t a, uint32_t b),
                                        const void *context,
                                        struct orr_device_groups *out_groups) ORR_MUST_CHECK;
/* Frees and empties. */
void orr__device_groups_free(const struct orr_memory *memory, struct orr_device_groups *groups);

/* The group's devices as ranges of their numbers, ids[index]; what does not fit is said as in
 * "0-7,16-23,... (64)", 64 being how many there are in all. `buffer` holds
 * ORR_DEVICE_GROUP_TEXT_MAX bytes; returned. */
const char *orr__device_group_text(const struct orr_device_groups *groups, size_t group,
                                   const uint32_t *ids, char *buffer);

#endif
