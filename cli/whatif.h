/* `orrery whatif`: what its files share.
 *
 * Threads: one. */
#ifndef ORR_CLI_WHATIF_H
#define ORR_CLI_WHATIF_H

#include "analyzer/whatif.h"
#include "cli/session.h"
#include "runtime/perturb.h"

struct orr_whatif_request {
    struct orr_whatif_setting settings[ORR_WHATIF_SETTINGS_MAX];
    size_t setting_count;
    bool as_json, no_rerun;
    const char *rerun; /* arguments of the scenario for the re-run, "key=value ..."; NULL: none */
};

/* A scenario: runs it, predicts from its trace, and runs it again as predicted. `argv` is what is
 * left of the words without those of the request. */
enum orr_exit orr_whatif_scenario(const struct orr_cli *cli, int argc, char **argv,
                                  const char *usage, const struct orr_whatif_request *request);

/* Prints the answer. ORR_EXIT_NO for none. */
enum orr_exit orr_whatif_print(const struct orr_cli *cli, const struct orr_whatif *whatif,
                               const struct orr_whatif_rerun *rerun, bool as_json);

/* How a scenario is run again as predicted: what its machine, its perturbations and its arguments
 * then are. */
struct orr_whatif_change {
    const struct orr_whatif_request *request;
    struct orr_device_spec *specs; /* as the first run had them; owned */
    size_t spec_count;
    const struct orr_memory *memory;
    bool dispatches; /* dispatch hosts launch: an operator's other part is its caller's */
    uint8_t *spans;  /* by collective: its members are in several nodes; owned */
    struct orr_perturb perturb; /* the first run's rules, changed */
    bool perturbs, possible;
    char how[ORR_WHATIF_NAME_MAX]; /* what was changed, or why it is not possible */
};

/* Works out the change from what was predicted. */
void orr_whatif_plan(const struct orr_whatif *whatif, struct orr_whatif_change *change);

/* Of options->tune: keeps the devices in the change (context), or changes them as planned. */
void orr_whatif_keep(void *context, struct orr_device_spec *devices, size_t count);
void orr_whatif_tune(void *context, struct orr_device_spec *devices, size_t count);

/* What a setting makes of a machine. */
void orr_whatif_tune_device(struct orr_device_spec *spec, const struct orr_whatif_setting *setting);

/* Of orr_whatif_options.work, with the change as context: what the simulator's cost model says. */
int64_t orr_whatif_work(void *context, const struct orr_events *events, uint32_t op);
/* Of orr_whatif_options.changed: the same with other bandwidths. */
int64_t orr_whatif_changed(void *context, const struct orr_whatif_setting *setting,
                           const struct orr_events *events, uint32_t op, int64_t work);

#endif
