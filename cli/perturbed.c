#include "cli/perturbed.h"

static enum orr_status read_rules(const struct orr_session_options *options,
                                  struct orr_perturb *perturb, struct orr_error *error) {
    struct orr_perturb_rule *rule;
    *perturb = (struct orr_perturb){0};
    enum orr_status status = ORR_OK;
    if (options->perturb)
        status = orr_perturb_parse(perturb, options->perturb, error);
    if (status == ORR_OK && options->more_perturb)
        status = orr_perturb_merge(perturb, options->more_perturb, error);
    if (status != ORR_OK || !options->allocator)
        return status;
    status = orr_perturb_begin(perturb, orr_perturb_key(ORR_PERTURB_ALLOCATOR), &rule, error);
    return status == ORR_OK ? orr_perturb_set(rule, "", options->allocator, error) : status;
}

enum orr_exit orr_perturbed_check(const struct orr_cli *cli, const char *verb,
                                  const struct orr_session_options *options) {
    struct orr_perturb perturb;
    struct orr_error error = {0};
    if (read_rules(options, &perturb, &error) == ORR_OK)
        return ORR_EXIT_OK;
    return orr_cli_usage(cli, verb, "%s", error.text);
}

enum orr_exit orr_perturbed_begin(struct orr_runtime *runtime,
                                  const struct orr_session_options *options,
                                  struct orr_error *error) {
    struct orr_perturb perturb;
    if (!options->perturb && !options->allocator && !options->more_perturb)
        return ORR_EXIT_OK;
    enum orr_status status = read_rules(options, &perturb, error);
    if (status != ORR_OK)
        return ORR_EXIT_USAGE;
    status = orr_runtime_perturb(runtime, &perturb);
    if (status == ORR_OK)
        return ORR_EXIT_OK;
    (void)orr_error_set(error, status, "%s", orr_runtime_error(runtime)->text);
    return status == ORR_INVALID ? ORR_EXIT_USAGE : orr_cli_exit(status);
}

void orr_perturbed_warn(const struct orr_cli *cli, const struct orr_session_result *result) {
    if (!result->ran || !result->idle_perturbation[0])
        return;
    fflush(cli->out);
    fprintf(cli->err, "warning: perturb %s: it concerned nothing in this run\n",
            result->idle_perturbation);
}
