/* A run as a stream program: an observer that writes down every call, so that explorer, fixes and
 * whatever else works on stream programs work on runs of scenarios.
 *
 *     struct orr_recorder *recorder;
 *     if (orr_recorder_create(&memory, &recorder) != ORR_OK) ...
 *     config.observer = orr_recorder_observer(recorder);
 *     ... the run ...
 *     struct orr_stream_program *program;
 *     status = orr_recorder_program(recorder, &program);    before the runtime is destroyed
 *
 * What becomes of the calls:
 *   streams       d0_compute, ...: as non-blocking ones; the order of default streams is in waits
 *   waits, syncs  a point that somebody waits for becomes an event recorded right behind it
 *   buffers       their label and id: w_17. Blocks that are used again as a whole are `alloc` with
 *                 `reuse`; those that were cut differently are aliases of one block
 *   host memory   has no end: its free waits for its users
 *   barriers      events through which all members wait for all; other collectives order nothing
 *   messages      a flag each
 * Operations carry label (the command's name) and site. The program's verdict under oracle hb is
 * that of a monitor with reuse_orders_hosts, but for unordered frees that nobody got the bytes of.
 *
 * Memory grows with the length of the run. Threads: one, that of the runtime. */
#ifndef ORR_HAZARDS_RECORDER_H
#define ORR_HAZARDS_RECORDER_H

#include "hazards/stream_program.h"
#include "runtime/observer.h"

struct orr_recorder;

/* `memory` is borrowed until destroy, also by the program. */
enum orr_status orr_recorder_create(const struct orr_memory *memory,
                                    struct orr_recorder **out_recorder) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_recorder_destroy(struct orr_recorder **recorder);

/* Whom to tell; lives as long as the recorder. */
struct orr_observer *orr_recorder_observer(struct orr_recorder *recorder);

/* The program of all calls so far, owned by the caller. The observed names must still be there.
 * ORR_NO_MEMORY, also if some call could not be written down; ORR_INVALID for a run of more than
 * 2^32 operations. */
enum orr_status orr_recorder_program(const struct orr_recorder *recorder,
                                     struct orr_stream_program **out_program) ORR_MUST_CHECK;

#endif
