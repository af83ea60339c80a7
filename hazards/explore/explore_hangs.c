#include "hazards/explore/explore.h"

enum orr_status orr__explore_hangs(const struct orr_stream_program *program,
                                   const struct orr_explore_options *options,
                                   struct orr_exploration *exploration, struct orr_error *error) {
    (void)program, (void)options, (void)exploration;
    return orr_error_set(error, ORR_UNSUPPORTED, "not yet");
}
