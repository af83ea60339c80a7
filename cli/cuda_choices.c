#include "cli/cuda_choices.h"

#include <string.h>

/* The word's place in a list that ends in NULL, or -1. */
static int find(const char *const *list, const char *word) {
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

enum orr_exit orr_cuda_choices_read(const struct orr_cli *cli, const char *verb,
                                    const struct orr_cuda_words *words,
                                    struct orr_cuda_options *out_options) {
    static const char *const timestamps[] = {
        [ORR_CUDA_TIMESTAMPS_AUTO] = "auto",     [ORR_CUDA_TIMESTAMPS_CUPTI] = "cupti",
        [ORR_CUDA_TIMESTAMPS_EVENTS] = "events", [ORR_CUDA_TIMESTAMPS_BOTH] = "both",
        [ORR_CUDA_TIMESTAMPS_HOST] = "host",     NULL};
    static const char *const collectives[] = {[ORR_CUDA_COLLECTIVES_AUTO] = "auto",
                                              [ORR_CUDA_COLLECTIVES_EMULATED] = "emulated",
                                              [ORR_CUDA_COLLECTIVES_NCCL] = "nccl",
                                              NULL};
    int times = words->timestamps ? find(timestamps, words->timestamps) : 0;
    int kind = words->collectives ? find(collectives, words->collectives) : 0;
    if (times < 0)
        return orr_cli_usage(cli, verb,
                             "--timestamps '%s': expected auto, cupti, events, both or host",
                             words->timestamps);
    if (kind < 0)
        return orr_cli_usage(cli, verb, "--collectives '%s': expected auto, emulated or nccl",
                             words->collectives);
    if (words->cudart && !words->cudart[0])
        return orr_cli_usage(cli, verb, "--cudart '': expected the path of a library");
    *out_options = (struct orr_cuda_options){.timestamps = (enum orr_cuda_timestamps)times,
                                             .collectives = (enum orr_cuda_collectives)kind,
                                             .cudart = words->cudart};
    return ORR_EXIT_OK;
}
