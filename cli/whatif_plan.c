/* The change that makes a scenario's next run what was predicted: costs of the machine, stragglers
 * that are fast, arguments. */
#include <string.h>

#include "cli/whatif.h"

__extension__ typedef unsigned __int128 wide;

void orr_whatif_keep(void *context, struct orr_device_spec *devices, size_t count) {
    struct orr_whatif_change *change = context;
    change->specs = orr_memory_alloc(change->memory, count * sizeof *change->specs);
    if (change->specs) {
        memcpy(change->specs, devices, count * sizeof *change->specs);
        change->spec_count = count;
    }
}

/* value x ppm / 10^6, half up. */
static uint64_t scaled(uint64_t value, uint64_t ppm) {
    wide product = ((wide)value * ppm + ORR_WHATIF_MILLION / 2) / ORR_WHATIF_MILLION;
    return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

/* As the prediction has it: what takes time takes at least 1 ns. */
static void set_time(int64_t *ns, const struct orr_whatif_setting *setting) {
    if (*ns <= 0)
        return;
    *ns = setting->scaled ? (int64_t)scaled((uint64_t)*ns, setting->time_ppm) : setting->ns;
    *ns = *ns > 0 ? *ns : 1;
}

void orr_whatif_tune_device(struct orr_device_spec *spec,
                            const struct orr_whatif_setting *setting) {
    switch (setting->key) {
    case ORR_WHATIF_LAUNCH_COST:
        set_time(&spec->host_operator_ns, setting);
        set_time(&spec->host_launch_ns, setting);
        set_time(&spec->host_graph_ns, setting);
        break;
    case ORR_WHATIF_HOST:
        set_time(&spec->host_operator_ns, setting);
        set_time(&spec->host_launch_ns, setting);
        set_time(&spec->host_graph_ns, setting);
        set_time(&spec->host_event_ns, setting);
        break;
    case ORR_WHATIF_BANDWIDTH:
        spec->bandwidth = scaled(spec->bandwidth, setting->factor_ppm);
        break;
    case ORR_WHATIF_NETWORK:
        spec->peer_bandwidth = scaled(spec->peer_bandwidth, setting->factor_ppm);
        spec->network_bandwidth = scaled(spec->network_bandwidth, setting->factor_ppm);
        break;
    default: break;
    }
}

void orr_whatif_tune(void *context, struct orr_device_spec *devices, size_t count) {
    const struct orr_whatif_change *change = context;
    for (size_t s = 0; s < change->request->setting_count; s++)
        for (size_t d = 0; d < count; d++) {
            const struct orr_device_spec before = devices[d];
            orr_whatif_tune_device(&devices[d], &change->request->settings[s]);
            int64_t callers_ns = before.host_operator_ns - before.host_launch_ns;
            if (change->dispatches && callers_ns > 0 &&
                change->request->settings[s].key == ORR_WHATIF_LAUNCH_COST)
                devices[d].host_operator_ns = devices[d].host_launch_ns + callers_ns;
        }
}

/* ------------------------------------------------------------------------------------------------
 * Perturbations */

static void refuse(struct orr_whatif_change *change, const char *why) {
    change->possible = false;
    snprintf(change->how, sizeof change->how, "%s", why);
}

static bool has_rule(const struct orr_whatif_change *change, uint32_t device, const char *name,
                     uint64_t ppm, uint32_t first) {
    for (uint32_t i = first; i < change->perturb.count; i++) {
        const struct orr_perturb_rule *rule = &change->perturb.rules[i];
        if (rule->device == device && rule->ppm == ppm && strcmp(rule->name, name) == 0)
            return true;
    }
    return false;
}

/* A straggler of a name on a device, faster or slower; false if there is no room for its rule. */
static bool add_rule(struct orr_whatif_change *change, uint32_t device, const char *name,
                     uint64_t ppm) {
    struct orr_error error = {0};
    struct orr_perturb_rule *rule;
    char number[32], factor[48];
    snprintf(number, sizeof number, "%u", (unsigned)device);
    snprintf(factor, sizeof factor, "%llu.%06llu", (unsigned long long)(ppm / ORR_WHATIF_MILLION),
             (unsigned long long)(ppm % ORR_WHATIF_MILLION));
    return orr_perturb_begin(&change->perturb, orr_perturb_key(ORR_PERTURB_STRAGGLER), &rule,
                             &error) == ORR_OK &&
           orr_perturb_set(rule, "device", number, &error) == ORR_OK &&
           orr_perturb_set(rule, "name", name, &error) == ORR_OK &&
           orr_perturb_set(rule, "by", factor, &error) == ORR_OK;
}

static bool is_meant(const struct orr_whatif_setting *setting, const struct orr_events *events,
                     const struct orr_events_op *op) {
    if (setting->key == ORR_WHATIF_CLASS)
        return strcmp(setting->name, "compute") == 0 && op->activity == ORR_ACTIVITY_COMPUTE;
    return orr_whatif_matches(setting->name, op->name) ||
           orr_whatif_matches(setting->name, events->operators[op->operator_index].name);
}

/* One rule for each name on each device: kernels of that name are stragglers of another pace. */
static void speed_kernels(struct orr_whatif_change *change, const struct orr_events *events,
                          const struct orr_whatif_setting *setting) {
    uint32_t first = change->perturb.count;
    for (size_t i = 0; i < events->op_count && change->possible; i++) {
        const struct orr_events_op *op = &events->ops[i];
        uint32_t device = events->devices[events->streams[op->stream].device].id;
        if (!is_meant(setting, events, op) ||
            has_rule(change, device, op->name, setting->time_ppm, first))
            continue;
        if (op->activity == ORR_ACTIVITY_COMM)
            refuse(change, "a run has no way to change single collectives");
        else if (setting->time_ppm == 0 || !add_rule(change, device, op->name, setting->time_ppm))
            refuse(change, "more rules for devices and kernels than a run takes");
    }
    change->perturbs = true;
}

static void drop_stragglers(struct orr_whatif_change *change) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < change->perturb.count; i++)
        if (change->perturb.rules[i].kind != ORR_PERTURB_STRAGGLER)
            change->perturb.rules[kept++] = change->perturb.rules[i];
    if (kept == change->perturb.count)
        refuse(change, "no --perturb straggler=... of the run that could be left out");
    change->perturb.count = kept;
}

