/* The check of a run: a monitor that watches it, and its findings in the trace and in the result.
 *
 * Threads: one. */
#ifndef ORR_CLI_RUN_CHECK_H
#define ORR_CLI_RUN_CHECK_H

#include "cli/check_report.h"
#include "cli/cli.h"
#include "hazards/monitor.h"
#include "hazards/observer_tee.h"
#include "runtime/runtime.h"

/* What the check of a run or trace had to say. */
struct orr_run_check {
    struct orr_monitor_finding *findings; /* owned */
    size_t finding_count;
    struct orr_monitor_figures figures;
    char ended_by[32]; /* kind of the last finding, if that ended the run: a hang; else "" */
};

struct orr_recorder;

/* Who watches a run. */
struct orr_watch {
    struct orr_monitor *monitor;   /* NULL: the run is not checked */
    struct orr_recorder *recorder; /* NULL: it is not written down */
    struct orr_observer_tee tee;
};

/* Makes those that are asked for: `options` NULL, no check. To be destroyed in any case. */
enum orr_status orr_watch_create(const struct orr_memory *memory,
                                 const struct orr_monitor_options *options, bool records,
                                 struct orr_watch *out_watch,
                                 struct orr_error *error) ORR_MUST_CHECK;
void orr_watch_destroy(struct orr_watch *watch);
/* The observer for the run; NULL if nobody watches. */
struct orr_observer *orr_watch_observer(struct orr_watch *watch);
/* May a stream program be written to `path`? ORR_IO: something else is there. To be asked before
 * the run; writing asks again. */
enum orr_status orr_watch_program_check(const char *path, struct orr_error *error) ORR_MUST_CHECK;

/* Writes the run as a stream program, a line; before its runtime is destroyed. */
enum orr_status orr_watch_write_program(const struct orr_watch *watch,
                                        const struct orr_memory *memory, const char *id,
                                        const char *path, struct orr_error *error) ORR_MUST_CHECK;

/* Copies the findings out of a monitor, and tells them to the runtime unless that is NULL. To be
 * called while what was observed is still there. ORR_NO_MEMORY if the check had too little. */
enum orr_status orr_run_check_end(struct orr_monitor *monitor, struct orr_runtime *runtime,
                                  const struct orr_memory *memory, struct orr_run_check *out_check,
                                  struct orr_error *error) ORR_MUST_CHECK;
/* Adds a finding that ended the run; `out_check` stays where it is from then on. ORR_NO_MEMORY. */
enum orr_status orr_run_check_ended(struct orr_run_check *out_check,
                                    const struct orr_memory *memory, const char *kind,
                                    const char *message, const char *fix) ORR_MUST_CHECK;
void orr_run_check_clear(struct orr_run_check *check, const struct orr_memory *memory);

/* Writes the findings and a summary as text, or as one JSON document. `subject` says what was
 * checked. */
void orr_run_check_print(const struct orr_run_check *check, const char *subject, bool json,
                         FILE *out);
/* One case of a report, with all findings. */
void orr_run_check_report(const struct orr_run_check *check, const char *subject, const char *name,
                          struct orr_check_report *report);
/* The summary alone. */
void orr_run_check_summary(const struct orr_run_check *check, const char *subject, FILE *out);

/* Exit code: ORR_EXIT_NO if there is a finding. */
enum orr_exit orr_run_check_exit(const struct orr_run_check *check);

#endif
