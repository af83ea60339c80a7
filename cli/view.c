#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/export.h"
#include "cli/view_server.h"

/* The only port of the machine that Perfetto UI takes a trace from. */
enum { PORT = 9001, NAME_MAX_BYTES = 64, PATH_BYTES = 4096 };

static const char usage[] =
    "usage: orrery view TRACE\n"
    "\n"
    "Shows a trace in Perfetto UI: writes its timeline to a temporary file, serves that on\n"
    "127.0.0.1 port 9001 to https://ui.perfetto.dev only, and prints the link to open. Ends when\n"
    "the page has fetched it, or on Ctrl-C; the file is gone then. Nothing leaves this machine:\n"
    "the page works in the browser.\n";

/* The trace's name as it stands in the address. */
static void address_name(const char *path, char *name) {
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t length = 0;
    for (; *base && length < NAME_MAX_BYTES; base++) {
        int fine = (*base >= 'a' && *base <= 'z') || (*base >= 'A' && *base <= 'Z') ||
                   (*base >= '0' && *base <= '9') || *base == '-' || *base == '_' ||
                   (*base == '.' && length > 0);
        name[length++] = fine ? *base : '_';
    }
    strcpy(name + length, length > 5 && strncmp(name + length - 5, ".json", 5) == 0 ? "" : ".json");
}

/* Writes the timeline and opens it; its name is gone at once, whatever happens then. */
static enum orr_status open_timeline(const struct orr_cli *cli, const char *path, int *out_fd,
                                     uint64_t *out_size, struct orr_error *error) {
    char folder[PATH_BYTES], file[PATH_BYTES + 16];
    const char *base = getenv("TMPDIR");
    struct orr_perfetto_counts counts;
    struct stat about;
    *out_fd = -1;
    if (snprintf(folder, sizeof folder, "%s/orrery-view-XXXXXX", base && *base ? base : "/tmp") >=
            (int)sizeof folder ||
        !mkdtemp(folder))
        return orr_error_set(error, ORR_IO, "%s: no temporary folder: %s", folder, strerror(errno));
    snprintf(file, sizeof file, "%s/timeline.json", folder);
    enum orr_status status = orr_cli_export_file(cli, &path, 1, file, &counts, error);
    if (status == ORR_OK) {
        *out_fd = open(file, O_RDONLY | O_CLOEXEC);
        if (*out_fd < 0 || fstat(*out_fd, &about) != 0)
            status = orr_error_set(error, ORR_IO, "%s: %s", file, strerror(errno));
        else
            *out_size = (uint64_t)about.st_size;
    }
    unlink(file);
    rmdir(folder);
    if (status == ORR_OK && counts.bytes > 200000000)
        fprintf(cli->err, "orrery: more than 200 MB of JSON; the browser may not load it\n");
    return status;
}

static enum orr_status view(const struct orr_cli *cli, const char *path,
                            struct orr_view_server *server, struct orr_error *error) {
    char name[NAME_MAX_BYTES + 8];
    uint64_t size = 0;
    int fd = -1, fetched = 0;
    enum orr_status status = open_timeline(cli, path, &fd, &size, error);
    if (status == ORR_OK && !orr_view_server_stopped(server)) {
        address_name(path, name);
        fprintf(cli->out, "open   https://ui.perfetto.dev/#!/?url=http://127.0.0.1:%d/%s\n", PORT,
                name);
        fprintf(cli->out, "ends when the page has fetched the trace, or on Ctrl-C\n");
        fflush(cli->out);
        status = orr_view_server_run(server, fd, size, name, &fetched, error);
        fd = -1;
        if (status == ORR_OK)
            fprintf(cli->out, fetched ? "fetched\n" : "stopped\n");
    }
    if (fd >= 0)
        close(fd);
    return status;
}

enum orr_exit orr_cli_view(const struct orr_cli *cli, int argc, char **argv) {
    int help;
    const struct orr_cli_option options[] = {{NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count != 1)
        return orr_cli_usage(cli, argv[0], "expected one trace");
    struct orr_error error = {0};
    struct orr_view_server *server = NULL;
    enum orr_status status = orr_view_server_create(PORT, cli->memory, &server, &error);
    if (status == ORR_OK)
        status = view(cli, words.items[0], server, &error);
    orr_view_server_destroy(&server);
    return status == ORR_OK ? ORR_EXIT_OK : orr_cli_fail(cli, &error);
}
