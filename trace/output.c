#include "trace/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    PART_NAMES = 100,
    GZIP_BUFFER = 1 << 16,
    GZIP_LEVEL = 3,
    GZIP_WINDOW = 15 + 16 /* 16: a gzip header */
};

struct orr_output {
    const struct orr_memory *memory;
    int fd;
    int failure;     /* errno of the first failure, 0 none */
    bool compressed; /* `zip` is in use */
    bool in_place;   /* written directly: no part file, no renaming */
    bool part_exists;
    z_stream zip;
    gz_header header;
    unsigned char *zipped; /* GZIP_BUFFER bytes for the compressor */
    char path[PATH_MAX];   /* the target, symbolic links followed */
    char part[PATH_MAX];
};

static void *zip_alloc(void *context, unsigned items, unsigned size) {
    return orr_memory_resize(context, NULL, (size_t)items * size);
}

static void zip_free(void *context, void *block) {
    orr_memory_free(context, block);
}

static void write_all(struct orr_output *output, const unsigned char *bytes, size_t size) {
    while (size > 0 && output->failure == 0) {
        ssize_t written = write(output->fd, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno != EINTR) {
            output->failure = errno;
        }
    }
}

/* Runs the compressor over what was set as its input, until it wants more (or, with Z_FINISH, until
 * the stream is complete). */
static void zip_run(struct orr_output *output, int flush) {
    z_stream *zip = &output->zip;
    do {
        zip->next_out = output->zipped;
        zip->avail_out = GZIP_BUFFER;
        int result = deflate(zip, flush);
        assert(result != Z_STREAM_ERROR);
        (void)result;
        write_all(output, output->zipped, GZIP_BUFFER - zip->avail_out);
    } while (zip->avail_out == 0 && output->failure == 0);
}

void orr_output_write(struct orr_output *output, const void *bytes, size_t size) {
    if (!output->compressed) {
        write_all(output, bytes, size);
        return;
    }
    const unsigned char *next = bytes;
    while (size > 0 && output->failure == 0) {
        unsigned chunk = size > INT_MAX ? INT_MAX : (unsigned)size;
        output->zip.next_in = (unsigned char *)(uintptr_t)next;
        output->zip.avail_in = chunk;
        zip_run(output, Z_NO_FLUSH);
        next += chunk;
        size -= chunk;
    }
}

int orr_output_failed(const struct orr_output *output) {
    return output->failure != 0;
}

static bool has_suffix(const char *text, const char *suffix) {
    size_t length = strlen(text), wanted = strlen(suffix);
    return length >= wanted && strcmp(text + length - wanted, suffix) == 0;
}

/* No name, mtime 0, and "unknown" for the operating system, so that it does not show either. Level
 * 3 makes a tenth of an export's size at twice the speed of zlib's default, which makes a twelfth
 * (measured on 92 MB of events). */
static enum orr_status zip_start(struct orr_output *output) {
    output->zipped = orr_memory_alloc(output->memory, GZIP_BUFFER);
    if (!output->zipped) {
        return ORR_NO_MEMORY;
    }
    output->zip.zalloc = zip_alloc;
    output->zip.zfree = zip_free;
    output->zip.opaque = (void *)(uintptr_t)output->memory;
    if (deflateInit2(&output->zip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return ORR_NO_MEMORY;
    }
    output->compressed = true;
    output->header = (gz_header){.os = 255};
    int result = deflateSetHeader(&output->zip, &output->header);
    assert(result == Z_OK);
    (void)result;
    return ORR_OK;
}

/* Finds out what the target is: *out->path becomes the file to replace. */
static int resolve(struct orr_output *output, const char *path) {
    struct stat status;
    if (strlen(path) >= sizeof output->path) {
        return ENAMETOOLONG;
    }
    strcpy(output->path, path);
    if (stat(path, &status) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (S_ISDIR(status.st_mode)) {
        return EISDIR;
    }
    output->in_place = !S_ISREG(status.st_mode);
    if (!output->in_place && !realpath(path, output->path)) {
        return errno;
    }
    return 0;
}

/* Creates the file beside the target under the first free name; a killed run may have left one. */
static int open_part(struct orr_output *output) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    for (int i = 0; i < PART_NAMES; i++) {
        char number[16] = "";
        if (i > 0) {
            snprintf(number, sizeof number, "%d", i);
        }
        int length = snprintf(output->part, sizeof output->part, "%s.part%s", output->path, number);
        if (length < 0 || (size_t)length >= sizeof output->part) {
            return ENAMETOOLONG;
        }
        output->fd = open(output->part, flags, 0666);
        if (output->fd >= 0) {
            output->part_exists = true;
            return 0;
        }
        if (errno != EEXIST) {
            return errno;
        }
    }
    return EEXIST;
}

static int open_target(struct orr_output *output, const char *path) {
    int failure = resolve(output, path);
    if (failure != 0) {
        return failure;
    }
    if (!output->in_place) {
        return open_part(output);
    }
    output->fd = open(path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 ? 0 : errno;
}

enum orr_status orr_output_create(const char *path, const struct orr_memory *memory,
                                  struct orr_output **out_output, struct orr_error *error) {
    *out_output = NULL;
    struct orr_output *output = orr_memory_alloc(memory, sizeof *output);
    if (!output) {
        return orr_error_set(error, ORR_NO_MEMORY, "%s: out of memory", path);
    }
    output->memory = memory;
    output->fd = -1;
    int failure = open_target(output, path);
    if (failure != 0) {
        orr_output_discard(&output);
        return orr_error_set(error, ORR_IO, "%s: can't write: %s", path, strerror(failure));
    }
    if (has_suffix(path, ".gz") && zip_start(output) != ORR_OK) {
        orr_output_discard(&output);
        return orr_error_set(error, ORR_NO_MEMORY, "%s: out of memory", path);
    }
    *out_output = output;
    return ORR_OK;
}

/* The last steps that can fail: each only if all before it went well. */
static int complete(struct orr_output *output) {
    if (output->compressed) {
        output->zip.avail_in = 0;
        zip_run(output, Z_FINISH);
    }
    if (output->failure == 0) {
        int fd = output->fd;
        output->fd = -1;
        output->failure = close(fd) == 0 ? 0 : errno;
    }
    if (output->failure == 0 && !output->in_place) {
        output->failure = rename(output->part, output->path) == 0 ? 0 : errno;
        output->part_exists = output->failure != 0;
    }
    return output->failure;
}

enum orr_status orr_output_finish(struct orr_output **output, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    int failure = complete(*output);
    if (failure != 0) {
        status =
            orr_error_set(error, ORR_IO, "%s: can't write: %s", (*output)->path, strerror(failure));
    }
    orr_output_discard(output);
    return status;
}

void orr_output_discard(struct orr_output **output) {
    struct orr_output *dead = *output;
    if (!dead) {
        return;
    }
    if (dead->fd >= 0) {
        close(dead->fd);
    }
    if (dead->part_exists) {
        unlink(dead->part);
    }
    if (dead->compressed) {
        deflateEnd(&dead->zip);
    }
    orr_memory_free(dead->memory, dead->zipped);
    orr_memory_free(dead->memory, dead);
    *output = NULL;
}
