#include "cli/judge.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "cli/json_path.h"
#include "cli/judge_clean.h"
#include "trace/timeline.h"

enum { TEXT_MAX = 1024 };

struct judge {
    const struct orr_memory *memory;
    struct orr_error *error;
    const char *trace;             /* its path; NULL: there is none */
    struct orr_timeline *timeline; /* NULL without a trace, or when nothing needs it */
    struct orr_analysis *analysis;
    struct orr_json_document *report; /* made when the first expectation needs it */
};

/* --- what an expectation says about the trace --- */

static bool fail(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, TEXT_MAX, format, arguments);
    va_end(arguments);
    return false;
}

static bool judge_finding(const struct judge *judge, const struct orr_expectation *expectation,
                          char *text) {
    const struct orr_analysis_findings *findings = &judge->analysis->findings;
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].kind, expectation->name) == 0)
            return true;
    return fail(text, "no finding of kind '%s' among %zu", expectation->name, findings->count);
}

/* Classes are spelt with underscores in the analyzer, with hyphens for people. */
static bool same_class(const char *spelt, const char *class_) {
    for (; *spelt && *class_; spelt++, class_++)
        if (*spelt != *class_ && !(*spelt == '-' && *class_ == '_'))
            return false;
    return *spelt == *class_;
}

/* Time of a device in phases of the same class as phase `at`. */
static int64_t time_in_class(const struct orr_phases *phases, size_t at) {
    const struct orr_phase *phase = &phases->items[at];
    int64_t total = 0;
    for (size_t i = 0; i < phases->count; i++)
        if (phases->items[i].device == phase->device &&
            strcmp(orr_phase_class_text(&phases->items[i]), orr_phase_class_text(phase)) == 0)
            total += phases->items[i].end_ns - phases->items[i].begin_ns;
    return total;
}

/* The class in which the device spent most of its time, against the wanted one. */
static bool judge_phase(const struct judge *judge, const struct orr_expectation *expectation,
                        char *text) {
    const struct orr_phases *phases = &judge->analysis->phases;
    const char *longest = NULL;
    int64_t longest_ns = -1;
    for (size_t i = 0; i < phases->count; i++) {
        if (phases->items[i].device != expectation->device)
            continue;
        int64_t time_ns = time_in_class(phases, i);
        if (time_ns > longest_ns) {
            longest_ns = time_ns;
            longest = orr_phase_class_text(&phases->items[i]);
        }
    }
    if (!longest)
        return fail(text, "device %u has no phase", expectation->device);
    if (same_class(expectation->name, longest))
        return true;
    return fail(text, "device %u is %s for %lld ns, wanted %s", expectation->device, longest,
                (long long)longest_ns, expectation->name);
}

static bool judge_number(const struct orr_json_value *value,
                         const struct orr_expectation *expectation, char *text) {
    double wanted = expectation->number;
    if (value->kind != ORR_JSON_NUMBER)
        return fail(text, "%s is %s, wanted %.14g", expectation->name, value->text, wanted);
    if (fabs(value->number - wanted) <= expectation->tolerance * fabs(wanted))
        return true;
    return fail(text, "%s is %s, wanted %.14g within %.4g %%", expectation->name, value->text,
                wanted, expectation->tolerance * 100);
}

static bool judge_text(const struct orr_json_value *value,
                       const struct orr_expectation *expectation, char *text) {
    if (same_class(expectation->text, value->text) || strcmp(expectation->text, value->text) == 0)
        return true;
    return fail(text, "%s is %s, wanted %s", expectation->name, value->text, expectation->text);
}

static enum orr_status judge_analysis(struct judge *judge,
                                      const struct orr_expectation *expectation, bool *out_passed,
                                      char *text) {
    if (!judge->report) {
        enum orr_status status =
            orr_json_of_analysis(judge->analysis, judge->memory, &judge->report, judge->error);
        if (status != ORR_OK)
            return status;
    }
    struct orr_json_value value;
    enum orr_status status = orr_json_find(judge->report, expectation->name, &value, judge->error);
    if (status == ORR_INVALID) { /* a path that is none: this expectation fails, others go on */
        *out_passed = fail(text, "%s", judge->error->text);
        orr_error_clear(judge->error);
        return ORR_OK;
    }
    if (status != ORR_OK)
        return status;
    if (value.kind == ORR_JSON_ABSENT)
        *out_passed = fail(text, "the analysis has no %s", expectation->name);
    else
        *out_passed = expectation->is_text ? judge_text(&value, expectation, text)
                                           : judge_number(&value, expectation, text);
    return ORR_OK;
}

