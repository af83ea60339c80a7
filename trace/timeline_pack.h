/* Internal to trace/: a whole timeline as bytes, small and the same everywhere; what the Perfetto
 * export carries, so that it can be read back.
 *
 *     unsigned char *bytes;
 *     status = orr__timeline_pack(timeline, memory, &bytes, &size);
 *     status = orr__timeline_unpack(bytes, size, memory, &other);     // equal in every field
 *
 * Numbers are LEB128: seven bits a byte, the lowest first, the top bit set in all but the last.
 *
 *     pack      version, fingerprint of orr__arrays, texts, source, arrays in their order, each
 *               array's columns, one per value of a member
 *     texts     number, then each: length, bytes
 *     source    number of rows, then each: key, value (numbers of texts)
 *     array     number of items
 *     column    predictor, then a residual per item: what the value is more than the predictor
 *               says, zigzag (0, -1, 1, -2, ...), modulo 2^64. Behind two equal residuals a byte,
 *               at most ORR__PACK_RUN_MAX, says how many more of them follow.
 *     predictor 0: zero; 1: the item before; 2: the same item's column before
 *
 * Runs are short on purpose: bytes that make no sense cannot ask for more than about 400 times
 * their size of memory.
 *
 * Threads: pure functions. */
#ifndef ORR_TRACE_TIMELINE_PACK_H
#define ORR_TRACE_TIMELINE_PACK_H

#include "trace/timeline.h"

enum { ORR__PACK_VERSION = 1, ORR__PACK_RUN_MAX = 62 };

/* *out_bytes is owned by the caller. ORR_NO_MEMORY. */
enum orr_status orr__timeline_pack(const struct orr_timeline *timeline,
                                   const struct orr_memory *memory, unsigned char **out_bytes,
                                   size_t *out_size) ORR_MUST_CHECK;

/* ORR_INVALID with what is wrong, for any bytes; ORR_NO_MEMORY. The timeline is owned by the
 * caller. */
enum orr_status orr__timeline_unpack(const unsigned char *bytes, size_t size,
                                     const struct orr_memory *memory,
                                     struct orr_timeline **out_timeline,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Fingerprint of orr__arrays: members, types, their order. */
uint32_t orr__timeline_pack_fingerprint(void);

#endif
