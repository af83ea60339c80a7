#include "runtime/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_COMPARED = 64 };

/* Ends a text that was cut at the buffer's end with "...", without leaving half a UTF-8 sequence
 * before the dots (continuation bytes are 10xxxxxx). */
static void mark_cut(char *text) {
    size_t end = ORR_ERROR_TEXT_MAX - 4;
    while (end > 0 && ((unsigned char)text[end] & 0xc0u) == 0x80u)
        end--;
    memcpy(text + end, "...", 4);
}

/* Messages are one line: what came in with a quoted operand must not break it. */
static void keep_one_line(char *text) {
    for (; *text != '\0'; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

enum orr_status orr_error_set(struct orr_error *error, enum orr_status status, const char *format,
                              ...) {
    assert(status != ORR_OK);
    if (!error || error->status != ORR_OK)
        return status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (length < 0)
        error->text[0] = '\0';
    if (length >= ORR_ERROR_TEXT_MAX)
        mark_cut(error->text);
    keep_one_line(error->text);
    error->status = status;
    return status;
}

void orr_error_prefix(struct orr_error *error, const char *format, ...) {
    if (!error || error->status == ORR_OK)
        return;
    char prefixed[ORR_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(prefixed, sizeof prefixed, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (length < ORR_ERROR_TEXT_MAX) {
        size_t used = (size_t)length;
        length += snprintf(prefixed + used, sizeof prefixed - used, ": %s", error->text);
    }
    if (length >= ORR_ERROR_TEXT_MAX)
        mark_cut(prefixed);
    keep_one_line(prefixed);
    memcpy(error->text, prefixed, sizeof prefixed);
}

void orr_error_clear(struct orr_error *error) {
    if (!error)
        return;
    error->status = ORR_OK;
    error->text[0] = '\0';
}

static int lower(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string
 * alignment), ignoring ASCII case. Both lengths are at most NAME_MAX_COMPARED. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length) {
    int rows[3][NAME_MAX_COMPARED + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= b_length; j++)
        above[j] = j;
    for (int i = 1; i <= a_length; i++) {
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            bool differ = lower(a[i - 1]) != lower(b[j - 1]);
            row[j] = min_int(min_int(above[j], row[j - 1]) + 1, above[j - 1] + differ);
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped)
                row[j] = min_int(row[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[b_length];
}

const char *orr_nearest_name(const char *word, const char *const *candidates, int count) {
    size_t word_length = strlen(word);
    if (word_length == 0 || word_length > NAME_MAX_COMPARED)
        return NULL;
    const char *nearest = NULL;
    int nearest_distance = NAME_MAX_COMPARED + 1;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(candidates[i]);
        if (length == 0 || length > NAME_MAX_COMPARED)
            continue;
        int longer = (int)(length > word_length ? length : word_length);
        int limit = longer <= 2 ? longer - 1 : (longer + 2) / 3; /* a third of the letters wrong */
        int distance = edit_distance(word, (int)word_length, candidates[i], (int)length);
        if (distance <= limit && distance < nearest_distance) {
            nearest = candidates[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}
