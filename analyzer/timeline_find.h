/* Places of a timeline's rows by their ids. Ids are normally dense, so the place is guessed before
 * it is searched. Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_TIMELINE_FIND_H
#define ORR_ANALYZER_TIMELINE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/events.h"
#include "trace/timeline.h"

/* First item whose uint64 at `offset` is not below `id`, in an array sorted by it. */
size_t orr__find_u64(const void *items, size_t count, size_t size, size_t offset, uint64_t id);

/* Index of the row with this id, ORR_EVENTS_NONE if there is none. Arrays have at most
 * ORR_EVENTS_NONE - 1 rows. */
uint32_t orr__find_command(const struct orr_timeline *t, uint64_t id);
uint32_t orr__find_op(const struct orr_timeline *t, uint64_t id);
uint32_t orr__find_call(const struct orr_timeline *t, uint64_t id);
uint32_t orr__find_stream(const struct orr_timeline *t, uint32_t id);
uint32_t orr__find_host(const struct orr_timeline *t, uint32_t id);
uint32_t orr__find_device(const struct orr_timeline *t, uint32_t id);
uint32_t orr__find_communicator(const struct orr_timeline *t, uint32_t id);

/* Kernel, collective, copy or fill: work of a device. */
bool orr__is_op_kind(enum orr_command_kind kind);

/* Within the limits of the event model's times; ORR_TIME_NONE is not. */
bool orr__good_time(int64_t time);

#endif
