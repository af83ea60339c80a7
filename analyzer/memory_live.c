/* What was live at each device's peak, by label and by line of the program. Linear in the number of
 * buffers: they are dealt out to their devices, and of each device gathered in a table by text. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/memory_peak.h"

/* Buffers with one text and role. */
struct group {
    const char *text; /* NULL: free */
    uint64_t bytes, count;
    uint32_t hash;
    uint8_t role;
};

struct gatherer {
    const struct orr_timeline *timeline;
    struct orr_memory_peaks *peaks;
    uint8_t *roles;             /* by buffer: what it had at its device's peak */
    uint32_t *live;             /* indices of buffers that were live then, by device */
    size_t *first;              /* of device d in live: first[d] .. first[d + 1] */
    struct group *table, *rows; /* both of table_size, a power of two */
    size_t table_size;
};

/* ------------------------------------------------------------------------------------------------
 * Which buffers */

/* Index of the device at whose peak the buffer was live, or ORR_ID_NONE. */
static uint32_t live_on(const struct gatherer *g, size_t buffer) {
    const struct orr_timeline_buffer *b = &g->timeline->buffers[buffer];
    uint32_t device =
        orr__memory_on_device(b) ? orr__memory_peak_of(g->peaks, b->device) : ORR_ID_NONE;
    if (device == ORR_ID_NONE) {
        return ORR_ID_NONE;
    }
    uint64_t peak_cmd = g->peaks->items[device].peak_cmd;
    bool live = b->alloc_cmd <= peak_cmd && (b->free_cmd == 0 || b->free_cmd > peak_cmd);
    return live ? device : ORR_ID_NONE;
}

/* A role that was given after the peak's allocation came too late. */
static void find_roles(struct gatherer *g) {
    const struct orr_timeline *t = g->timeline;
    for (size_t i = 0; i < t->buffer_count; i++) {
        g->roles[i] = (uint8_t)t->buffers[i].role;
    }
    for (size_t i = 0; i < t->buffer_role_count; i++) {
        const struct orr_timeline_buffer_role *change = &t->buffer_roles[i];
        uint32_t buffer = orr__memory_buffer_index(t, change->buffer);
        uint32_t device = buffer == ORR_ID_NONE
                              ? ORR_ID_NONE
                              : orr__memory_peak_of(g->peaks, t->buffers[buffer].device);
        if (device != ORR_ID_NONE && change->after_cmd < g->peaks->items[device].peak_cmd) {
            g->roles[buffer] = (uint8_t)change->role;
        }
    }
}

static void deal_out(struct gatherer *g) {
    const struct orr_timeline *t = g->timeline;
    for (size_t i = 0; i < t->buffer_count; i++) {
        uint32_t device = live_on(g, i);
        if (device != ORR_ID_NONE) {
            g->first[device + 1]++;
        }
    }
    for (size_t d = 0; d < g->peaks->count; d++) {
        g->first[d + 1] += g->first[d];
    }
    for (size_t i = 0; i < t->buffer_count; i++) {
        uint32_t device = live_on(g, i);
        if (device != ORR_ID_NONE) {
            g->live[g->first[device]++] = (uint32_t)i;
        }
    }
    for (size_t d = g->peaks->count; d > 0; d--) {
        g->first[d] = g->first[d - 1];
    }
    g->first[0] = 0;
}

/* ------------------------------------------------------------------------------------------------
 * Groups */

static uint32_t hash_of(const char *text, uint8_t role) { /* FNV-1a */
    uint32_t hash = (2166136261u ^ role) * 16777619u;
    for (; *text; text++) {
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    }
    return hash;
}

static void add_to_group(struct gatherer *g, const char *text, uint8_t role, uint64_t bytes) {
    uint32_t hash = hash_of(text, role);
    size_t at = hash & (g->table_size - 1);
    for (;; at = (at + 1) & (g->table_size - 1)) {
        struct group *group = &g->table[at];
        if (!group->text) {
            *group = (struct group){.text = text, .hash = hash, .role = role};
        } else if (group->hash != hash || group->role != role ||
                   (group->text != text && strcmp(group->text, text) != 0)) {
            continue;
        }
        group->bytes += bytes < UINT64_MAX - group->bytes ? bytes : UINT64_MAX - group->bytes;
        group->count++;
        return;
    }
}

