/* Steps that need no choice: made at once, until only steps that compete are left.
 *
 *     orr__hang_settle(&settling);
 *     ... settling.pending: processes that are ready, each in somebody's way ...
 *     orr__hang_settle_step(&settling, settling.pending[0]);
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_SETTLE_H
#define ORR_HAZARDS_HANG_SETTLE_H

#include "hazards/hang_run.h"

struct orr__hang_settling {
    struct orr__hang_run run;
    uint32_t *pending; /* processes whose next step competes */
    uint32_t pending_count;
    bool *is_pending; /* by process */
};

/* Before the first step. To be destroyed in any case. */
enum orr_status orr__hang_settle_create(const struct orr__hang_model *model,
                                        struct orr__hang_settling *out_settling) ORR_MUST_CHECK;
void orr__hang_settle_destroy(struct orr__hang_settling *settling);

/* Makes every step that goes alone; less if the run has failed or calls mismatch. */
void orr__hang_settle(struct orr__hang_settling *settling);
/* Makes the next step of a pending process. */
void orr__hang_settle_step(struct orr__hang_settling *settling, uint32_t process);
/* Takes steps back, see orr__hang_undo. */
void orr__hang_settle_undo(struct orr__hang_settling *settling, size_t log_count,
                           size_t step_count);
/* Without pending processes: is anything left to do? */
bool orr__hang_is_stuck(const struct orr__hang_run *run);

#endif
