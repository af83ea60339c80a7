#include "cli/junit.h"

#include <stdio.h>
#include <string.h>

#include "cli/replace.h"
#include "trace/output.h"

enum { BODY_MAX = 1 << 28 };

static void add(struct orr_junit *junit, const char *text, size_t length) {
    if (junit->failed)
        return;
    if (orr_memory_grow(junit->memory, &junit->body, &junit->capacity, junit->length + length, 1,
                        BODY_MAX) != ORR_OK) {
        junit->failed = true;
        return;
    }
    memcpy(junit->body + junit->length, text, length);
    junit->length += length;
}

static void add_text(struct orr_junit *junit, const char *text) {
    add(junit, text, strlen(text));
}

/* Text as XML content or attribute; control characters, which XML can't hold, become spaces. */
static void add_escaped(struct orr_junit *junit, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<': add_text(junit, "&lt;"); break;
        case '>': add_text(junit, "&gt;"); break;
        case '&': add_text(junit, "&amp;"); break;
        case '"': add_text(junit, "&quot;"); break;
        case '\n': add_text(junit, "\n"); break;
        default: {
            char plain = (unsigned char)*text < 0x20 ? ' ' : *text;
            add(junit, &plain, 1);
        }
        }
    }
}

static void add_attribute(struct orr_junit *junit, const char *name, const char *value) {
    add_text(junit, name);
    add_text(junit, "=\"");
    add_escaped(junit, value);
    add_text(junit, "\"");
}

static void end_case(struct orr_junit *junit) {
    if (junit->open)
        add_text(junit, "</failure>\n    </testcase>\n");
    junit->open = false;
}

void orr_junit_case(struct orr_junit *junit, const char *suite, const char *name,
                    enum orr_junit_outcome outcome, const char *message) {
    if (!junit)
        return;
    end_case(junit);
    junit->case_count++;
    add_text(junit, "    <testcase ");
    add_attribute(junit, "classname", suite);
    add_attribute(junit, " name", name);
    if (outcome == ORR_JUNIT_PASSED) {
        add_text(junit, "/>\n");
        return;
    }
    bool skipped = outcome == ORR_JUNIT_SKIPPED;
    add_text(junit, skipped ? ">\n      <skipped " : ">\n      <failure ");
    add_attribute(junit, "message", message);
    add_text(junit, skipped ? "/>\n    </testcase>\n" : ">\n");
    junit->skipped_count += skipped;
    junit->failed_count += !skipped;
    junit->open = !skipped;
}

void orr_junit_detail(struct orr_junit *junit, const char *text) {
    if (!junit || !junit->open)
        return;
    add_escaped(junit, text);
    add_text(junit, "\n");
}

enum orr_status orr_junit_check(const char *path, struct orr_error *error) {
    return orr_replace_check(path, "<testsuite", "JUnit XML", error);
}

enum orr_status orr_junit_write(struct orr_junit *junit, const char *path,
                                struct orr_error *error) {
    end_case(junit);
    enum orr_status checked = orr_junit_check(path, error);
    if (checked != ORR_OK)
        return checked;
    if (junit->failed)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for %s", path);
    struct orr_output *output;
    enum orr_status status = orr_output_create(path, junit->memory, &output, error);
    if (status != ORR_OK)
        return status;
    char head[256];
    int length = snprintf(head, sizeof head,
                          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                          "  <testsuite name=\"orrery\" tests=\"%zu\" failures=\"%zu\" "
                          "skipped=\"%zu\">\n",
                          junit->case_count, junit->failed_count, junit->skipped_count);
    orr_output_write(output, head, (size_t)length);
    orr_output_write(output, junit->body, junit->length);
    static const char tail[] = "  </testsuite>\n</testsuites>\n";
    orr_output_write(output, tail, sizeof tail - 1);
    return orr_output_finish(&output, error);
}

void orr_junit_clear(struct orr_junit *junit) {
    if (junit)
        orr_memory_free(junit->memory, junit->body);
}
