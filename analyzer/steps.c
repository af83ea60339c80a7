#include "analyzer/steps.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analyzer/events.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"
#include "analyzer/timeline_find.h"

const char *orr_step_source_text(enum orr_step_source source) {
    static const char *const texts[] = {
#define ORR_STEP_SOURCE_TEXT(name, text) text,
        ORR_STEP_SOURCE_LIST(ORR_STEP_SOURCE_TEXT)
#undef ORR_STEP_SOURCE_TEXT
    };
    return source < ORR_STEP_SOURCE_COUNT ? texts[source] : "";
}

/* ------------------------------------------------------------------------------------------------
 * Names */

/* How clearly a name says that it is a step, best first. */
enum mark { MARK_PROFILER, MARK_STEP, MARK_BATCH, MARK_GRAPH, MARK_NONE };

static bool is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

static bool is_one_of(const char *text, size_t length, const char *const *words) {
    for (; *words; words++) {
        if (is_word(text, length, *words)) {
            return true;
        }
    }
    return false;
}

/* Length of the word at `text`: letters, up to where a capital follows a small one. */
static size_t word_length(const char *text) {
    size_t n = 1;
    while (isalpha((unsigned char)text[n]) &&
           !(islower((unsigned char)text[n - 1]) && isupper((unsigned char)text[n]))) {
        n++;
    }
    return n;
}

static enum mark mark_of(const char *name) {
    static const char *const steps[] = {"step", "steps", "iteration", "iter", "trainstep", NULL};
    static const char *const batches[] = {"batch", "decode", "generation", "execute", NULL};
    static const char *const others[] = {"optimizer", "optim", "zero", "micro",     "microbatch",
                                         "epoch",     "layer", "op",   "id",        "size",
                                         "sizes",     "seq",   "lr",   "scheduler", NULL};
    if (strncmp(name, "ProfilerStep#", 13) == 0) {
        return MARK_PROFILER;
    }
    enum mark mark = MARK_NONE;
    for (const char *p = name; *p;) {
        if (!isalpha((unsigned char)*p)) {
            p++;
            continue;
        }
        size_t n = word_length(p);
        if (is_one_of(p, n, others)) {
            return MARK_NONE;
        }
        if (is_one_of(p, n, steps)) {
            mark = MARK_STEP;
        } else if (mark == MARK_NONE && is_one_of(p, n, batches)) {
            mark = MARK_BATCH;
        }
        p += n;
    }
    return mark;
}

static const char *skip_digits(const char *text) {
    while (isdigit((unsigned char)*text)) {
        text++;
    }
    return text;
}

/* Order of names as if every number in them were the same. */
static int compare_stems(const char *a, const char *b) {
    while (*a && *b) {
        bool digit = isdigit((unsigned char)*a);
        if (digit && isdigit((unsigned char)*b)) {
            a = skip_digits(a);
            b = skip_digits(b);
            continue;
        }
        if (*a != *b) {
            break;
        }
        a++;
        b++;
    }
    return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

/* The number at place `index` in a name, counted from 0; false if it has fewer, or one that does
 * not fit. */
static bool number_at(const char *name, unsigned index, uint64_t *out_number) {
    for (unsigned i = 0;; i++) {
        while (*name && !isdigit((unsigned char)*name)) {
            name++;
        }
        if (!*name) {
            return false;
        }
        if (i == index) {
            break;
        }
        name = skip_digits(name);
    }
    uint64_t value = 0;
    for (; isdigit((unsigned char)*name); name++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*name - '0'), &value)) {
            return false;
        }
    }
    *out_number = value;
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * Candidates */

struct candidate {
    const char *name;
    uint64_t process;
    int64_t begin_ns, end_ns;
    uint32_t host;
    enum mark mark;
};

struct finder {
    const struct orr_timeline *timeline;
    const struct orr_memory *memory;
    struct candidate *candidates;
    uint32_t *order;
    size_t count, capacity;
    struct orr_steps *out;
    size_t step_capacity;
    int64_t last_ns; /* of the trace */
};

