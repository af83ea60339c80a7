#include "cli/trace_name.h"

#include <string.h>

#include "cli/traces.h"

const char *orr_cli_trace_name(const char *const *paths, int count, const char *name) {
    for (int i = 0; i < count; i++) {
        const char *base = orr_cli_base_name(paths[i]);
        size_t length = strlen(paths[i]), folder = (size_t)(base - paths[i]);
        if (strncmp(name, paths[i], length) == 0 && (name[length] == '\0' || name[length] == '/'))
            return name + folder;
        size_t rest = length - folder;
        if (strncmp(name, base, rest) == 0 && (name[rest] == '\0' || name[rest] == '/'))
            return name;
    }
    return orr_cli_base_name(name);
}
