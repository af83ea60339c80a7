#include "cli/notices.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

/* SQL instead of a timeline: the whole trace need not be in memory to say a few lines. */

static const char findings_sql[] = "SELECT f.severity, f.message, c.site FROM finding AS f"
                                   " LEFT JOIN cmd AS c ON c.id = coalesce(f.cmd_b, f.cmd_a)"
                                   " WHERE f.severity IN ('error', 'warning') ORDER BY f.id";

static const char outcomes_sql[] =
    "SELECT g.status, g.amount, g.first, c.name, c.site FROM"
    " (SELECT status, count(*) AS amount, min(id) AS first FROM cmd"
    "  WHERE status IN ('poisoned', 'failed', 'skipped') GROUP BY status) AS g"
    " JOIN cmd AS c ON c.id = g.first ORDER BY g.first";

static const char warnings_sql[] = "SELECT value FROM meta WHERE key LIKE '%\\_warning' ESCAPE '\\'"
                                   " ORDER BY key";

static const char *text_of(sqlite3_stmt *row, int column) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

static void print_findings(const struct orr_cli *cli, sqlite3_stmt *row) {
    size_t count = 0;
    while (sqlite3_step(row) == SQLITE_ROW) {
        const char *message = text_of(row, 1), *site = text_of(row, 2);
        if (count++ >= ORR_NOTICES_MAX)
            continue;
        bool placed = site[0] == '\0' || strstr(message, site);
        fprintf(cli->err, "%s: %s%s%s\n", text_of(row, 0), placed ? "" : site, placed ? "" : ": ",
                message);
    }
    if (count > ORR_NOTICES_MAX)
        fprintf(cli->err, "... and %zu more findings\n", count - ORR_NOTICES_MAX);
}

static const char *reason_of(const char *status) {
    if (strcmp(status, "poisoned") == 0)
        return "it raced, or read bytes that nobody had written";
    if (strcmp(status, "failed") == 0)
        return "the device failed it";
    return "what it follows has failed";
}

static void print_outcomes(const struct orr_cli *cli, sqlite3_stmt *row) {
    while (sqlite3_step(row) == SQLITE_ROW) {
        const char *status = text_of(row, 0), *site = text_of(row, 4);
        long long amount = sqlite3_column_int64(row, 1);
        fprintf(cli->err, "warning: %lld command%s %s; first: #%lld %s%s%s (%s)\n", amount,
                amount == 1 ? " was" : "s were", status, (long long)sqlite3_column_int64(row, 2),
                text_of(row, 3), site[0] ? " at " : "", site, reason_of(status));
    }
}

static void print_warnings(const struct orr_cli *cli, sqlite3_stmt *row) {
    while (sqlite3_step(row) == SQLITE_ROW)
        fprintf(cli->err, "warning: %s\n", text_of(row, 0));
}

static void print_rows(const struct orr_cli *cli, sqlite3 *database, const char *sql,
                       void (*print)(const struct orr_cli *cli, sqlite3_stmt *row)) {
    sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(database, sql, -1, &row, NULL) == SQLITE_OK)
        print(cli, row);
    sqlite3_finalize(row);
}

void orr_notices_print(const struct orr_cli *cli, const char *path) {
    sqlite3 *database = NULL;
    fflush(cli->out); /* both may go to one place: the summary comes first */
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
        print_rows(cli, database, findings_sql, print_findings);
        print_rows(cli, database, outcomes_sql, print_outcomes);
        print_rows(cli, database, warnings_sql, print_warnings);
    }
    sqlite3_close(database);
}
