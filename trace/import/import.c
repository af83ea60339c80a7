#include "trace/import.h"

#include <stdio.h>
#include <string.h>

#include "trace/import/formats.h"
#include "trace/import/tar.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline_texts.h"

/* -- What a file is ---------------------------------------------------------------------------- */

enum format {
    FORMAT_UNKNOWN,
    FORMAT_EMPTY,
    FORMAT_JSON,
    FORMAT_TAR,
    FORMAT_OWN,
    FORMAT_SQLITE,
    FORMAT_COUNT
};

enum { APPLICATION_ID_AT = 68, HEADER_BYTES = 100 };

static bool begins(const char *head, size_t size, const char *magic, size_t length) {
    return size >= length && memcmp(head, magic, length) == 0;
}

#define BEGINS(head, size, literal) begins(head, size, literal, sizeof(literal) - 1)

static bool is_json(const char *head, size_t size) {
    size_t at = BEGINS(head, size, "\xef\xbb\xbf") ? 3 : 0;
    while (at < size && memchr(" \n\r\t", head[at], 4))
        at++;
    /* Nothing but white space in sight: the reader of JSON will see. */
    return at < size ? head[at] == '{' || head[at] == '[' : size == ORR__INPUT_PEEK_MAX;
}

static enum format detect(const char *head, size_t size) {
    if (size == 0)
        return FORMAT_EMPTY;
    if (BEGINS(head, size, "SQLite format 3\0")) {
        const unsigned char *id = (const unsigned char *)head + APPLICATION_ID_AT;
        bool ours =
            size >= HEADER_BYTES && ((uint32_t)id[0] << 24 | (uint32_t)id[1] << 16 |
                                     (uint32_t)id[2] << 8 | id[3]) == ORR_TRACE_APPLICATION_ID;
        return ours ? FORMAT_OWN : FORMAT_SQLITE;
    }
    if (orr__is_tar(head, size))
        return FORMAT_TAR;
    return is_json(head, size) ? FORMAT_JSON : FORMAT_UNKNOWN;
}

