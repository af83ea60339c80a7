/* Serial profile: measured kernels, simulated cluster. The backend `profiled`.
 *
 * Many logical devices on one GPU share its multiprocessors and its memory, so the time that they
 * take together is not the time that as many GPUs would take. Here every command that computes runs
 * alone, when it is enqueued, on a machine that measures it, and the simulator schedules what was
 * measured on as many devices as the program has:
 *
 *     submit(kernel) --> inner backend: run it now, alone, wait; it took 12.3 us
 *                    --> simulator:     service 12.3 us on device d, in virtual time
 *
 * Numbers and memory are the inner machine's, time and order are the simulator's. Measured are
 * kernels, fills, host functions, and copies within a device. Collectives and copies over links run
 * on the inner machine too, for their numbers, but take the time that the simulator's model of the
 * links gives, because on one GPU they would measure its memory.
 *
 * The first time that a kernel is met (by name, dtype, FLOPs and bytes) is a cold one: code is
 * loaded, libraries choose. If it can be repeated, because no byte that it reads is written, it
 * runs three times. The shortest time met so far counts.
 *
 * Since everything runs in the order in which it is enqueued, a missing wait shows in no number
 * here: `--check` finds it, and so does a run on simulated devices. Measured times differ from run
 * to run; all that follows from them is exact.
 *
 *     struct orr_profiled_options options = {.open = orr_cpu_open};
 *     config.open = orr_profiled_open, config.options = &options;
 *
 * Threads: one, as every backend. */
#ifndef ORR_SIM_PROFILED_PROFILED_H
#define ORR_SIM_PROFILED_PROFILED_H

#include "runtime/backend.h"

/* `options` of struct orr_backend_config: the machine that measures. Borrowed until close. */
struct orr_profiled_options {
    orr_backend_open open;
    const void *options; /* of open */
};

/* Opens it; the specs are those of the devices to be simulated. ORR_UNSUPPORTED for a run that is
 * timing only, which has nothing to measure; else what the inner backend or the simulator says. */
enum orr_status orr_profiled_open(const struct orr_backend_config *config,
                                  struct orr_backend **out_backend,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* What was measured, for tests and reports. */
struct orr_profiled_counters {
    uint64_t measured; /* commands that ran alone */
    uint64_t runs;     /* how often they ran, repetitions included */
    uint64_t kinds;    /* kernels that differ */
    uint64_t modelled; /* collectives and copies over links */
};
void orr_profiled_counters(struct orr_backend *backend, struct orr_profiled_counters *out_counters);

#endif
