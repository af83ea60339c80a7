/* The options of a run that are about GPUs: --cudart, --timestamps, --collectives.
 *
 * Threads: one. */
#ifndef ORR_CLI_CUDA_CHOICES_H
#define ORR_CLI_CUDA_CHOICES_H

#include "cli/cli.h"
#include "runtime/cuda/plugin.h"

/* As they stand on the command line; NULL: the default. */
struct orr_cuda_words {
    const char *cudart, *timestamps, *collectives;
};

/* ORR_EXIT_USAGE, said on cli->err, for a word that is none. Texts are borrowed. */
enum orr_exit orr_cuda_choices_read(const struct orr_cli *cli, const char *verb,
                                    const struct orr_cuda_words *words,
                                    struct orr_cuda_options *out_options);

#endif
