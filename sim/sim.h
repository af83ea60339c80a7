/* Simulated devices in virtual time: the backend `sim`.
 *
 * Everything happens on the caller's thread, inside its calls: there is no thread, no wall clock
 * and no randomness. One agenda orders the devices' next events by (time, class, device); a host
 * call first lets every device event before it happen, then acts at its host's clock.
 *
 *     submit at 20 us --> queue of the stream --> head, waits done, device free --> service -->
 *     retire
 *                                                  start = latest of them           cost model
 *
 * Service time comes from the command's cost and the device spec (sim/cost_model.h). Commands that
 * run at the same time on one device share its multiprocessors and its memory bandwidth; copies
 * over links and collectives come first, but leave at least 1/16 of each to kernels (a choice of
 * ours: ORR__LEAST_LEFT in sim/cost_model.h).
 *
 * Numbers are really computed, when a command finishes, unless timing_only: what raced or read
 * undefined bytes gets its results poisoned (NaN) instead (sim/hazard_ranges.h). Times never depend
 * on numbers.
 *
 * Same program, same seed: the same times, byte for byte, on every machine, because every modelled
 * time is computed in integers (128-bit products, ns with 20 fractional bits) and rounded to ns
 * once per command, half up, with the remainder carried into the next back-to-back command.
 *
 * Threads: one. */
#ifndef ORR_SIM_SIM_H
#define ORR_SIM_SIM_H

#include "runtime/backend.h"

/* Opens simulated devices. Supports everything in runtime/backend.h, the optional verbs included.
 * ORR_INVALID for a spec without bandwidth or peak; ORR_NO_MEMORY. */
enum orr_status orr_sim_open(const struct orr_backend_config *config,
                             struct orr_backend **out_backend, struct orr_error *error);

#endif
