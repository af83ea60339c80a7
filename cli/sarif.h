/* SARIF 2.1.0 (OASIS standard "Static Analysis Results Interchange Format"): findings in the form
 * that code hosts show beside the lines they are about.
 *
 *     struct orr_sarif *sarif;
 *     if (orr_sarif_open("races.sarif", memory, &sarif, &error) != ORR_OK) ...
 *     orr_sarif_result(sarif, &(struct orr_sarif_finding){
 *         .rule = "race", .level = "error", .message = "...", .site = "train.lua:12",
 *         .related_site = "train.lua:9", .related = "the kernel that writes 'grad'"});
 *     status = orr_sarif_close(&sarif, &error);
 *
 * The file appears when it is whole. Sites are "file:line" as in a trace. All functions but open
 * accept NULL and then do nothing. Threads: one. */
#ifndef ORR_CLI_SARIF_H
#define ORR_CLI_SARIF_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

struct orr_sarif;

/* One finding; absent texts are NULL or "". */
struct orr_sarif_finding {
    const char *rule;                   /* the kind: "race", "use-after-free", ... */
    const char *level;                  /* "error", "warning", "note" */
    const char *message;                /* with the fix, if there is one */
    const char *site;                   /* where it shows */
    const char *related_site, *related; /* the other operation, and what it is */
};

/* Begins a report. ORR_IO if the file exists and is no SARIF file, or can't be written;
 * ORR_NO_MEMORY. `memory` is borrowed until the end. */
enum orr_status orr_sarif_open(const char *path, const struct orr_memory *memory,
                               struct orr_sarif **out_sarif,
                               struct orr_error *error) ORR_MUST_CHECK;

/* Adds a finding; texts are borrowed for the call. A failure is kept until close. */
void orr_sarif_result(struct orr_sarif *sarif, const struct orr_sarif_finding *finding);

/* Completes the file, frees and nulls. ORR_IO, ORR_NO_MEMORY: nothing is left behind. */
enum orr_status orr_sarif_close(struct orr_sarif **sarif, struct orr_error *error) ORR_MUST_CHECK;

/* Throws the report away, frees and nulls. */
void orr_sarif_discard(struct orr_sarif **sarif);

#endif
