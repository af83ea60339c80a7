/* Oracle hang: does some interleaving of hosts and streams get stuck?
 *
 *     struct orr_hang_result result;
 *     if (orr_hangs_find(program, states_max, &result) == ORR_OK && result.kind == ORR_CHECK_HANG)
 *         for (uint32_t i = 0; i < result.blocked_count; i++)
 *             puts(result.blocked[i].text);
 *     orr_hang_result_clear(&result);
 *
 * The answer is that of a search of all interleavings. Most of them are never looked at: steps that
 * nobody can get in the way of are made at once (sets of steps that persist, in the words of
 * partial-order reduction), and only steps that compete are tried in every order: starts on a
 * device with fewer slots than streams that communicate, locks, hosts that share streams or
 * events. A program in which nothing competes is decided by one run, whatever its size.
 *
 * Memory: 32 bytes for each state in which something competes, of which there are at most
 * `states_max`, and what one run needs. States are told apart by 128 bits of hash; that two of
 * four million get the same has a chance below 1e-24.
 *
 * Threads: any, each with its own result. */
#ifndef ORR_HAZARDS_HANGS_H
#define ORR_HAZARDS_HANGS_H

#include "hazards/check.h"

/* A step of a schedule. */
enum orr_hang_step_kind {
    ORR_HANG_CALL,  /* a host makes its next call */
    ORR_HANG_START, /* the communication at the head of a stream starts */
    ORR_HANG_BODY,  /* the host function at the head of a stream makes its next step */
    ORR_HANG_FINISH /* what is at the head of a stream finishes */
};

struct orr_hang_step {
    uint8_t kind;  /* enum orr_hang_step_kind */
    uint32_t who;  /* host or stream */
    uint32_t op;   /* the call; of streams: the call that made the entry */
    uint32_t step; /* of BODY: which step of the body */
};

/* Why somebody cannot go on. */
enum orr_hang_reason {
    ORR_HANG_FOR_STREAM, /* something in a stream does not finish */
    ORR_HANG_FOR_ROOM,   /* the stream's queue is full */
    ORR_HANG_FOR_LOCK,   /* somebody has the lock */
    ORR_HANG_FOR_FLAG,   /* nobody has set it */
    ORR_HANG_FOR_SLOT,   /* as many communications as can run on the device have started */
    ORR_HANG_FOR_PARTNER /* started, but a partner has not */
};

/* A host or a stream that has something left to do, and cannot. */
struct orr_hang_blocked {
    bool is_stream;
    uint8_t reason;    /* enum orr_hang_reason */
    uint32_t who;      /* host or stream */
    uint32_t op;       /* the call it is in; of streams: the call that made the first entry */
    uint32_t object;   /* stream, lock, flag, device; of PARTNER: the communicator */
    uint32_t other_op; /* the call whose entry it waits for, or the partner's call; ORR_NONE */
    uint32_t rank;     /* of PARTNER: whose call is missing */
    uint32_t number;   /* of PARTNER: which one, from 0 */
    uint32_t calls;    /* of PARTNER: how many such calls that rank has in the whole program */
    /* Whom that makes it wait for: a host or a stream; ORR_NONE: nobody could help. */
    bool next_is_stream;
    uint32_t next;
    uint32_t next_blocked; /* that one's index in `blocked`; ORR_NONE */
    char *text;            /* all that in words; owned */
};

/* Two calls that are one collective by their numbers, but differ. */
struct orr_hang_mismatch {
    uint32_t op_a, op_b, rank_a, rank_b, number;
};

struct orr_hang_result {
    const struct orr_memory *memory;
    enum orr_check_verdict_kind kind; /* NO_HANG, HANG, MISMATCH, UNKNOWN */
    uint64_t states;                  /* in which something competed */
    bool found_hang;                  /* of UNKNOWN: there is one; a mismatch was not ruled out */
    /* Of HANG and MISMATCH: a schedule that leads there, step by step from the beginning, and what
     * is blocked then. */
    struct orr_hang_step *steps;
    struct orr_hang_blocked *blocked; /* hosts, then streams */
    uint32_t step_count, blocked_count;
    uint32_t circle; /* one of `blocked` that waits for itself by way of others; ORR_NONE */
    struct orr_hang_mismatch mismatch;
};

/* Searches. `states_max` 0: ORR_CHECK_STATES_DEFAULT; it bounds the work, too, by 64 steps and
 * looks at somebody's next step for each state. The program must be well-formed: every name that an
 * operation needs is there, and no group ends that has not begun. To be cleared in any case. */
enum orr_status orr_hangs_find(const struct orr_stream_program *program, uint64_t states_max,
                               struct orr_hang_result *out_result) ORR_MUST_CHECK;
void orr_hang_result_clear(struct orr_hang_result *result);

#endif