/* --- all of them --- */

static enum orr_status judge_one(struct judge *judge, const struct orr_expectation *expectation,
                                 struct orr_judgement *verdict, char *text) {
    text[0] = '\0';
    verdict->judged = expectation->kind == ORR_EXPECT_VALUE || judge->trace;
    if (!verdict->judged)
        return ORR_OK;
    switch (expectation->kind) {
    case ORR_EXPECT_VALUE:
        verdict->passed = expectation->passed;
        snprintf(text, TEXT_MAX, "%s", expectation->text);
        return ORR_OK;
    case ORR_EXPECT_CLEAN:
        return orr_judge_clean(judge->trace, &verdict->passed, text, TEXT_MAX, judge->error);
    case ORR_EXPECT_FINDING:
        verdict->passed = judge_finding(judge, expectation, text);
        return ORR_OK;
    case ORR_EXPECT_PHASE: verdict->passed = judge_phase(judge, expectation, text); return ORR_OK;
    case ORR_EXPECT_ANALYSIS: return judge_analysis(judge, expectation, &verdict->passed, text);
    }
    assert(0);
    return ORR_INVALID;
}

static enum orr_status add_verdict(struct judge *judge, const struct orr_expectation *expectation,
                                   struct orr_session_result *result) {
    char text[TEXT_MAX], whole[2 * TEXT_MAX];
    struct orr_judgement *verdict = &result->verdicts[result->verdict_count];
    enum orr_status status = judge_one(judge, expectation, verdict, text);
    if (status != ORR_OK)
        return status;
    snprintf(whole, sizeof whole, "%s: %s: %s", expectation->site, expectation->call, text);
    verdict->text = orr_memory_text(judge->memory, whole, strlen(whole));
    if (!verdict->text)
        return orr_error_set(judge->error, ORR_NO_MEMORY, "out of host memory for expectations");
    result->verdict_count++;
    result->failed_count += verdict->judged && !verdict->passed;
    return ORR_OK;
}

static enum orr_status read_trace(struct judge *judge, const char *trace) {
    enum orr_status status =
        orr_timeline_read(trace, judge->memory, &judge->timeline, judge->error);
    if (status != ORR_OK)
        return status;
    struct orr_analysis_options options = orr_analysis_options_default();
    options.file = trace;
    return orr_analyze(judge->timeline, &options, judge->memory, &judge->analysis, judge->error);
}

/* Whether an expectation is about more than rows of the trace: then all of it is read. */
static bool needs_analysis(const struct orr_scenario *scenario) {
    for (size_t i = 0; i < orr_scenario_expectation_count(scenario); i++) {
        enum orr_expectation_kind kind = orr_scenario_expectation(scenario, i)->kind;
        if (kind != ORR_EXPECT_VALUE && kind != ORR_EXPECT_CLEAN)
            return true;
    }
    return false;
}

enum orr_exit orr_judge(const struct orr_scenario *scenario, const char *trace,
                        const struct orr_memory *memory, struct orr_session_result *result,
                        struct orr_error *error) {
    struct judge judge = {.memory = memory, .error = error, .trace = trace};
    size_t count = orr_scenario_expectation_count(scenario);
    enum orr_status status = ORR_OK;
    result->verdicts = orr_memory_alloc(memory, (count + 1) * sizeof *result->verdicts);
    if (!result->verdicts)
        status = orr_error_set(error, ORR_NO_MEMORY, "out of host memory for expectations");
    if (status == ORR_OK && trace && needs_analysis(scenario))
        status = read_trace(&judge, trace);
    for (size_t i = 0; i < count && status == ORR_OK; i++)
        status = add_verdict(&judge, orr_scenario_expectation(scenario, i), result);
    orr_json_destroy(&judge.report);
    orr_analysis_destroy(&judge.analysis);
    orr_timeline_destroy(&judge.timeline);
    if (status != ORR_OK)
        return orr_cli_exit(status);
    return result->failed_count > 0 ? ORR_EXIT_NO : ORR_EXIT_OK;
}
