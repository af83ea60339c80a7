#include "cli/json_path.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/report_json.h"

struct orr_json_document {
    const struct orr_memory *memory;
    sqlite3 *database;  /* empty: it only parses */
    sqlite3_stmt *find; /* type and value of ?2 in ?1 */
};

static enum orr_status open_parser(struct orr_json_document *document, const char *text,
                                   size_t length) {
    if (sqlite3_open(":memory:", &document->database) != SQLITE_OK)
        return ORR_IO;
    if (sqlite3_prepare_v2(document->database, "SELECT json_type(?1, ?2), json_extract(?1, ?2)", -1,
                           &document->find, NULL) != SQLITE_OK)
        return ORR_IO;
    int code = sqlite3_bind_text64(document->find, 1, text, length, SQLITE_TRANSIENT, SQLITE_UTF8);
    return code == SQLITE_OK ? ORR_OK : ORR_NO_MEMORY;
}

enum orr_status orr_json_of_analysis(const struct orr_analysis *analysis,
                                     const struct orr_memory *memory,
                                     struct orr_json_document **out_document,
                                     struct orr_error *error) {
    *out_document = NULL;
    struct orr_json_document *document = orr_memory_alloc(memory, sizeof *document);
    if (!document)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a report");
    document->memory = memory;
    char *text = NULL;
    size_t length = 0;
    enum orr_status status = orr_report_json(analysis, &text, &length);
    if (status == ORR_OK)
        status = open_parser(document, text, length);
    orr_memory_free(analysis->memory, text);
    if (status != ORR_OK) {
        orr_json_destroy(&document);
        return orr_error_set(error, status, "the report could not be read: %s",
                             orr_status_text(status));
    }
    *out_document = document;
    return ORR_OK;
}

enum orr_status orr_json_find(const struct orr_json_document *document, const char *path,
                              struct orr_json_value *out_value, struct orr_error *error) {
    *out_value = (struct orr_json_value){.kind = ORR_JSON_ABSENT};
    sqlite3_stmt *find = document->find;
    char full[512];
    if ((size_t)snprintf(full, sizeof full, "$%s%s", path[0] == '[' ? "" : ".", path) >=
        sizeof full)
        return orr_error_set(error, ORR_INVALID, "path '%.40s...' is too long", path);
    sqlite3_bind_text(find, 2, full, -1, SQLITE_STATIC);
    int code = sqlite3_step(find);
    if (code != SQLITE_ROW) {
        enum orr_status status = orr_error_set(error, ORR_INVALID, "path '%s': %s", path,
                                               sqlite3_errmsg(document->database));
        sqlite3_reset(find);
        return status;
    }
    const char *type = (const char *)sqlite3_column_text(find, 0);
    const char *text = (const char *)sqlite3_column_text(find, 1);
    if (type) {
        bool number = strcmp(type, "integer") == 0 || strcmp(type, "real") == 0;
        bool truth = strcmp(type, "true") == 0 || strcmp(type, "false") == 0;
        out_value->kind = number ? ORR_JSON_NUMBER : ORR_JSON_TEXT;
        out_value->number = number ? sqlite3_column_double(find, 1) : 0;
        snprintf(out_value->text, sizeof out_value->text, "%s", truth || !text ? type : text);
    }
    sqlite3_reset(find);
    return ORR_OK;
}

void orr_json_destroy(struct orr_json_document **handle) {
    struct orr_json_document *document = *handle;
    *handle = NULL;
    if (!document)
        return;
    sqlite3_finalize(document->find);
    sqlite3_close(document->database);
    orr_memory_free(document->memory, document);
}
