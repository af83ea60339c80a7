/* The analysis as one HTML file that needs nothing else: no network, no other file.
 *
 * It holds the JSON document of `analyze --json` as it is (in a script element of type
 * application/json, id "analysis"), a second one of its own (id "overview": times cut into cells
 * for the charts), the chart library uPlot, and the page that draws them. The page shows every
 * section of the document; those that it has no drawing for become tables, so that a new section
 * of the report needs nothing here.
 *
 *     overview   {verdict, left_out{NAME: count}, set_left_out{}, left_out_nested, texts_cut,
 *                 begin_ns, window_ns, cell_ns, cells, kinds[],
 *                 devices[{id, name, ns{KIND: [ns of each cell]}}], devices_left_out,
 *                 path{ns{KIND: [...]}},
 *                 counters[{device, name, points[[cell, value], ...]}], counters_left_out}
 *
 * The cells are exact: over the kinds, those of a device sum to its window, cell by cell. At most
 * ORR_REPORT_HTML_DEVICES devices have them. A counter has its largest value of each cell, at the
 * cells where that changes. The document of several ranks is a third one (id "set"). A document
 * above ORR_REPORT_HTML_BYTES is cut: of each long array only the first items stay, which
 * `left_out` counts, so that the file stays a few MB whatever the trace.
 *
 * Names from the trace are data in it, never markup: they stand in JSON, where `<`, `>`, `&` and
 * the line separators of Unicode are escaped.
 *
 *     char *text;
 *     size_t length;
 *     if (orr_report_html(analysis, NULL, &text, &length) != ORR_OK) ...
 *     fwrite(text, 1, length, file);
 *     orr_memory_free(analysis->memory, text);
 *
 * Threads: pure function. */
#ifndef ORR_ANALYZER_REPORT_HTML_H
#define ORR_ANALYZER_REPORT_HTML_H

#include "analyzer/analysis.h"

enum {
    ORR_REPORT_HTML_DEVICES = 64,
    ORR_REPORT_HTML_CELLS = 2000, /* of one device, at most; fewer with many devices */
    ORR_REPORT_HTML_COUNTERS = 64,
    ORR_REPORT_HTML_BYTES = 4 << 20 /* of a document, above which it is cut */
};

/* What a page may take from its caller; NULL or zeroed for none. Borrowed for the call. */
struct orr_report_html_extra {
    const char *set; /* JSON of the report about the ranks that the analysis joins (report_set.h) */
    size_t set_length;
    const char *verdict; /* text whose first line is the sentence at the top, with or without
                          * "verdict: "; NULL: the text report */
};

/* Near its begin, in every page: by it a file is known as one of ours. */
#define ORR_REPORT_HTML_MARK "<meta name=\"generator\" content=\"Orrery analyze\">"

/* *out_text is NUL-terminated, ends with a newline, and is freed with
 * orr_memory_free(analysis->memory). ORR_NO_MEMORY. */
enum orr_status orr_report_html(const struct orr_analysis *analysis,
                                const struct orr_report_html_extra *extra, char **out_text,
                                size_t *out_length) ORR_MUST_CHECK;

#endif
