#include "analyzer/report_html.h"

#include <string.h>

#include "analyzer/report_html/embed.h"
#include "analyzer/report_html_internal.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"

/* The page is skeleton.html with its marks, each alone in a line, replaced. */
struct page {
    const struct orr_analysis *a;
    struct orr_text text;
};

static const char *find_file(const char *name) {
    static const struct {
        const char *name, *text;
    } files[] = {
#define FILE_ENTRY(file_name, file_text) {file_name, file_text},
        ORR_EMBED_ANALYZER_REPORT_HTML(FILE_ENTRY)
#undef FILE_ENTRY
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (strcmp(files[i].name, name) == 0) {
            return files[i].text;
        }
    }
    return "";
}

static void add(struct orr_text *text, const char *string) {
    orr__text_append(text, string, strlen(string));
}

/* ------------------------------------------------------------------------------------------------
 * The documents */

/* First line of a text report, without its "verdict: ". */
static enum orr_status put_verdict(struct json *j, const char *report) {
    static const char head[] = "verdict: ";
    report += strncmp(report, head, sizeof head - 1) == 0 ? sizeof head - 1 : 0;
    char *sentence = orr_memory_text(j->memory, report, strcspn(report, "\n"));
    if (!sentence) {
        return ORR_NO_MEMORY;
    }
    put_string(j, "verdict", sentence);
    orr_memory_free(j->memory, sentence);
    return ORR_OK;
}

static enum orr_status put_own_verdict(struct json *j, const struct orr_analysis *a) {
    char *report;
    size_t length;
    enum orr_status status = orr_report_text(a, &report, &length);
    if (status != ORR_OK) {
        return status;
    }
    status = put_verdict(j, report);
    orr_memory_free(a->memory, report);
    return status;
}

/* Cuts `document` until it is small enough; what stays is in *out, which is owned by the caller.
 * The last limit is taken whatever it leaves. */
static enum orr_status cut_document(const char *document, size_t length,
                                    const struct orr_memory *memory, struct orr_text *out,
                                    struct orr__html_cut *cut) {
    static const size_t limits[] = {4000, 1500, 500, 150, 40, 10};
    enum { LIMITS = sizeof limits / sizeof *limits };
    for (size_t i = 0; i < LIMITS; i++) {
        *out = (struct orr_text){.memory = memory};
        *cut = (struct orr__html_cut){.left_out = {.text = {.memory = memory}, .memory = memory}};
        bool whole = orr__html_trim(document, length, limits[i], limits[i] < 500 ? 500 : limits[i],
                                    out, cut);
        bool failed = out->failed || cut->left_out.text.failed;
        if (whole && !failed && (out->length <= ORR_REPORT_HTML_BYTES || i + 1 == LIMITS)) {
            return ORR_OK;
        }
        orr__text_free(out);
        orr__text_free(&cut->left_out.text);
        if (!whole) {
            return failed ? ORR_NO_MEMORY : ORR_INVALID;
        }
    }
    return ORR_NO_MEMORY;
}

/* What was left out of a document: {NAME: items}. */
static void put_cut(struct json *j, const char *name, const struct orr__html_cut *cut) {
    put_open(j, name, "{");
    if (cut->left_out.text.data) {
        add(&j->text, cut->left_out.text.data);
    }
    put_close(j, "}");
}

static void add_script(struct orr_text *text, const char *id, const char *json, size_t length) {
    orr__text_add(text, "<script type=\"application/json\" id=\"%s\">", id);
    orr__html_escape(text, json, length);
    add(text, "</script>\n");
}

