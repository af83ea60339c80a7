/* What an exploration of a scenario found, for people and as JSON. */
#include <string.h>

#include "cli/explore_scenario.h"
#include "hazards/text_builder.h"

static const char *strategy_text(enum orr_untimed_strategy strategy) {
    return strategy == ORR_UNTIMED_PCT ? "pct" : strategy == ORR_UNTIMED_RANDOM ? "random" : "dpor";
}

/* --- for people --- */

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

static void print_counts(FILE *out, const struct orr_explore_answer *answer, bool systematic) {
    fprintf(out, "%llu execution%s, %llu distinct order%s%s",
            (unsigned long long)answer->executions, plural(answer->executions),
            (unsigned long long)answer->orders, plural(answer->orders),
            !answer->capped ? ": all there are"
            : systematic    ? " of more: the budget ended it"
                            : "");
    if (answer->abandoned > 0)
        fprintf(out, "; %llu abandoned as repetitions", (unsigned long long)answer->abandoned);
    if (answer->hangs > 0)
        fprintf(out, "; %llu hang%s", (unsigned long long)answer->hangs,
                answer->hangs == 1 ? "s" : "");
    if (answer->result_count > 1)
        fprintf(out, "; %s%u different results",
                answer->result_count == ORR_EXPLORER_RESULTS_MAX ? "at least " : "",
                (unsigned)answer->result_count);
    fputc('\n', out);
}

static int width_of(const struct orr_shown *shown, size_t offset) {
    size_t width = 0;
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        size_t length = strlen((const char *)&shown->steps[i] + offset);
        width = length > width ? length : width;
    }
    return (int)width;
}

void orr_explore_print_steps(FILE *out, const struct orr_shown *shown) {
    int by = width_of(shown, offsetof(struct orr_shown_step, by));
    int does = width_of(shown, offsetof(struct orr_shown_step, does));
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        const struct orr_shown_step *step = &shown->steps[i];
        fprintf(out, "    %4u%c  %-*s  %-*s%s%s\n", (unsigned)(i + 1), step->chosen ? '*' : ' ', by,
                step->by, *step->site ? does : 0, step->does, *step->site ? "  " : "", step->site);
    }
    if (shown->shown_steps < shown->length)
        fprintf(out, "    and %u more as they come\n",
                (unsigned)(shown->length - shown->shown_steps));
}

void orr_explore_print(FILE *out, const struct orr_explored *explored,
                       const struct orr_explore_answer *answer, bool systematic) {
    fprintf(out, "%s: ", explored->path);
    print_counts(out, answer, systematic);
    for (size_t i = 0; i < answer->shown_count; i++) {
        const struct orr_shown *shown = &answer->shown[i];
        fprintf(out, "%s: %s", orr_found_text(shown->kind), shown->message);
        if (shown->times > 1)
            fprintf(out, " (%u such)", (unsigned)shown->times);
        fputc('\n', out);
        orr_explore_print_steps(out, shown);
    }
    if (answer->found_count > ORR_EXPLORE_SHOWN_MAX)
        fprintf(out, "and %zu more findings\n", answer->found_count - ORR_EXPLORE_SHOWN_MAX);
    if (answer->shown_count > 0)
        fputs("* is a choice out of the ordinary, which is what was enqueued first\n", out);
}

/* --- JSON --- */

static void build_member(struct orr__builder *text, const char *key, const char *value) {
    orr__build_format(text, "\"%s\": ", key);
    orr__build_json_string(text, value);
}

static void build_steps(struct orr__builder *text, const struct orr_shown *shown) {
    orr__build_text(text, ", \"steps\": [");
    for (uint32_t i = 0; i < shown->shown_steps; i++) {
        const struct orr_shown_step *step = &shown->steps[i];
        orr__build_text(text, i > 0 ? ", {" : "{");
        build_member(text, "by", step->by);
        orr__build_text(text, ", ");
        build_member(text, "does", step->does);
        orr__build_text(text, ", ");
        build_member(text, "site", step->site);
        orr__build_format(text, ", \"chosen\": %s}", step->chosen ? "true" : "false");
    }
    orr__build_text(text, "]");
}

static void build_finding(struct orr__builder *text, const struct orr_shown *shown) {
    orr__build_format(text, "{\"kind\": \"%s\", ", orr_found_text(shown->kind));
    build_member(text, "message", shown->message);
    orr__build_format(text, ", \"count\": %u, \"wrong_numbers\": %s, \"execution_steps\": %u",
                      (unsigned)shown->times, shown->differs ? "true" : "false",
                      (unsigned)shown->length);
    build_steps(text, shown);
    orr__build_text(text, "}");
}

enum orr_status orr_explore_print_json(FILE *out, const struct orr_explored *explored,
                                       const struct orr_explore_order *order,
                                       const struct orr_explore_answer *answer) {
    struct orr__builder text = {.memory = explored->memory};
    orr__build_text(&text, "{");
    build_member(&text, "scenario", explored->path);
    orr__build_format(&text,
                      ", \"strategy\": \"%s\", \"executions\": %llu, \"orders\": %llu, "
                      "\"abandoned\": %llu, \"hangs\": %llu, \"results\": %u, \"capped\": %s, "
                      "\"findings\": [",
                      strategy_text(order->options.strategy),
                      (unsigned long long)answer->executions, (unsigned long long)answer->orders,
                      (unsigned long long)answer->abandoned, (unsigned long long)answer->hangs,
                      (unsigned)answer->result_count, answer->capped ? "true" : "false");
    for (size_t i = 0; i < answer->shown_count; i++) {
        orr__build_text(&text, i > 0 ? ", " : "");
        build_finding(&text, &answer->shown[i]);
    }
    size_t more = answer->found_count > ORR_EXPLORE_SHOWN_MAX
                      ? answer->found_count - ORR_EXPLORE_SHOWN_MAX
                      : 0;
    orr__build_format(&text, "], \"more_findings\": %zu}\n", more);
    enum orr_status status = text.failed ? ORR_NO_MEMORY : ORR_OK;
    if (status == ORR_OK)
        fputs(text.data, out);
    orr__builder_clear(&text);
    return status;
}
