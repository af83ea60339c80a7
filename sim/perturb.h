/* Perturbations and faults of simulated devices (runtime/perturb.h says what there is): what the
 * engine asks at the few places where something may be slower, fail, or never end.
 *
 *     enqueued        orr__perturb_enqueued     jitter and delay of its work; which one it is
 *     head starts     orr__perturb_work         stragglers, slow links
 *                     orr__perturb_lost         does the device still take it up?
 *     would end       orr__perturb_fate         ends, fails, or is lost
 *     host's call     orr__perturb_call         jitter, stalls
 *
 * Nobody asks without rules: sim->perturb is NULL then. What is drawn depends on the seed and on
 * (stream, position) or (host, number of the call), never on the order of events.
 *
 * Threads: one. */
#ifndef ORR_SIM_PERTURB_H
#define ORR_SIM_PERTURB_H

#include "runtime/perturb.h"
#include "sim/sim_internal.h"

/* The backend's verb. */
enum orr_status orr__sim_perturb(struct orr_backend *backend, struct orr_perturb *perturb,
                                 struct orr_error *error);

/* The command is the last one of its stream. Adds to its work what does not depend on when it
 * starts; `work` is NULL for all members of a group but rank 0's. True if it is to fail. */
bool orr__perturb_enqueued(struct orr__sim *sim, const struct orr__stream *stream,
                           const struct orr_command *command, struct orr__work *work);

/* Work of the head, or of a collective (`group`), which starts at start_ns. */
uint64_t orr__perturb_work(const struct orr__sim *sim, struct orr__stream *stream, uint64_t work,
                           int64_t start_ns);
uint64_t orr__perturb_group_work(const struct orr__sim *sim, const struct orr__group *group,
                                 int64_t start_ns);

/* Does the stream's device do nothing more at this time? */
bool orr__perturb_lost(struct orr__sim *sim, const struct orr__stream *stream, int64_t now_ns);

/* What becomes of the head, or of a collective, that would end at finish_ns. The cause of a failure
 * goes to *error. */
enum orr__fate orr__perturb_fate(struct orr__sim *sim, struct orr__stream *stream,
                                 int64_t finish_ns, struct orr_error *error);
enum orr__fate orr__perturb_group_fate(struct orr__sim *sim, const struct orr__group *group,
                                       int64_t finish_ns, struct orr_error *error);

/* How much later than others a host begins. */
int64_t orr__perturb_late(const struct orr__sim *sim, uint32_t host);

/* Does the host make no more calls, at its clock? */
bool orr__perturb_host_lost(struct orr__sim *sim, uint32_t host);

#endif
