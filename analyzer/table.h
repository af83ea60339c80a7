/* Aligned tables for people.
 *
 *     struct orr_table table;
 *     orr__table_begin(&table, memory, "operator|>count|>time");
 *     orr__table_row(&table, "%s|%llu|%s", name, count, time);
 *     orr__table_end(&table, &text);
 *
 * Cells are separated by '|'; '>' aligns a column to the right. A '|' inside a cell's text must be
 * replaced before: orr__table_clean does.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_TABLE_H
#define ORR_ANALYZER_TABLE_H

#include "analyzer/text.h"

enum { ORR_TABLE_COLUMNS_MAX = 16, ORR_TABLE_CELL_MAX = 48 };

struct orr_table {
    struct orr_text rows; /* lines of cells */
    unsigned columns;
    bool right[ORR_TABLE_COLUMNS_MAX];
    size_t widths[ORR_TABLE_COLUMNS_MAX];
};

/* Starts a table with the columns of `head`. */
void orr__table_begin(struct orr_table *table, const struct orr_memory *memory, const char *head);
/* Adds a row of at most 1,023 bytes. */
void orr__table_row(struct orr_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the table to a text and frees it. */
void orr__table_end(struct orr_table *table, struct orr_text *text);

/* A copy of `name` fit for a cell: no '|' or control characters, at most ORR_TABLE_CELL_MAX bytes
 * with "..." at the end of a longer one. `buffer` holds ORR_TABLE_CELL_MAX + 1 bytes; returned. */
const char *orr__table_clean(const char *name, char *buffer);

#endif
