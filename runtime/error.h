/* Error detail: what was asked, what was found, what was expected, and where.
 *
 *     struct orr_error error = {0};
 *     if (orr_shape_parse(text, &shape, &error) != ORR_OK)
 *         fprintf(stderr, "%s\n", error.text);
 *
 * The text is one line without a trailing newline, kept in a fixed buffer owned by the caller, so
 * that an error path never allocates. The first error is kept: setting an error over an earlier one
 * does nothing, because the first cause is the one worth reading.
 *
 * Threads: an error object belongs to one thread at a time. */
#ifndef ORR_RUNTIME_ERROR_H
#define ORR_RUNTIME_ERROR_H

#include "runtime/status.h"

enum { ORR_ERROR_TEXT_MAX = 1024 };

struct orr_error {
    enum orr_status status; /* ORR_OK: no error yet */
    char text[ORR_ERROR_TEXT_MAX];
};

/* Fills *error (unless it holds an earlier one, or is NULL) and returns `status`, so that a
 * function can end with `return orr_error_set(...)`. Text that does not fit is cut with "...". */
enum orr_status orr_error_set(struct orr_error *error, enum orr_status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text of an error that is set; does nothing otherwise. Used by outer
 * layers that know the place (file and line) when the inner one knew only the fact. */
void orr_error_prefix(struct orr_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forgets the error. */
void orr_error_clear(struct orr_error *error);

/* The candidate nearest to `word` by edit distance, or NULL if none is near enough to suggest.
 * `candidates` is an array of `count` strings, borrowed for the call. Used in every message of the
 * kind: unknown key 'dvice', did you mean 'device'? */
const char *orr_nearest_name(const char *word, const char *const *candidates, int count);

#endif
