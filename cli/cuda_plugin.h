/* Finds the plugin orrery-cuda.so and opens it.
 *
 * It is looked for beside the command, where a build leaves it; one folder up, for the tests'
 * binaries of a build; and in ../lib/orrery, where `make install` puts it.
 *
 *     const struct orr_cuda_plugin *plugin;
 *     status = orr_cuda_plugin_open(&plugin, path, sizeof path, &error);
 *
 * Threads: one. */
#ifndef ORR_CLI_CUDA_PLUGIN_H
#define ORR_CLI_CUDA_PLUGIN_H

#include <stddef.h>

#include "runtime/cuda/plugin.h"

enum { ORR_CUDA_PLUGIN_PATH_MAX = 4096 };

/* The plugin, which stays loaded until the process ends; its path goes to `out_path`, "" if there
 * is none. ORR_UNAVAILABLE: there is no plugin in any of these places (this build has none), it
 * can't be loaded, or is of another build. */
enum orr_status orr_cuda_plugin_open(const struct orr_cuda_plugin **out_plugin, char *out_path,
                                     size_t path_size, struct orr_error *error) ORR_MUST_CHECK;

#endif