static const char *word_for(enum orr_whatif_key key) {
    switch (key) {
    case ORR_WHATIF_LAUNCH_COST: return "launches of that cost";
    case ORR_WHATIF_HOST: return "calls of that cost";
    case ORR_WHATIF_BANDWIDTH: return "memory of that bandwidth";
    case ORR_WHATIF_NETWORK: return "links of that bandwidth";
    case ORR_WHATIF_STRAGGLER: return "no straggler";
    case ORR_WHATIF_GRAPH:
    case ORR_WHATIF_FUSE: return "other arguments";
    default: return "kernels of that pace";
    }
}

static void say(struct orr_whatif_change *change, const char *words) {
    size_t used = strlen(change->how);
    if (!strstr(change->how, words))
        snprintf(change->how + used, sizeof change->how - used, "%s%s", used > 0 ? ", " : "",
                 words);
}

void orr_whatif_plan(const struct orr_whatif *whatif, struct orr_whatif_change *change) {
    const struct orr_whatif_request *request = change->request;
    change->possible = true;
    change->how[0] = '\0';
    for (size_t i = 0; i < request->setting_count && change->possible; i++) {
        const struct orr_whatif_setting *setting = &request->settings[i];
        switch (setting->key) {
        case ORR_WHATIF_GRAPH:
        case ORR_WHATIF_FUSE:
            if (!request->rerun)
                refuse(change, "what the scenario would have to do is its own business: --rerun "
                               "'key=value' says it");
            break;
        case ORR_WHATIF_OVERLAP: refuse(change, "no machine overlaps perfectly"); break;
        case ORR_WHATIF_STRAGGLER: drop_stragglers(change); break;
        case ORR_WHATIF_KERNEL:
        case ORR_WHATIF_CLASS:
            if (setting->key == ORR_WHATIF_CLASS && strcmp(setting->name, "compute") != 0)
                refuse(change, "a run has no way to change copies or collectives as a class");
            else
                speed_kernels(change, &whatif->analysis->events, setting);
            break;
        default: break;
        }
        if (change->possible)
            say(change, word_for(setting->key));
    }
    if (change->possible && request->rerun)
        say(change, request->rerun);
}
