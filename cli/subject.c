#include "cli/subject.h"

#include <string.h>

/* Options whose value may be called NAME.lua without being what is worked on. */
static const char *const file_options[] = {"-o",      "--out",     "--repair",  "--sarif",
                                           "--junit", "--program", "--devices", "--compare-devices",
                                           NULL};

bool orr_cli_ends_in(const char *path, const char *end) {
    size_t length = strlen(path), tail = strlen(end);
    return length > tail && strcmp(path + length - tail, end) == 0;
}

bool orr_cli_names_scenario(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        bool is_value = false;
        for (const char *const *name = file_options; *name; name++)
            is_value = is_value || strcmp(argv[i - 1], *name) == 0;
        if (!is_value && argv[i][0] != '-' && orr_cli_ends_in(argv[i], ".lua"))
            return true;
    }
    return false;
}

const char *orr_cli_option_among(int argc, char **argv, const char *const *names) {
    for (int i = 1; i < argc; i++)
        for (const char *const *name = names; *name; name++) {
            size_t length = strlen(*name);
            if (strncmp(argv[i], *name, length) == 0 &&
                (argv[i][length] == '\0' || argv[i][length] == '='))
                return *name;
        }
    return NULL;
}

static bool begins(const char *start, size_t size, const char *text, size_t length) {
    return size >= length && memcmp(start, text, length) == 0;
}

const char *orr_cli_other_file(const char *start, size_t size) {
    static const char trace[16] = "SQLite format 3"; /* with the NUL behind it */
    static const char of_programs[] = "{\n  \"orrery_schedule\"";
    static const char of_scenario[] = "{\n  \"orrery_scenario_schedule\"";
    if (begins(start, size, trace, sizeof trace))
        return "a trace";
    if (begins(start, size, of_programs, sizeof of_programs - 1) ||
        begins(start, size, of_scenario, sizeof of_scenario - 1))
        return "a schedule";
    return NULL;
}
