#include "cli/cuda_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "orrery-cuda.so"

static const char *const places[] = {"", "/..", "/../lib/orrery"};
enum { PLACE_COUNT = sizeof places / sizeof places[0] };

/* The folder of this program's file, or "." where there is no /proc. */
static void own_folder(char *folder, size_t size) {
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, size, ".");
}

static enum orr_status check_abi(const struct orr_cuda_plugin *plugin, const char *path,
                                 struct orr_error *error) {
    if (plugin->abi == ORR_BACKEND_ABI)
        return ORR_OK;
    return orr_error_set(error, ORR_UNAVAILABLE,
                         "%s is of another build of Orrery: its interface is version %u, not %d",
                         path, (unsigned)plugin->abi, ORR_BACKEND_ABI);
}

static enum orr_status load(const char *path, const struct orr_cuda_plugin **out_plugin,
                            struct orr_error *error) {
    const struct orr_cuda_plugin *(*get)(void);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "orr_backend_get") : NULL;
    if (!symbol) {
        const char *text = dlerror();
        return orr_error_set(error, ORR_UNAVAILABLE, "the CUDA backend can't be loaded: %s",
                             text ? text : path);
    }
    memcpy(&get, &symbol, sizeof get); /* C has no cast from a data to a function pointer */
    *out_plugin = get();
    return check_abi(*out_plugin, path, error);
}

enum orr_status orr_cuda_plugin_open(const struct orr_cuda_plugin **out_plugin, char *out_path,
                                     size_t path_size, struct orr_error *error) {
    char folder[ORR_CUDA_PLUGIN_PATH_MAX - sizeof PLUGIN - 32];
    *out_plugin = NULL;
    own_folder(folder, sizeof folder);
    for (int i = 0; i < PLACE_COUNT; i++) {
        snprintf(out_path, path_size, "%s%s/" PLUGIN, folder, places[i]);
        if (access(out_path, F_OK) == 0)
            return load(out_path, out_plugin, error);
    }
    out_path[0] = '\0';
    return orr_error_set(error, ORR_UNAVAILABLE,
                         "this build has no CUDA backend: there is no " PLUGIN " in %.200s, nor in "
                         "its ../lib/orrery",
                         folder);
}
