/* Internal to trace/: the files in a tar archive (v7, ustar, GNU, pax), one after the other.
 *
 *     struct orr__tar tar;
 *     orr__tar_begin(&tar, input, memory);
 *     while (orr__tar_next(&tar, &member)) {
 *         read(member.input);                  // all of it or not; closed by the next call
 *         if (member.input->cut) ...           // the archive ended in it
 *     }
 *     if (tar.cut) ...                         // between members, or tar.status != ORR_OK
 *     orr__tar_end(&tar);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_TAR_H
#define ORR_TRACE_IMPORT_TAR_H

#include "trace/import/json_input.h"

enum { ORR__TAR_BLOCK = 512, ORR__TAR_NAME_MAX = 1024 };

struct orr__tar_member {
    char name[ORR__TAR_NAME_MAX]; /* as stored; control characters are '?' */
    struct orr__json_input *input;
};

struct orr__tar {
    struct orr__json_input *below; /* borrowed */
    const struct orr_memory *memory;
    struct orr__json_input *member; /* the one handed out */
    uint64_t left;                  /* bytes of it, with padding, that nobody has read */
    uint64_t padding;
    char name[ORR__TAR_NAME_MAX]; /* from a header before, "" none */
    uint64_t size;                /* likewise */
    bool has_size;
    bool cut;
    uint64_t cut_at; /* byte of the file */
    const char *why;
    enum orr_status status; /* ORR_IO, ORR_NO_MEMORY */
};

/* Is this block the header of a member? Its checksum says. */
bool orr__is_tar(const char *block, size_t size);

void orr__tar_begin(struct orr__tar *tar, struct orr__json_input *below,
                    const struct orr_memory *memory);
/* The next plain file; folders and links are passed. False at the end, or on failure. */
bool orr__tar_next(struct orr__tar *tar, struct orr__tar_member *out_member);
void orr__tar_end(struct orr__tar *tar);

#endif
