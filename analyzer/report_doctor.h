/* What the doctor found, as text for people and as JSON: what `orrery doctor TRACE` prints.
 *
 * JSON: {file, format, status, clock, time_base_ns, window_ns, ops, devices, residual_ns,
 * checks[{kind, severity, count, of, worst_ns, first, message, meaning}], answers{NAME: {answer,
 * reason}}, errors, warnings, notes}. What is not a count, a time or an op is null; `first` is
 * {name, device, stream, start_ns, correlation} of an op or {call, thread, begin_ns} of a call.
 * `orrery analyze --json` has checks, answers and the three counts under "doctor".
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_DOCTOR_H
#define ORR_ANALYZER_REPORT_DOCTOR_H

#include "analyzer/analysis.h"

/* *out_text is NUL-terminated, ends with a newline, and is freed with
 * orr_memory_free(analysis->memory). ORR_NO_MEMORY. */
enum orr_status orr_report_doctor_text(const struct orr_analysis *analysis, char **out_text,
                                       size_t *out_length) ORR_MUST_CHECK;
enum orr_status orr_report_doctor_json(const struct orr_analysis *analysis, char **out_text,
                                       size_t *out_length) ORR_MUST_CHECK;

#endif