/* The largest first; ties by text and role, so that the order is that of no hash. */
static int compare_groups(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    int order = strcmp(x->text, y->text);
    return order ? order : (int)x->role - (int)y->role;
}

/* Moves the table's groups to g->rows, in order, and empties it. */
static size_t take_rows(struct gatherer *g) {
    size_t count = 0;
    for (size_t i = 0; i < g->table_size; i++) {
        if (g->table[i].text) {
            g->rows[count++] = g->table[i];
            g->table[i].text = NULL;
        }
    }
    qsort(g->rows, count, sizeof *g->rows, compare_groups);
    return count;
}

static const char *site_of(const struct orr_timeline *t, const struct orr_timeline_buffer *buffer) {
    const struct orr_timeline_command *command = orr_timeline_command(t, buffer->alloc_cmd);
    return command ? command->site : "";
}

static void add_lines(struct gatherer *g, size_t device) {
    struct orr_memory_peak *peak = &g->peaks->items[device];
    for (size_t i = g->first[device]; i < g->first[device + 1]; i++) {
        const struct orr_timeline_buffer *buffer = &g->timeline->buffers[g->live[i]];
        add_to_group(g, site_of(g->timeline, buffer), g->roles[g->live[i]], buffer->bytes);
    }
    peak->line_total = take_rows(g);
    for (; peak->line_count < peak->line_total && peak->line_count < ORR_MEMORY_LINES;
         peak->line_count++) {
        const struct group *row = &g->rows[peak->line_count];
        peak->lines[peak->line_count] = (struct orr_memory_line){.site = row->text,
                                                                 .role = (enum orr_role)row->role,
                                                                 .bytes = row->bytes,
                                                                 .count = row->count};
    }
}

static void add_labels(struct gatherer *g, size_t device) {
    struct orr_memory_peak *peak = &g->peaks->items[device];
    for (size_t i = g->first[device]; i < g->first[device + 1]; i++) {
        const struct orr_timeline_buffer *buffer = &g->timeline->buffers[g->live[i]];
        add_to_group(g, buffer->label, 0, buffer->bytes);
    }
    size_t count = take_rows(g);
    for (; peak->top_count < count && peak->top_count < ORR_MEMORY_TOP; peak->top_count++) {
        const struct group *row = &g->rows[peak->top_count];
        peak->top[peak->top_count] = (struct orr_memory_top){row->text, row->bytes, row->count};
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* Tables at most half full. */
static enum orr_status create_table(struct gatherer *g, const struct orr_memory *memory,
                                    size_t device) {
    size_t live = g->first[device + 1] - g->first[device], size = 16;
    while (size < 2 * live) {
        size *= 2;
    }
    g->table_size = size;
    g->table = orr_memory_alloc(memory, size * sizeof *g->table);
    g->rows = orr_memory_alloc(memory, size * sizeof *g->rows);
    return g->table && g->rows ? ORR_OK : ORR_NO_MEMORY;
}

static enum orr_status gather(struct gatherer *g, const struct orr_memory *memory) {
    enum orr_status status = ORR_OK;
    for (size_t d = 0; status == ORR_OK && d < g->peaks->count; d++) {
        status = create_table(g, memory, d);
        if (status == ORR_OK) {
            add_lines(g, d);
            add_labels(g, d);
        }
        orr_memory_free(memory, g->table);
        orr_memory_free(memory, g->rows);
    }
    return status;
}

enum orr_status orr__memory_live(const struct orr_timeline *timeline,
                                 const struct orr_memory *memory, struct orr_memory_peaks *peaks) {
    size_t buffers = timeline->buffer_count;
    struct gatherer g = {.timeline = timeline, .peaks = peaks};
    g.roles = orr_memory_resize(memory, NULL, buffers);
    g.live = orr_memory_resize(memory, NULL, buffers * sizeof *g.live);
    g.first = orr_memory_alloc(memory, (peaks->count + 1) * sizeof *g.first);
    enum orr_status status = g.roles && g.live && g.first ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        find_roles(&g);
        deal_out(&g);
        status = gather(&g, memory);
    }
    orr_memory_free(memory, g.roles);
    orr_memory_free(memory, g.live);
    orr_memory_free(memory, g.first);
    return status;
}
