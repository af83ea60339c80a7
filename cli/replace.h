/* Only files that Orrery wrote are replaced: what a path given for an output may hold already.
 *
 * Threads: any. */
#ifndef ORR_CLI_REPLACE_H
#define ORR_CLI_REPLACE_H

#include "runtime/error.h"

/* May a file be written to `path`? Yes if nothing is there, or nothing in it, or no regular file;
 * else only if `mark` stands in its first 512 bytes. ORR_IO: it may not ("..., and is no WHAT; it
 * is not replaced"), or can't be read. To be asked before the work, and again before the writing.
 */
enum orr_status orr_replace_check(const char *path, const char *mark, const char *what,
                                  struct orr_error *error) ORR_MUST_CHECK;

#endif