/* What it looks like, for people. */
static const char *describe(const char *head, size_t size) {
    static const struct {
        const char *magic;
        size_t length;
        const char *text;
    } known[] = {
        {"PK\3\4", 4, "a zip archive; unpack it"},
        {"\x28\xb5\x2f\xfd", 4, "compressed by zstd; unpack it"},
        {"\xfd"
         "7zXZ",
         5, "compressed by xz; unpack it"},
        {"BZh", 3, "compressed by bzip2; unpack it"},
        {"\xff\xfe", 2, "text in UTF-16; convert it to UTF-8"},
        {"\xfe\xff", 2, "text in UTF-16; convert it to UTF-8"},
        {"SQLite format 3", 15, "a database in gzip; unpack it"},
        {"\x7f"
         "ELF",
         4, "a program"},
        {"%PDF", 4, "a PDF document"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(head, size, known[i].magic, known[i].length))
            return known[i].text;
    size_t at = 0;
    while (at < size && memchr(" \n\r\t", head[at], 4))
        at++;
    if (at < size && head[at] == '<')
        return "HTML or XML";
    for (at = 0; at < size; at++)
        if ((unsigned char)head[at] < 0x20 && !memchr("\n\r\t", head[at], 3))
            return "binary data of an unknown kind";
    return "text, but not JSON";
}

static const char expected[] = "expected a trace: a database of orrery run, JSON of PyTorch's "
                               "profiler (also .gz, .tar.gz of ranks), or SQLite of nsys export";

/* -- Traces ------------------------------------------------------------------------------------ */

struct reading {
    const char *path;
    const struct orr_import_options *options;
    const struct orr_memory *memory;
    struct orr_traces *traces;
    struct orr_error *error;
};

static enum orr_status out_of_memory(const struct reading *r) {
    return orr_error_set(r->error, ORR_NO_MEMORY, "%s: out of host memory", r->path);
}

/* Takes the timeline; the name is the path, or path/member. */
static enum orr_status append(const struct reading *r, const char *member,
                              struct orr_timeline *timeline) {
    struct orr_traces *traces = r->traces;
    size_t length = strlen(r->path) + (member ? 1 + strlen(member) : 0);
    char *name = orr_memory_alloc(r->memory, length + 1);
    if (!name || orr_memory_grow(r->memory, &traces->items, &traces->capacity, traces->count + 1,
                                 sizeof *traces->items, INT32_MAX) != ORR_OK) {
        orr_memory_free(r->memory, name);
        orr_timeline_destroy(&timeline);
        return out_of_memory(r);
    }
    snprintf(name, length + 1, "%s%s%s", r->path, member ? "/" : "", member ? member : "");
    traces->items[traces->count++] = (struct orr_trace){.name = name, .timeline = timeline};
    return ORR_OK;
}

static void drop(const struct reading *r, size_t count) {
    while (r->traces->count > count) {
        struct orr_trace *last = &r->traces->items[--r->traces->count];
        orr_timeline_destroy(&last->timeline);
        orr_memory_free(r->memory, last->name);
    }
}

void orr_traces_free(const struct orr_memory *memory, struct orr_traces *traces) {
    struct reading r = {.memory = memory, .traces = traces};
    drop(&r, 0);
    orr_memory_free(memory, traces->items);
    *traces = (struct orr_traces){0};
}

enum orr_status orr__read_json(struct orr__json_input *input, const char *name,
                               const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) {
    struct orr__json_document *document;
    const char *text;
    *out_timeline = NULL;
    if (orr__json_document_open(input, memory, &document) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "%s: out of host memory", name);
    size_t size = orr__json_document_peek(document, &text);
    enum orr_status status =
        orr__is_export(text, size)
            ? orr__read_export(document, name, options, memory, out_timeline, error)
            : orr__read_kineto(document, name, options, memory, out_timeline, error);
    orr__json_document_close(&document);
    return status;
}

/* -- Archives ---------------------------------------------------------------------------------- */

struct archive {
    struct orr__tar tar;
    size_t before;                /* traces before those of the archive */
    uint64_t others;              /* members that are no traces */
    char why[ORR_ERROR_TEXT_MAX]; /* what is wrong with the first of them */
    char cut[ORR__TAR_NAME_MAX];  /* the member in which the archive ends, "" none */
};

static void note_other(struct archive *archive, const char *name, const char *why) {
    if (archive->others++ == 0)
        snprintf(archive->why, sizeof archive->why, "%.200s: %.800s", name, why);
}

/* Reads a member as a trace, if it is one. */
static enum orr_status read_member(const struct reading *r, struct archive *archive,
                                   const struct orr__tar_member *member) {
    const char *head;
    struct orr__json_input *input = member->input;
    size_t size = orr__json_input_peek(input, &head);
    struct orr__json_input *unzipped = NULL;
    if (orr__is_gzip(head, size)) {
        archive->tar.member = NULL; /* owned by what stands on it */
        enum orr_status status = orr__gunzip_open(input, r->memory, &unzipped);
        if (status != ORR_OK)
            return out_of_memory(r);
        input = unzipped;
        size = orr__json_input_peek(input, &head);
    }
    struct orr_timeline *timeline = NULL;
    struct orr_error error = {0};
    enum orr_status status = ORR_INVALID;
    if (detect(head, size) != FORMAT_JSON)
        orr_error_set(&error, status, "%s", size == 0 ? "empty" : describe(head, size));
    else
        status = orr__read_json(input, member->name, r->options, r->memory, &timeline, &error);
    orr__json_input_close(&unzipped);
    if (status == ORR_INVALID && !(r->options && r->options->strict)) {
        note_other(archive, member->name, error.text);
        return ORR_OK;
    }
    if (status != ORR_OK)
        return orr_error_set(r->error, status, "%s: %s", r->path, error.text);
    return append(r, member->name, timeline);
}

/* A finding of the archive, kept with its first trace. */
static enum orr_status tell(const struct reading *r, size_t trace, const char *severity,
                            const char *kind, const char *text) {
    struct orr_timeline *t = r->traces->items[trace].timeline;
    size_t capacity = t->finding_count;
    const char *message =
        orr__texts_add(r->memory, (struct orr__texts **)&t->texts, text, strlen(text));
    const char *kind_text =
        orr__texts_add(r->memory, (struct orr__texts **)&t->texts, kind, strlen(kind));
    if (!message || !kind_text ||
        orr_memory_grow(r->memory, &t->findings, &capacity, t->finding_count + 1,
                        sizeof *t->findings, INT32_MAX) != ORR_OK)
        return out_of_memory(r);
    t->findings[t->finding_count] = (struct orr_timeline_finding){.id = t->finding_count + 1,
                                                                  .kind = kind_text,
                                                                  .severity = severity,
                                                                  .message = message,
                                                                  .fix = ""};
    t->finding_count++;
    return ORR_OK;
}

static enum orr_status tell_archive(const struct reading *r, const struct archive *archive) {
    char text[ORR_ERROR_TEXT_MAX];
    enum orr_status status = ORR_OK;
    if (archive->others > 0) {
        snprintf(text, sizeof text, "%llu files of the archive are no traces and left out; %.800s",
                 (unsigned long long)archive->others, archive->why);
        status = tell(r, archive->before, "note", "import_other_files", text);
    }
    if (status == ORR_OK && archive->tar.cut) {
        snprintf(text, sizeof text, "%s, at byte %llu of the file%s%.700s%s", archive->tar.why,
                 (unsigned long long)archive->tar.cut_at, archive->cut[0] ? ", in " : "",
                 archive->cut, "; traces after that are missing");
        status = tell(r, archive->before, "warning", "import_cut", text);
    }
    return status;
}

/* The trace in which the archive ends is left out, unless there is no other. */
static void drop_cut(const struct reading *r, struct archive *archive,
                     const struct orr__tar_member *member, size_t count) {
    snprintf(archive->cut, sizeof archive->cut, "%s", member->name);
    if (count > archive->before && r->traces->count > count)
        drop(r, count);
}

static enum orr_status read_archive(const struct reading *r, struct orr__json_input *input) {
    struct archive archive = {.before = r->traces->count};
    struct orr__tar_member member;
    enum orr_status status = ORR_OK;
    orr__tar_begin(&archive.tar, input, r->memory);
    while (status == ORR_OK && orr__tar_next(&archive.tar, &member)) {
        size_t count = r->traces->count;
        status = read_member(r, &archive, &member);
        if (archive.tar.cut && status == ORR_OK)
            drop_cut(r, &archive, &member, count);
    }
    orr__tar_end(&archive.tar);
    if (status == ORR_OK && archive.tar.status != ORR_OK)
        status = orr_error_set(r->error, archive.tar.status, "%s: %s", r->path, input->why);
    if (status != ORR_OK)
        return status;
    if (archive.tar.cut && r->options && r->options->strict)
        return orr_error_set(r->error, ORR_INVALID, "%s: byte %llu: %s; expected a whole archive",
                             r->path, (unsigned long long)archive.tar.cut_at, archive.tar.why);
    if (r->traces->count == archive.before)
        return orr_error_set(r->error, ORR_INVALID, "%s: an archive without a trace%s%.600s; %s",
                             r->path, archive.others > 0 ? "; " : "", archive.why, expected);
    return tell_archive(r, &archive);
}

/* -- Files ------------------------------------------------------------------------------------- */

static enum orr_status invalid(const struct reading *r, struct orr__json_input *input,
                               const char *head, size_t size) {
    if (input->status != ORR_OK)
        return orr_error_set(r->error, input->status, "%s: %s", r->path, input->why);
    if (size > 0)
        return orr_error_set(r->error, ORR_INVALID, "%s: %s; %s", r->path, describe(head, size),
                             expected);
    return orr_error_set(r->error, ORR_INVALID, "%s: %s; %s", r->path,
                         input->cut ? input->why : "empty", expected);
}

/* Databases are opened by their path again. */
static enum orr_status read_database(const struct reading *r, enum format format) {
    struct orr_timeline *timeline = NULL;
    bool without = r->options && r->options->without_accesses;
    unsigned parts =
        without ? ORR_TIMELINE_ALL & ~(unsigned)ORR_TIMELINE_ACCESSES : ORR_TIMELINE_ALL;
    enum orr_status status =
        format == FORMAT_OWN
            ? orr_timeline_read_parts(r->path, parts, r->memory, &timeline, r->error)
            : orr__read_nsys(r->path, r->options, r->memory, &timeline, r->error);
    return status == ORR_OK ? append(r, NULL, timeline) : status;
}

static enum orr_status read_file(const struct reading *r, struct orr__json_input **input) {
    const char *head;
    size_t size = orr__json_input_peek(*input, &head);
    enum format format = detect(head, size);
    struct orr_timeline *timeline;
    enum orr_status status;
    switch (format) {
    case FORMAT_JSON:
        status = orr__read_json(*input, r->path, r->options, r->memory, &timeline, r->error);
        return status == ORR_OK ? append(r, NULL, timeline) : status;
    case FORMAT_TAR: return read_archive(r, *input);
    case FORMAT_OWN:
    case FORMAT_SQLITE:
        if (orr__json_input_is_plain(*input)) {
            orr__json_input_close(input);
            return read_database(r, format);
        }
        break;
    default: break;
    }
    return invalid(r, *input, head, size);
}

enum orr_status orr_traces_read(const char *path, const struct orr_import_options *options,
                                const struct orr_memory *memory, struct orr_traces *traces,
                                struct orr_error *error) {
    struct reading r = {path, options, memory, traces, error};
    struct orr__json_input *input;
    size_t before = traces->count;
    enum orr_status status = orr__json_input_open(path, memory, &input, error);
    if (status != ORR_OK)
        return status;
    status = read_file(&r, &input);
    orr__json_input_close(&input);
    if (status != ORR_OK)
        drop(&r, before);
    return status;
}
