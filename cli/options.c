#include <assert.h>
#include <string.h>

#include "cli/cli.h"

enum { NAMES_MAX = 32 };

/* Length of "--name" in "--name=value", or of the whole word. */
static size_t name_length(const char *word) {
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    return equals ? (size_t)(equals - word) : strlen(word);
}

static const struct orr_cli_option *find(const struct orr_cli_option *options, const char *word,
                                         size_t length) {
    for (const struct orr_cli_option *option = options; option->name; option++)
        if (strlen(option->name) == length && strncmp(option->name, word, length) == 0)
            return option;
    return NULL;
}

static enum orr_exit unknown(const struct orr_cli *cli, const char *verb, const char *word,
                             const struct orr_cli_option *options) {
    const char *names[NAMES_MAX] = {"--help"};
    int count = 1;
    for (const struct orr_cli_option *option = options; option->name; option++) {
        assert(count < NAMES_MAX);
        names[count++] = option->name;
    }
    const char *nearest = orr_nearest_name(word, names, count);
    if (nearest)
        return orr_cli_usage(cli, verb, "unknown option '%s'; did you mean '%s'?", word, nearest);
    return orr_cli_usage(cli, verb, "unknown option '%s'", word);
}

/* One option at argv[*at]; moves *at to its last word. */
static enum orr_exit take(const struct orr_cli *cli, int argc, char **argv, int *at,
                          const struct orr_cli_option *options) {
    const char *word = argv[*at];
    size_t length = name_length(word);
    const struct orr_cli_option *option = find(options, word, length);
    if (!option)
        return unknown(cli, argv[0], word, options);
    if (option->flag) {
        if (word[length] == '=')
            return orr_cli_usage(cli, argv[0], "%s takes no value", option->name);
        *option->flag = 1;
        return ORR_EXIT_OK;
    }
    if (word[length] == '=') {
        *option->value = word + length + 1;
        return ORR_EXIT_OK;
    }
    if (*at + 1 >= argc)
        return orr_cli_usage(cli, argv[0], "%s takes a value", option->name);
    *option->value = argv[++*at];
    return ORR_EXIT_OK;
}

enum orr_exit orr_cli_parse(const struct orr_cli *cli, int argc, char **argv, const char *usage,
                            const struct orr_cli_option *options,
                            struct orr_cli_positional *out_positional, int *out_help) {
    out_positional->count = 0;
    *out_help = 0;
    int only_positional = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_positional && strcmp(word, "--") == 0) {
            only_positional = 1;
        } else if (!only_positional && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            fputs(usage, cli->out);
            *out_help = 1;
            return ORR_EXIT_OK;
        } else if (!only_positional && word[0] == '-' && word[1] != '\0') {
            enum orr_exit exit = take(cli, argc, argv, &i, options);
            if (exit != ORR_EXIT_OK)
                return exit;
        } else if (out_positional->count == ORR_CLI_POSITIONAL_MAX) {
            return orr_cli_usage(cli, argv[0], "more than %d arguments", ORR_CLI_POSITIONAL_MAX);
        } else {
            out_positional->items[out_positional->count++] = word;
        }
    }
    return ORR_EXIT_OK;
}
