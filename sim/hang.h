/* What a wait that can't end is told: whom it waits for, stream by stream, by name and place.
 *
 * Threads: as the simulator's. */
#ifndef ORR_SIM_HANG_H
#define ORR_SIM_HANG_H

#include "sim/sim_internal.h"

/* ORR_DEVICE_FAILED with the text; ORR_NO_MEMORY if the simulation ran out of it before. `points`
 * are what the host waits for. */
enum orr_status orr__sim_hang(struct orr__sim *sim, const struct orr_point *points, uint32_t count,
                              struct orr_error *error);

/* The backend's verb host_reason. */
bool orr__sim_host_reason(struct orr_backend *backend, uint32_t id, char *text, size_t size);

#endif
