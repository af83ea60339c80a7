/* One timeline of several: the ranks of a job, each traced by a process of its own.
 *
 *     rank 0   device 0, stream 7    [--all_reduce--------]          one timeline, in which the
 *     rank 1   device 1, stream 7        [--all_reduce----]     ->   collective is one row with
 *     rank 2   device 2, stream 7              [-all_red.-]          three members
 *
 *     struct orr_merge_part how[2] = {{.rank = 0}, {.rank = 1, .offset_ns = 1500}};
 *     struct orr_merge_match match = {0};                        // or as found by analyzer/ranks.h
 *     status = orr_timeline_merge(parts, how, 2, &match, &memory, &timeline, &error);
 *
 * What becomes of the parts:
 *   ids       all are given anew, part after part, in the order of each part. If every part used
 *             one device, a device's id is its rank; else they count up. Devices on which nothing
 *             happened are left out.
 *   names     devices "rank 3 GPU 0: NAME", hosts "rank 3 main"; those of streams, kernels, calls
 *             stay.
 *   times     minus the part's offset_ns, all but stamps that are no times (ORR_TIME_NONE; a start
 *             and finish that are both 0). Those that then would not fit are cut to +-2^62.
 *   processes stay if no other part has that number, else they get another one.
 *   members   of a match become members of one collective. Its communicator is that of the first
 *             member that has one, else "all ranks", and its members are the job's ranks; those of
 *             which there is no trace have no device (ORR_ID_NONE).
 *   meta      a key on which all parts agree stays, of others there is a row per rank, "KEY of rank
 *             3"; "ranks" is "0,1,2"; "rank of device 5" is "3"; "offset_ns of rank 3" is there for
 *             offsets that are not 0.
 *   source    of one format; numbers are sums, `rank` is not known; the time base is that of the
 *             first part, and the difference to another one belongs into that one's offset_ns.
 *   findings  of all parts, with "rank 3: " before the message.
 *
 * Threads: pure function. */
#ifndef ORR_TRACE_MERGE_H
#define ORR_TRACE_MERGE_H

#include "trace/timeline.h"

struct orr_merge_part {
    uint32_t rank;     /* ascending from part to part */
    int64_t offset_ns; /* how much later its clock is than that of the timeline to make */
    /* A trace of several ranks: the rank of each of its devices, by index. NULL: all are `rank`'s;
     * borrowed for the call. */
    const uint32_t *device_ranks;
};

struct orr_merge_member {
    uint32_t part; /* index */
    uint64_t cmd;  /* of that part */
};

/* Commands of several parts that are one collective. */
struct orr_merge_collective {
    const char *kind, *group; /* group: name of the communicator if no part has one; "" none */
    uint64_t seq;
    size_t first, count; /* in orr_merge_match.members */
};

struct orr_merge_match {
    const struct orr_merge_collective *collectives;
    const struct orr_merge_member *members;
    size_t collective_count, member_count;
    uint32_t
        world_size; /* ranks of the job, those without a trace among them; 0: as many as parts */
};

/* Merges `count` timelines, at least one; they are borrowed for the call, and all texts copied. The
 * timeline is the caller's. ORR_UNSUPPORTED for parts of different formats, or more than 2^32 - 2
 * streams or hosts in all; ORR_NO_MEMORY. That members name commands of their part, and none
 * twice, is asserted or taken for granted. */
enum orr_status orr_timeline_merge(const struct orr_timeline *const *parts,
                                   const struct orr_merge_part *how, size_t count,
                                   const struct orr_merge_match *match,
                                   const struct orr_memory *memory,
                                   struct orr_timeline **out_timeline,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