static enum orr_status add_overview(struct page *p, const struct orr_report_html_extra *extra,
                                    const struct orr__html_cut *cut,
                                    const struct orr__html_cut *set_cut) {
    const struct orr_memory *memory = p->a->memory;
    struct json j = {.text = {.memory = memory}, .memory = memory};
    put_open(&j, NULL, "{");
    enum orr_status status =
        extra && extra->verdict ? put_verdict(&j, extra->verdict) : put_own_verdict(&j, p->a);
    put_cut(&j, "left_out", cut);
    put_cut(&j, "set_left_out", set_cut);
    put_count(&j, "left_out_nested", cut->nested + set_cut->nested);
    put_count(&j, "texts_cut", cut->characters + set_cut->characters);
    if (status == ORR_OK) {
        status = orr__html_overview(&j, p->a);
    }
    put_close(&j, "}");
    if (status == ORR_OK && j.text.failed) {
        status = ORR_NO_MEMORY;
    }
    if (status == ORR_OK) {
        add_script(&p->text, "overview", j.text.data, j.text.length);
    }
    orr__text_free(&j.text);
    return status;
}

/* A document as it is, or cut if it is long; *out_cut is freed by the caller in any case. */
static enum orr_status add_document(struct page *p, const char *id, const char *document,
                                    size_t length, struct orr__html_cut *out_cut) {
    *out_cut = (struct orr__html_cut){0};
    if (length <= ORR_REPORT_HTML_BYTES) {
        add_script(&p->text, id, document, length);
        return ORR_OK;
    }
    struct orr_text shorter;
    enum orr_status status = cut_document(document, length, p->a->memory, &shorter, out_cut);
    if (status == ORR_OK) {
        add_script(&p->text, id, shorter.data, shorter.length);
        orr__text_free(&shorter);
    }
    return status;
}

static enum orr_status add_data(struct page *p, const struct orr_report_html_extra *extra) {
    char *document = NULL;
    size_t length;
    struct orr__html_cut cut = {0}, set_cut = {0};
    enum orr_status status = orr_report_json(p->a, &document, &length);
    if (status == ORR_OK) {
        status = add_document(p, "analysis", document, length, &cut);
    }
    if (status == ORR_OK && extra && extra->set) {
        status = add_document(p, "set", extra->set, extra->set_length, &set_cut);
    }
    if (status == ORR_OK) {
        status = add_overview(p, extra, &cut, &set_cut);
    }
    orr__text_free(&cut.left_out.text);
    orr__text_free(&set_cut.left_out.text);
    orr_memory_free(p->a->memory, document);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * The page */

static void add_style(struct orr_text *text) {
    add(text, "<style>\n");
    add(text, find_file("uPlot.min"));
    add(text, "\n");
    add(text, find_file("page"));
    add(text, "</style>\n");
}

static void add_code(struct orr_text *text) {
    static const char *const files[] = {"numbers",  "tables",        "charts",        "timeline",
                                        "sections", "sections_work", "sections_rest", "main"};
    add(text, "<script>\n/*!\n");
    add(text, find_file("uPlot.LICENSE"));
    add(text, "*/\n");
    add(text, find_file("uPlot.iife.min"));
    add(text, "\n</script>\n<script>\n\"use strict\";\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        add(text, find_file(files[i]));
    }
    add(text, "</script>\n");
}

enum orr_status orr_report_html(const struct orr_analysis *analysis,
                                const struct orr_report_html_extra *extra, char **out_text,
                                size_t *out_length) {
    struct page p = {.a = analysis, .text = {.memory = analysis->memory}};
    enum orr_status status = ORR_OK;
    *out_text = NULL;
    *out_length = 0;
    for (const char *at = find_file("skeleton"); *at != '\0' && status == ORR_OK;) {
        size_t length = strcspn(at, "\n") + 1;
        if (strncmp(at, "<!-- style -->", 14) == 0) {
            add_style(&p.text);
        } else if (strncmp(at, "<!-- data -->", 13) == 0) {
            status = add_data(&p, extra);
        } else if (strncmp(at, "<!-- code -->", 13) == 0) {
            add_code(&p.text);
        } else {
            orr__text_append(&p.text, at, length);
        }
        at += length;
    }
    if (status == ORR_OK && p.text.failed) {
        status = ORR_NO_MEMORY;
    }
    if (status != ORR_OK) {
        orr__text_free(&p.text);
        return status;
    }
    *out_text = p.text.data;
    *out_length = p.text.length;
    return ORR_OK;
}
