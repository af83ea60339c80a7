/* Recordings: the results of every operator of a part of a run, kept on the host, so that two runs
 * of a program can be compared (runtime/divergence.h).
 *
 *     struct orr_recording *recording;
 *     orr_recording_begin(runtime, 1 << 30, &recording);
 *     ... operators and redistributions, also those of gradients ...
 *     if (orr_recording_end(recording) == ORR_OK)
 *         for (uint32_t i = 0; i < orr_recording_call_count(recording); i++)
 *             puts(orr_recording_call(recording, i)->op);
 *     orr_recording_destroy(&recording);
 *
 * From begin to end the host waits for every operator and copies what it made, and what it read of
 * tensors that were there before: times are those of such a run. Numbers do not change: operators
 * of compiled functions run one by one, which fusion and capture never differ from. A recording
 * outlives its runtime.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_RECORDING_H
#define ORR_RUNTIME_RECORDING_H

#include "runtime/tensor.h"

struct orr_recording;

/* A tensor of the run. */
struct orr_recorded_value {
    struct orr_operand_info info;
    char place[ORR_PLACEMENT_TEXT_MAX];
    int64_t
        maker;  /* index of the call that made it; -1: it was there before, or came from the host */
    void *data; /* the whole tensor, dense, in its dtype; owned by the recording */
};

/* One operator, or one redistribution. */
struct orr_recorded_call {
    const char *op;                 /* the operator's name; "redistribute", "shift" */
    const char *site;               /* "file:line", or "" */
    const struct orr_operator *row; /* NULL: a redistribution or shift, no arithmetic */
    struct orr_attributes attributes;
    int input_count, output_count;
    uint32_t inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX]; /* values */
};

/* Starts. Several may be open at a time. `bytes_max` bounds the values it keeps. ORR_INVALID under
 * timing-only, which has none, and inside a compiled function or a captured program; ORR_NO_MEMORY.
 * Owned by the caller. */
enum orr_status orr_recording_begin(struct orr_runtime *runtime, uint64_t bytes_max,
                                    struct orr_recording **out_recording) ORR_MUST_CHECK;

/* Stops. ORR_BLOCKED: repeat the call. ORR_INVALID if the values needed more than `bytes_max`, or
 * the first failure of a copy; the recording is then good for nothing but to be destroyed. Twice is
 * once. */
enum orr_status orr_recording_end(struct orr_recording *recording) ORR_MUST_CHECK;

/* Stops too, if need be; nulls; accepts NULL. */
void orr_recording_destroy(struct orr_recording **recording);

/* Has it ended, and well? */
bool orr_recording_is_good(const struct orr_recording *recording);

/* What an ended one holds, in order of the calls; borrowed until destroy. */
uint32_t orr_recording_call_count(const struct orr_recording *recording);
const struct orr_recorded_call *orr_recording_call(const struct orr_recording *recording,
                                                   uint32_t index);
const struct orr_recorded_value *orr_recording_value(const struct orr_recording *recording,
                                                     uint32_t index);
/* Bytes of the values that it keeps. */
uint64_t orr_recording_bytes(const struct orr_recording *recording);

#endif
