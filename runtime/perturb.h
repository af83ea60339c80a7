/* Perturbations and faults of a run: what may go slower, stall, fail or never come back.
 *
 * They are a list of rules, written as words KEY=VALUE, where a value is a figure or fields
 * NAME:FIGURE with commas between:
 *
 *     struct orr_perturb perturb = {0};
 *     orr_perturb_parse(&perturb, "jitter=0.2 straggler=device:3,by:1.5 lose_rank=rank:1,at:2ms",
 *                       &error);
 *     orr_runtime_perturb(runtime, &perturb);            (runtime/runtime.h; before any call)
 *
 *     key           fields ("!": must be there)  what happens
 *     jitter        a share, below 1             service takes 1 - x to 1 + x of its time
 *     host_jitter   a share                      a host's calls take up to 1 + x of their time
 *     seed          a number                     of both; the run's seed unless given
 *     allocator     caching, adversarial         see below
 *     straggler     device! by! at name          kernels and fills of the device take `by` times
 *     slow_link     device! peer by! at          transfers over the link take `by` times
 *     fail_link     device! peer at              transfers over it fail
 *     lose_link     device! peer at              transfers over it never end
 *     device_error  device! nth at               its nth command fails, or all from `at` on
 *     lose_device   device! at                   none of its commands ends from `at` on
 *     lose_rank     rank at                      the host makes no call from `at` on
 *     late_rank     rank ns!                     its clock starts that much later
 *     stall_host    rank nth ns!                 its nth call (each, unless given) takes that more
 *     delay         name stream device nth ns!   service of such commands takes that more
 *     memory        device bytes!                capacity of the device (all, unless given)
 *     fail_alloc    device! nth!                 its nth allocation finds no memory
 *
 * `at` is a time, from the beginning unless given: a command is concerned if it would end later
 * than that, a transfer of a slow link and a straggler's kernel if it begins then or later. Times
 * are in ns, or have a unit (ns us ms s); bytes may have KiB, MiB, GiB. `nth` counts from 1:
 * commands of a device in the order in which they are enqueued (kernel, copy, fill, collective,
 * host function), those with that name or in that stream for a delay, calls of a host, allocations
 * of a device. `peer` is a device or `host`; without it all links of the device are meant. A
 * collective uses all links between its members, a send those that it goes over; for a delay it is
 * rank 0's command. `rank` is the
 * number of a host that orrery.host made; without it the program is meant. `name` is a command's
 * (of a straggler: only those take longer), `stream` a stream's name.
 *
 * The allocator `adversarial` hands out the bytes that were freed last, as soon as its policy lets
 * it, and device memory that is freed is undefined from that place of its stream on: code that uses
 * memory after its life gets wrong numbers now, not only in an unlucky run.
 *
 * What holds, whatever is perturbed: nothing is drawn but from the seed and the place (stream and
 * position, host and call), so that a run can be repeated and two rules don't disturb each other;
 * numbers of programs that wait for what they need do not depend on jitter, stragglers, slow links,
 * stalls, delays and late ranks; a failed command poisons whoever waits for it, with the fault as
 * its first cause; a run that can't end because something was lost says what, in its error.
 *
 * Threads: plain data. */
#ifndef ORR_RUNTIME_PERTURB_H
#define ORR_RUNTIME_PERTURB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

enum {
    ORR_PERTURB_RULES_MAX = 64,
    ORR_PERTURB_NAME_MAX = 64,
    ORR_PERTURB_TEXT_MAX = 1024, /* of all rules as one text */
    ORR_FAULT_TEXT_MAX = 192
};

/* Of rule->device, peer and rank. */
#define ORR_PERTURB_ANY  UINT32_MAX /* not given: all devices, all links, the program */
#define ORR_PERTURB_HOST (UINT32_MAX - 1)

enum orr_perturb_kind {
    ORR_PERTURB_JITTER,
    ORR_PERTURB_HOST_JITTER,
    ORR_PERTURB_SEED,
    ORR_PERTURB_ALLOCATOR,
    ORR_PERTURB_STRAGGLER,
    ORR_PERTURB_SLOW_LINK,
    ORR_PERTURB_FAIL_LINK,
    ORR_PERTURB_LOSE_LINK,
    ORR_PERTURB_DEVICE_ERROR,
    ORR_PERTURB_LOSE_DEVICE,
    ORR_PERTURB_LOSE_RANK,
    ORR_PERTURB_LATE_RANK,
    ORR_PERTURB_STALL_HOST,
    ORR_PERTURB_DELAY,
    ORR_PERTURB_MEMORY,
    ORR_PERTURB_FAIL_ALLOC,
    ORR_PERTURB_KIND_COUNT
};

