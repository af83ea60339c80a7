/* Values in the analyzer's JSON report by their path, for expect.analysis.
 *
 *     struct orr_json_document *document;
 *     if (orr_json_of_analysis(analysis, &memory, &document, &error) != ORR_OK) ...
 *     struct orr_json_value value;
 *     status = orr_json_find(document, "devices[0].idle.launch", &value, &error);
 *     orr_json_destroy(&document);
 *
 * SQLite does the parsing. Threads: one. */
#ifndef ORR_CLI_JSON_PATH_H
#define ORR_CLI_JSON_PATH_H

#include "analyzer/analysis.h"
#include "runtime/error.h"
#include "runtime/memory.h"

enum orr_json_kind { ORR_JSON_ABSENT, ORR_JSON_NUMBER, ORR_JSON_TEXT };

struct orr_json_value {
    enum orr_json_kind kind; /* true, false, objects and arrays are texts */
    double number;
    char text[256]; /* cut if longer */
};

struct orr_json_document;

/* The report of an analysis as a document. Owned by the caller. ORR_NO_MEMORY; ORR_IO if SQLite
 * can't. */
enum orr_status orr_json_of_analysis(const struct orr_analysis *analysis,
                                     const struct orr_memory *memory,
                                     struct orr_json_document **out_document,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* The value at a path of names and indexes, as in "phases[0].class". ORR_INVALID for a path that is
 * none. */
enum orr_status orr_json_find(const struct orr_json_document *document, const char *path,
                              struct orr_json_value *out_value,
                              struct orr_error *error) ORR_MUST_CHECK;

/* Frees and nulls; accepts NULL. */
void orr_json_destroy(struct orr_json_document **document);

#endif