static enum orr_status add_candidate(struct finder *f, const char *name, uint32_t host,
                                     enum mark mark, int64_t begin_ns, int64_t end_ns) {
    uint32_t index = orr__find_host(f->timeline, host);
    if (index == ORR_EVENTS_NONE || !orr__good_time(begin_ns) || !orr__good_time(end_ns) ||
        end_ns < begin_ns) {
        return ORR_OK;
    }
    enum orr_status status = orr_memory_grow(f->memory, &f->candidates, &f->capacity, f->count + 1,
                                             sizeof *f->candidates, ORR_STEP_NONE - 1);
    if (status == ORR_OK) {
        f->candidates[f->count++] = (struct candidate){.name = name,
                                                       .process = f->timeline->hosts[index].process,
                                                       .begin_ns = begin_ns,
                                                       .end_ns = end_ns,
                                                       .host = host,
                                                       .mark = mark};
    }
    return status;
}

static enum orr_status collect_slices(struct finder *f) {
    const struct orr_timeline *t = f->timeline;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->slice_count && status == ORR_OK; i++) {
        const struct orr_timeline_slice *s = &t->slices[i];
        if (s->kind != ORR_SLICE_ANNOTATION || s->host == ORR_ID_NONE) {
            continue;
        }
        enum mark mark = mark_of(s->name);
        if (mark != MARK_NONE) {
            status = add_candidate(f, s->name, s->host, mark, s->begin_ns, s->end_ns);
        }
    }
    return status;
}

/* A launch's step goes on until the next launch; the ends are set when the series is known. */
static enum orr_status collect_graphs(struct finder *f) {
    const struct orr_timeline *t = f->timeline;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        if (orr__good_time(c->finish_ns) && c->finish_ns > f->last_ns) {
            f->last_ns = c->finish_ns;
        }
        if (c->kind == ORR_COMMAND_GRAPH) {
            status = add_candidate(f, c->name, c->host, MARK_GRAPH, c->enqueue_ns, c->enqueue_ns);
        }
    }
    return status;
}

/* By process, mark, host, stem, begin. */
static int compare_series(const struct candidate *a, const struct candidate *b) {
    if (a->process != b->process) {
        return a->process < b->process ? -1 : 1;
    }
    if (a->mark != b->mark) {
        return a->mark < b->mark ? -1 : 1;
    }
    if (a->host != b->host) {
        return a->host < b->host ? -1 : 1;
    }
    return a->mark == MARK_GRAPH ? strcmp(a->name, b->name) : compare_stems(a->name, b->name);
}

static bool candidate_before(const void *context, uint32_t x, uint32_t y) {
    const struct candidate *a = (const struct candidate *)context + x;
    const struct candidate *b = (const struct candidate *)context + y;
    int order = compare_series(a, b);
    if (order) {
        return order < 0;
    }
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns;
    }
    return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : strcmp(a->name, b->name) < 0;
}

/* ------------------------------------------------------------------------------------------------
 * Series */

static struct candidate *at(const struct finder *f, size_t i) {
    return &f->candidates[f->order[i]];
}

/* [first, end) of one series: the largest time it covers, or ORR_TIME_NONE if it is no series of
 * steps. */
static int64_t series_time(const struct finder *f, size_t first, size_t end) {
    int64_t sum = 0;
    enum mark mark = at(f, first)->mark;
    if (end - first < 2 && mark != MARK_PROFILER) {
        return ORR_TIME_NONE;
    }
    for (size_t i = first; i < end; i++) {
        if (i > first && at(f, i)->begin_ns < at(f, i - 1)->end_ns) {
            return ORR_TIME_NONE;
        }
        sum = orr__add_ns(sum, at(f, i)->end_ns - at(f, i)->begin_ns);
    }
    return mark == MARK_GRAPH ? at(f, end - 1)->begin_ns - at(f, first)->begin_ns : sum;
}

/* The place in the names of a series whose number rises all the way; false if there is none. */
static bool rising_place(const struct finder *f, size_t first, size_t end, unsigned *out_place) {
    uint64_t before, here;
    for (unsigned place = 0; number_at(at(f, first)->name, place, &before); place++) {
        size_t i = first + 1;
        while (i < end && number_at(at(f, i)->name, place, &here) && here > before) {
            before = here;
            i++;
        }
        if (i == end) {
            *out_place = place;
            return true;
        }
    }
    return false;
}

