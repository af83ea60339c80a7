#include "cli/sarif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/replace.h"
#include "trace/json_writer.h"

enum { RULES_MAX = 64, BUFFER_SIZE = 16 << 10 };

struct orr_sarif {
    const struct orr_memory *memory;
    struct orr_output *output;
    struct orr_json_writer json;
    char *rules[RULES_MAX]; /* the kinds that were found, in order; owned */
    uint32_t rule_count;
    uint64_t result_count;
    bool failed; /* out of memory on the way */
    char buffer[BUFFER_SIZE];
};

/* What is said of the kinds that the checks find, for a reader who never saw one. */
static const struct {
    const char *rule, *text;
} descriptions[] = {
    {"race", "Two accesses to the same bytes, one of them a write, that nothing orders."},
    {"use-after-free", "Memory is used after its end of life, or not ordered before it."},
    {"use-before-alloc", "Memory is used without being ordered after its allocation."},
    {"unordered-free", "Memory is freed while another stream may still use it."},
    {"hang", "In some order of events nothing can go on."},
    {"mismatch", "Ranks make different calls where a collective needs the same."},
    {"collective-mismatch", "Ranks make different calls where a collective needs the same."},
    {"error", "A call breaks a rule of stream capture."},
    {"event-unrecorded", "A wait for an event that was never recorded waits for nothing."},
};

/* --- the file --- */

enum orr_status orr_sarif_open(const char *path, const struct orr_memory *memory,
                               struct orr_sarif **out_sarif, struct orr_error *error) {
    *out_sarif = NULL;
    enum orr_status status = orr_replace_check(path, "sarif", "SARIF file", error);
    if (status != ORR_OK)
        return status;
    struct orr_sarif *sarif = orr_memory_alloc(memory, sizeof *sarif);
    if (!sarif)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for %s", path);
    sarif->memory = memory;
    status = orr_output_create(path, memory, &sarif->output, error);
    if (status != ORR_OK) {
        orr_memory_free(memory, sarif);
        return status;
    }
    orr_json_start(&sarif->json, sarif->output, sarif->buffer, sizeof sarif->buffer);
    ORR_JSON_LITERAL(&sarif->json, "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\","
                                   "\"version\":\"2.1.0\",\"runs\":[{\"results\":[");
    *out_sarif = sarif;
    return ORR_OK;
}

static void destroy(struct orr_sarif **handle) {
    struct orr_sarif *sarif = *handle;
    for (uint32_t i = 0; i < sarif->rule_count; i++)
        orr_memory_free(sarif->memory, sarif->rules[i]);
    orr_memory_free(sarif->memory, sarif);
    *handle = NULL;
}

void orr_sarif_discard(struct orr_sarif **sarif) {
    if (!*sarif)
        return;
    orr_output_discard(&(*sarif)->output);
    destroy(sarif);
}

/* --- results --- */

static void text_member(struct orr_sarif *sarif, const char *key, const char *value) {
    orr_json_bytes(&sarif->json, key, strlen(key));
    orr_json_text(&sarif->json, value);
    ORR_JSON_LITERAL(&sarif->json, "\"");
}

/* {"physicalLocation": ...} of "file:line", or of a file without a line. */
static void location(struct orr_sarif *sarif, const char *site, const char *message) {
    char file[4096];
    snprintf(file, sizeof file, "%s", site);
    char *colon = strrchr(file, ':'), *end = NULL;
    long line = colon ? strtol(colon + 1, &end, 10) : 0;
    if (line > 0 && *end == '\0')
        *colon = '\0';
    else
        line = 0;
    text_member(sarif, "{\"physicalLocation\":{\"artifactLocation\":{\"uri\":\"", file);
    ORR_JSON_LITERAL(&sarif->json, "}");
    if (line > 0) {
        ORR_JSON_LITERAL(&sarif->json, ",\"region\":{\"startLine\":");
        orr_json_i64(&sarif->json, line);
        ORR_JSON_LITERAL(&sarif->json, "}");
    }
    ORR_JSON_LITERAL(&sarif->json, "}");
    if (message && *message) {
        text_member(sarif, ",\"message\":{\"text\":\"", message);
        ORR_JSON_LITERAL(&sarif->json, "}");
    }
    ORR_JSON_LITERAL(&sarif->json, "}");
}

static void add_rule(struct orr_sarif *sarif, const char *rule) {
    for (uint32_t i = 0; i < sarif->rule_count; i++)
        if (strcmp(sarif->rules[i], rule) == 0)
            return;
    if (sarif->rule_count == RULES_MAX)
        return; /* a ruleId without a description is legal */
    char *copy = orr_memory_text(sarif->memory, rule, strlen(rule));
    sarif->failed |= !copy;
    if (copy)
        sarif->rules[sarif->rule_count++] = copy;
}

void orr_sarif_result(struct orr_sarif *sarif, const struct orr_sarif_finding *finding) {
    if (!sarif)
        return;
    add_rule(sarif, finding->rule);
    if (sarif->result_count++ > 0)
        ORR_JSON_LITERAL(&sarif->json, ",");
    text_member(sarif, "\n{\"ruleId\":\"", finding->rule);
    text_member(sarif, ",\"level\":\"", finding->level);
    text_member(sarif, ",\"message\":{\"text\":\"", finding->message);
    ORR_JSON_LITERAL(&sarif->json, "},\"locations\":[");
    if (finding->site && *finding->site)
        location(sarif, finding->site, NULL);
    ORR_JSON_LITERAL(&sarif->json, "]");
    if (finding->related_site && *finding->related_site) {
        ORR_JSON_LITERAL(&sarif->json, ",\"relatedLocations\":[");
        location(sarif, finding->related_site, finding->related);
        ORR_JSON_LITERAL(&sarif->json, "]");
    }
    ORR_JSON_LITERAL(&sarif->json, "}");
}

/* --- the end --- */

static const char *description_of(const char *rule) {
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++)
        if (strcmp(descriptions[i].rule, rule) == 0)
            return descriptions[i].text;
    return NULL;
}

static void write_rules(struct orr_sarif *sarif) {
    for (uint32_t i = 0; i < sarif->rule_count; i++) {
        const char *text = description_of(sarif->rules[i]);
        if (i > 0)
            ORR_JSON_LITERAL(&sarif->json, ",");
        text_member(sarif, "\n{\"id\":\"", sarif->rules[i]);
        if (text) {
            text_member(sarif, ",\"shortDescription\":{\"text\":\"", text);
            ORR_JSON_LITERAL(&sarif->json, "}");
        }
        ORR_JSON_LITERAL(&sarif->json, "}");
    }
}

enum orr_status orr_sarif_close(struct orr_sarif **handle, struct orr_error *error) {
    struct orr_sarif *sarif = *handle;
    if (!sarif)
        return ORR_OK;
    if (sarif->failed) {
        orr_sarif_discard(handle);
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for the SARIF report");
    }
    text_member(sarif, "],\"columnKind\":\"unicodeCodePoints\",\"tool\":{\"driver\":{\"name\":\"",
                "orrery");
    text_member(sarif, ",\"version\":\"", ORR_CLI_VERSION);
    ORR_JSON_LITERAL(&sarif->json, ",\"rules\":[");
    write_rules(sarif);
    ORR_JSON_LITERAL(&sarif->json, "]}}}]}\n");
    orr_json_flush(&sarif->json);
    enum orr_status status = orr_output_finish(&sarif->output, error);
    destroy(handle);
    return status;
}
