#include "cli/judge_clean.h"

#include <sqlite3.h>
#include <stdio.h>

static const char finding_sql[] = "SELECT kind || ': ' || message FROM finding"
                                  " WHERE severity IS NOT 'note' ORDER BY id LIMIT 1";

static const char command_sql[] =
    "SELECT 'command ' || id || ' (' || coalesce(name, '') || ', ' || coalesce(site, '') ||"
    " ') is ' || coalesce(status, 'of unknown status') FROM cmd WHERE status IS NOT 'ok'"
    " ORDER BY id LIMIT 1";

/* The first row of a query, if there is one, into `text`; returns SQLite's code. */
static int first_row(sqlite3 *database, const char *sql, bool *out_found, char *text, size_t size) {
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(database, sql, -1, &row, NULL);
    code = code == SQLITE_OK ? sqlite3_step(row) : code;
    *out_found = code == SQLITE_ROW;
    if (*out_found) {
        snprintf(text, size, "%s", (const char *)sqlite3_column_text(row, 0));
    }
    sqlite3_finalize(row);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

enum orr_status orr_judge_clean(const char *trace, bool *out_passed, char *text, size_t size,
                                struct orr_error *error) {
    sqlite3 *database = NULL;
    bool found = false;
    int code = sqlite3_open_v2(trace, &database, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK) {
        code = first_row(database, finding_sql, &found, text, size);
    }
    if (code == SQLITE_OK && !found) {
        code = first_row(database, command_sql, &found, text, size);
    }
    enum orr_status status = ORR_OK;
    if (code != SQLITE_OK) {
        status = orr_error_set(error, ORR_IO, "%s: %s", trace, sqlite3_errstr(code));
    }
    sqlite3_close(database);
    *out_passed = status == ORR_OK && !found;
    return status;
}