static enum orr_status emit(struct finder *f, size_t first, size_t end) {
    struct orr_steps *out = f->out;
    unsigned place;
    bool numbered = rising_place(f, first, end, &place);
    enum orr_status status =
        orr_memory_grow(f->memory, &out->items, &f->step_capacity, out->count + (end - first),
                        sizeof *out->items, ORR_STEP_NONE - 1);
    for (size_t i = first; i < end && status == ORR_OK; i++) {
        const struct candidate *c = at(f, i);
        struct orr_step step = {.name = c->name,
                                .number = i - first,
                                .process = c->process,
                                .host = c->host,
                                .begin_ns = c->begin_ns,
                                .end_ns = c->end_ns,
                                .boundary = i == first || i + 1 == end};
        if (numbered) {
            (void)number_at(c->name, place, &step.number);
        }
        if (c->mark == MARK_GRAPH) {
            step.end_ns =
                i + 1 < end ? at(f, i + 1)->begin_ns : orr__max_ns(step.begin_ns, f->last_ns);
        }
        out->items[out->count++] = step;
    }
    return status;
}

static enum orr_step_source source_of(enum mark mark) {
    return mark == MARK_PROFILER ? ORR_STEP_SOURCE_PROFILER
           : mark == MARK_GRAPH  ? ORR_STEP_SOURCE_GRAPH
                                 : ORR_STEP_SOURCE_ANNOTATION;
}

/* The series that are the steps of one process, whose candidates are [first, end): the best mark
 * that has one, and of those the one that takes most time, the first of equals. */
static enum orr_status choose(struct finder *f, size_t first, size_t end) {
    size_t best_first = 0, best_end = 0;
    int64_t best = ORR_TIME_NONE;
    for (size_t i = first, next; i < end; i = next) {
        for (next = i + 1; next < end && compare_series(at(f, i), at(f, next)) == 0; next++) {
        }
        if (best != ORR_TIME_NONE && at(f, i)->mark != at(f, best_first)->mark) {
            break;
        }
        int64_t time = series_time(f, i, next);
        if (time > best) {
            best = time;
            best_first = i;
            best_end = next;
        }
    }
    if (best == ORR_TIME_NONE) {
        return ORR_OK;
    }
    if (f->out->count == 0) {
        f->out->source = source_of(at(f, best_first)->mark);
    }
    return emit(f, best_first, best_end);
}

static enum orr_status sort_candidates(struct finder *f) {
    f->order = orr_memory_resize(f->memory, NULL, f->count * sizeof *f->order);
    if (!f->order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < f->count; i++) {
        f->order[i] = (uint32_t)i;
    }
    return orr__sort_indices(f->memory, f->order, f->count, candidate_before, f->candidates);
}

static enum orr_status find(struct finder *f) {
    enum orr_status status = collect_slices(f);
    if (status == ORR_OK) {
        status = collect_graphs(f);
    }
    if (status != ORR_OK || f->count == 0) {
        return status;
    }
    status = sort_candidates(f);
    for (size_t i = 0, next; i < f->count && status == ORR_OK; i = next) {
        for (next = i + 1; next < f->count && at(f, next)->process == at(f, i)->process; next++) {
        }
        status = choose(f, i, next);
    }
    return status;
}

enum orr_status orr_steps_find(const struct orr_timeline *timeline, const struct orr_memory *memory,
                               struct orr_steps *out_steps) {
    *out_steps = (struct orr_steps){0};
    struct finder f = {
        .timeline = timeline, .memory = memory, .out = out_steps, .last_ns = ORR_TIME_NONE};
    enum orr_status status = find(&f);
    orr_memory_free(memory, f.candidates);
    orr_memory_free(memory, f.order);
    if (status != ORR_OK) {
        orr_steps_free(memory, out_steps);
    }
    return status;
}

void orr_steps_free(const struct orr_memory *memory, struct orr_steps *steps) {
    orr_memory_free(memory, steps->items);
    *steps = (struct orr_steps){0};
}

uint32_t orr_steps_at(const struct orr_steps *steps, uint64_t process, int64_t time_ns) {
    size_t low = 0, high = steps->count;
    while (low < high) { /* the first step that begins after the time */
        size_t middle = low + (high - low) / 2;
        const struct orr_step *s = &steps->items[middle];
        bool after = s->process != process ? s->process > process : s->begin_ns > time_ns;
        if (after) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == 0) {
        return ORR_STEP_NONE;
    }
    const struct orr_step *s = &steps->items[low - 1];
    return s->process == process && time_ns < s->end_ns ? (uint32_t)(low - 1) : ORR_STEP_NONE;
}
