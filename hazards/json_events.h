/* JSON in pieces, of any size: one call per value, nothing is kept of what has been told.
 *
 *     struct orr__json json = {.memory = memory, .tell = take, .context = &mine};
 *     while (...) status = orr__json_parse(&json, bytes, size, &error);
 *     status = orr__json_end(&json, &error);          // one document; json is ready for the next
 *     orr__json_clear(&json);
 *
 * Parsing is yajl's. What is added here: every allocation is of our table (yajl does not look at
 * what its allocator returns, so a missing block ends its call by a jump over it), strings are
 * strict UTF-8, and two limits are stated: ORR_JSON_DEPTH_MAX levels, and ORR_JSON_TOKEN_MAX bytes
 * for one string, number or run of blanks (a little more may pass, depending on the pieces).
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_JSON_EVENTS_H
#define ORR_HAZARDS_JSON_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hazards/text_builder.h"
#include "runtime/error.h"
#include "runtime/memory.h"

enum { ORR_JSON_DEPTH_MAX = 1000000, ORR_JSON_TOKEN_MAX = 64 << 20 };

enum orr__json_kind {
    ORR__JSON_NULL,
    ORR__JSON_BOOL,
    ORR__JSON_NUMBER, /* text: as it was written */
    ORR__JSON_STRING,
    ORR__JSON_KEY,
    ORR__JSON_MAP,
    ORR__JSON_ARRAY,
    ORR__JSON_END /* of the innermost map or array */
};

/* text: NUL-terminated, borrowed for the call, in the encoding that orr__build_json_string takes.
 */
struct orr__json_value {
    enum orr__json_kind kind;
    bool is_true;
    const char *text;
    size_t length;
};

struct orr__json_block;
struct orr__json_call;

/* Zero but for memory, tell and context. */
struct orr__json {
    const struct orr_memory *memory;
    /* False ends the parsing: the status is then ORR_NO_MEMORY, there is no other reason. */
    bool (*tell)(void *context, const struct orr__json_value *value);
    void *context;
    void *handle; /* yajl's */
    struct orr__json_block *blocks;
    struct orr__json_call *call; /* whom a missing block jumps to */
    struct orr__builder token, held;
    uint64_t offset;        /* bytes of the document before this piece */
    uint64_t told;          /* where the last value that was told ends */
    size_t depth, quiet;    /* quiet: bytes since the last call of tell, without those held back */
    enum orr_status status; /* of the document so far */
};

/* The next bytes of a document. ORR_INVALID: it is no JSON, or beyond a limit; the rest of it may
 * be given, and is ignored. ORR_NO_MEMORY. */
enum orr_status orr__json_parse(struct orr__json *json, const char *bytes, size_t size,
                                struct orr_error *error) ORR_MUST_CHECK;

/* The end of a document: ORR_INVALID if something is missing, or was wrong before. */
enum orr_status orr__json_end(struct orr__json *json, struct orr_error *error) ORR_MUST_CHECK;

/* Frees everything and forgets the document. */
void orr__json_clear(struct orr__json *json);

#endif
