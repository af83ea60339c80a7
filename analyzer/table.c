#include "analyzer/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Characters of a text in UTF-8: bytes that do not continue one. */
static size_t width_of(const char *text, size_t length) {
    size_t width = 0;
    for (size_t i = 0; i < length; i++) {
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return width;
}

/* Adds a finished line of cells and widens the columns. */
static void add_line(struct orr_table *table, const char *line) {
    unsigned column = 0;
    for (const char *cell = line;; column++) {
        size_t length = strcspn(cell, "|");
        if (column < ORR_TABLE_COLUMNS_MAX) {
            size_t width = width_of(cell, length);
            table->widths[column] = width > table->widths[column] ? width : table->widths[column];
        }
        if (cell[length] == '\0') {
            break;
        }
        cell += length + 1;
    }
    orr__text_add(&table->rows, "%s\n", line);
}

void orr__table_begin(struct orr_table *table, const struct orr_memory *memory, const char *head) {
    *table = (struct orr_table){.rows = {.memory = memory}, .columns = 1};
    char line[512];
    size_t length = 0;
    table->right[0] = head[0] == '>';
    for (const char *h = head; *h && length + 1 < sizeof line; h++) {
        if (*h == '>') {
            continue;
        }
        if (*h == '|' && table->columns < ORR_TABLE_COLUMNS_MAX) {
            table->right[table->columns++] = h[1] == '>';
        }
        line[length++] = *h;
    }
    line[length] = '\0';
    add_line(table, line);
}

void orr__table_row(struct orr_table *table, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    add_line(table, line);
}

static void add_spaces(struct orr_text *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        orr__text_append(text, " ", 1);
    }
}

/* Spaces at the end of a line are left out. */
static void format_line(const struct orr_table *table, const char *line, size_t length,
                        struct orr_text *text) {
    size_t column = 0, pending = 2;
    for (const char *cell = line, *end = line + length; column < table->columns; column++) {
        const char *bar = memchr(cell, '|', (size_t)(end - cell));
        size_t bytes = (size_t)((bar ? bar : end) - cell);
        size_t pad = table->widths[column] - width_of(cell, bytes);
        if (table->right[column]) {
            pending += pad;
        }
        if (bytes > 0) {
            add_spaces(text, pending);
            orr__text_append(text, cell, bytes);
            pending = 0;
        }
        pending += 2 + (table->right[column] ? 0 : pad);
        if (!bar) {
            break;
        }
        cell = bar + 1;
    }
    orr__text_append(text, "\n", 1);
}

void orr__table_end(struct orr_table *table, struct orr_text *text) {
    text->failed = text->failed || table->rows.failed;
    for (const char *line = table->rows.data; line && *line && !text->failed;) {
        size_t length = strcspn(line, "\n");
        format_line(table, line, length, text);
        line += length + 1;
    }
    orr__text_free(&table->rows);
}

const char *orr__table_clean(const char *name, char *buffer) {
    size_t length = strlen(name), kept = length;
    if (length > ORR_TABLE_CELL_MAX) {
        kept = ORR_TABLE_CELL_MAX - 3;
        while (kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80) {
            kept--;
        }
    }
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)name[i];
        buffer[i] = c == '|' || c < 0x20 ? '/' : (char)c;
    }
    strcpy(buffer + kept, length > ORR_TABLE_CELL_MAX ? "..." : "");
    return buffer;
}
