/* Parts of the HTML report. Internal to analyzer/.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_HTML_INTERNAL_H
#define ORR_ANALYZER_REPORT_HTML_INTERNAL_H

#include "analyzer/report_html.h"
#include "analyzer/report_json_internal.h"

/* The cells that a window is cut into, the last one shorter. */
struct orr__html_cells {
    int64_t begin_ns, end_ns, cell_ns;
    size_t count; /* 0 for an empty window */
};

/* Members of the open object of `j`: begin_ns, window_ns, cell_ns, cells, kinds, devices,
 * devices_left_out, path, counters, counters_left_out. ORR_NO_MEMORY, also if the text has
 * failed. */
enum orr_status orr__html_overview(struct json *j, const struct orr_analysis *analysis);
/* The last two of these. */
void orr__html_counters(struct json *j, const struct orr_timeline *timeline,
                        const struct orr__html_cells *cells);

/* What was taken out of a document. */
struct orr__html_cut {
    struct json left_out; /* {NAME: items} of the arrays that are members of the document; owned by
                           * the caller, who opens the object */
    uint64_t nested;      /* items of arrays deeper in it */
    uint64_t characters;  /* texts that were cut */
};

/* Appends JSON `document` to `out`, of each array the first `items` items only, of each text the
 * first `bytes` bytes. `document` must be valid JSON of less than 64 levels. False if it is not, or
 * without memory (out->failed). */
bool orr__html_trim(const char *document, size_t length, size_t items, size_t bytes,
                    struct orr_text *out, struct orr__html_cut *cut);

/* Appends JSON so that it may stand in a script element: no `<`, `>`, `&`, U+2028, U+2029. */
void orr__html_escape(struct orr_text *out, const char *json, size_t length);

#endif
