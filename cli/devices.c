#include <string.h>

#include "cli/cli.h"
#include "scenarios/machine.h"

static const char usage[] =
    "usage: orrery devices [NAME]\n"
    "\n"
    "Lists the machines for --devices sim:NAME[*N], or every figure of one with its source.\n"
    "NAME may be a path to a machine file.\n";

static const char *figure(const struct orr_machine *machine, const char *key) {
    for (size_t i = 0; i < machine->figure_count; i++)
        if (strcmp(machine->figures[i].key, key) == 0)
            return machine->figures[i].value;
    return "-";
}

static enum orr_exit list(const struct orr_cli *cli) {
    fprintf(cli->out, "%-14s %8s %10s %11s %14s  %s\n", "name", "devices", "memory", "bandwidth",
            "bf16 matrix", "note");
    const char *name;
    for (int i = 0; (name = orr_machine_name(i)) != NULL; i++) {
        struct orr_error error = {0};
        struct orr_machine *machine;
        if (orr_machine_load(name, cli->memory, &machine, &error) != ORR_OK)
            return orr_cli_fail(cli, &error);
        const char *alias = orr_machine_alias(name);
        fprintf(cli->out, "%-14s %8u %10s %11s %14s  %s%s%s%s\n", name, machine->devices,
                figure(machine, "memory_bytes"), figure(machine, "bandwidth"),
                figure(machine, "peak.matrix.bf16"), machine->note, alias ? " (also " : "",
                alias ? alias : "", alias ? ")" : "");
        orr_machine_destroy(&machine);
    }
    return ORR_EXIT_OK;
}

static enum orr_exit show(const struct orr_cli *cli, const char *name) {
    struct orr_error error = {0};
    struct orr_machine *machine;
    enum orr_status status = orr_machine_load(name, cli->memory, &machine, &error);
    if (status != ORR_OK) {
        (void)orr_cli_fail(cli, &error);
        return status == ORR_NO_MEMORY ? ORR_EXIT_FAILED : ORR_EXIT_INPUT;
    }
    fprintf(cli->out, "%s: %s\n", machine->spec.name, machine->note);
    if (machine->devices > 1)
        fprintf(cli->out, "%u devices; the figures are for one of them\n", machine->devices);
    fputc('\n', cli->out);
    for (size_t i = 0; i < machine->figure_count; i++) {
        const struct orr_machine_figure *entry = &machine->figures[i];
        fprintf(cli->out, "%-20s %-14s", entry->key, entry->value);
        if (strlen(entry->value) > 14)
            fprintf(cli->out, "\n%35s", "");
        fprintf(cli->out, " %s\n", entry->source);
    }
    orr_machine_destroy(&machine);
    return ORR_EXIT_OK;
}

enum orr_exit orr_cli_devices(const struct orr_cli *cli, int argc, char **argv) {
    static const struct orr_cli_option options[] = {{NULL, NULL, NULL}};
    struct orr_cli_positional words;
    int help;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count > 1)
        return orr_cli_usage(cli, argv[0], "expected one name at most");
    return words.count == 1 ? show(cli, words.items[0]) : list(cli);
}