struct orr_perturb_rule {
    enum orr_perturb_kind kind;
    uint32_t given; /* which fields, a bit for each; private to perturb.c */
    uint32_t device, peer, rank;
    uint64_t nth;                      /* 0: not given */
    int64_t at_ns, ns;                 /* 0: not given */
    uint64_t bytes, number;            /* number: the seed; 1 for an adversarial allocator */
    uint64_t ppm;                      /* `by`, or the share, in millionths */
    char name[ORR_PERTURB_NAME_MAX];   /* of commands; "": all */
    char stream[ORR_PERTURB_NAME_MAX]; /* of streams; "": all */
    uint32_t name_id, stream_id;       /* the runtime's names of these, which it fills in; 0: all */
    uint64_t count;                    /* how often it was concerned; whoever applies it counts */
};

/* A zeroed one is empty. */
struct orr_perturb {
    struct orr_perturb_rule rules[ORR_PERTURB_RULES_MAX];
    uint32_t count;
    /* The first fault that took effect: "device 2 stopped at 5000 ns (perturb lose_device=...)"; ""
     * before. Whoever applies rules writes it. */
    char fault[ORR_FAULT_TEXT_MAX];
    bool finishing; /* the runtime's: what waits now is no host of the program */
    /* Which name (as in rule->stream_id) the backend's stream has. The runtime's. */
    uint32_t (*stream_name)(void *context, uint32_t stream);
    void *context;
};

/* Adds the rules of a text; words are separated by spaces or semicolons. ORR_INVALID with a message
 * that names the nearest key or field for an unknown one; the rules before it stay. */
enum orr_status orr_perturb_parse(struct orr_perturb *perturb, const char *text,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* The same piece by piece: begin a rule, set its fields (the field of a plain figure is ""), end
 * it. A plain figure that is there already is replaced. *out_rule is borrowed. */
enum orr_status orr_perturb_begin(struct orr_perturb *perturb, const char *key,
                                  struct orr_perturb_rule **out_rule,
                                  struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr_perturb_set(struct orr_perturb_rule *rule, const char *field, const char *value,
                                struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr_perturb_end(const struct orr_perturb_rule *rule,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Adds the rules of `more`; plain figures that are there already stay. ORR_INVALID if there are too
 * many. */
enum orr_status orr_perturb_merge(struct orr_perturb *perturb, const struct orr_perturb *more,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* Key of a kind: "slow_link". */
const char *orr_perturb_key(enum orr_perturb_kind kind);

/* Writes a rule, or all of them, as the text that gives them. Returns `text`. */
const char *orr_perturb_rule_text(const struct orr_perturb_rule *rule, char *text, size_t size);
const char *orr_perturb_text(const struct orr_perturb *perturb, char *text, size_t size);

/* The first rule of a kind, or NULL. */
const struct orr_perturb_rule *orr_perturb_find(const struct orr_perturb *perturb,
                                                enum orr_perturb_kind kind);

/* Notes that a rule took effect, unless another one did before. `what` says on whom, at what time:
 * "device 2 stopped at 5000 ns". */
void orr_perturb_note(struct orr_perturb *perturb, const struct orr_perturb_rule *rule,
                      const char *what);

/* --- for backends that can delay a command and fail an nth one, and no more --- */

struct orr_record_command;

struct orr__perturbed {
    int64_t delay_ns;                     /* before it does anything */
    const struct orr_perturb_rule *fault; /* then it fails; NULL: it doesn't */
};

/* What is to happen to a command that is being submitted: once for each, because rules count.
 * `perturb` may be NULL. */
struct orr__perturbed orr__perturb_command(struct orr_perturb *perturb,
                                           const struct orr_record_command *record);

/* Sets the error of a command that `fault` fails; returns ORR_DEVICE_FAILED. */
enum orr_status orr__perturb_fail(const struct orr_perturb_rule *fault, uint32_t device,
                                  struct orr_error *error);

/* ORR_UNSUPPORTED names a rule that such a backend can't keep; `machine`: "CPU devices". */
enum orr_status orr__perturb_check_commands(const struct orr_perturb *perturb, const char *machine,
                                            struct orr_error *error) ORR_MUST_CHECK;

#endif
