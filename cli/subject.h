/* What a verb was given to work on: a scenario, a trace, stream programs, a schedule.
 *
 * Threads: any. */
#ifndef ORR_CLI_SUBJECT_H
#define ORR_CLI_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Is a scenario (NAME.lua) among the words? Values of options that name files don't count. */
bool orr_cli_names_scenario(int argc, char **argv);
/* Does the name end in this, as in ".lua"? */
bool orr_cli_ends_in(const char *path, const char *end);
/* The first of the words that is one of these options, up to its '='; names end in NULL. NULL:
 * there is none. */
const char *orr_cli_option_among(int argc, char **argv, const char *const *names);
/* By its first bytes, what a file is that holds no stream programs: "a trace" or "a schedule"; NULL
 * if it may hold some. */
const char *orr_cli_other_file(const char *start, size_t size);

#endif
