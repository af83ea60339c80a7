/* What cannot hang, and need not be looked at.
 *
 * A stream is harmless if everything in it always finishes by itself: plain work, waits for events
 * that are recorded only in harmless streams, and host functions that wait for nothing. Everything
 * an entry waits for was added before it; so the oldest unfinished entry of all harmless streams
 * can always finish, and in a state where nothing moves they are empty. Without them, the same
 * states are reached at the end. The default-stream rules tie streams of a device together: these
 * are harmless together or not at all.
 *
 * With room for any number of entries, plain work in other streams goes too: it finishes right
 * after what is before it, so whoever waits for it waits for that instead.
 *
 * Threads: pure functions. */
#ifndef ORR_HAZARDS_HANG_REDUCE_H
#define ORR_HAZARDS_HANG_REDUCE_H

#include "hazards/hang_model.h"

/* Sets keep[op] for the calls that matter. Reads streams, devices and lock_is_harmless of the
 * model. */
enum orr_status orr__hang_reduce(const struct orr__hang_model *model, bool *keep) ORR_MUST_CHECK;

/* Finds locks that nobody ever holds while waiting for something (except for other such locks, in
 * an order without circles), nor while doing what could be in somebody's way. Their holders always
 * go on, and what they do meanwhile is the same in any order: they are no locks. Reads everything;
 * sets lock_is_harmless, and *out_found if there are new ones. */
enum orr_status orr__hang_free_locks(struct orr__hang_model *model, bool *out_found) ORR_MUST_CHECK;

#endif
