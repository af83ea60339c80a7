#include "trace/import/json_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t orr__json_input_peek(struct orr__json_input *input, const char **out_head) {
    while (input->head_size < sizeof input->head) {
        size_t size = input->read(input, input->head + input->head_size,
                                  sizeof input->head - input->head_size);
        if (size == 0)
            break;
        input->head_size += size;
    }
    *out_head = input->head;
    return input->head_size;
}

size_t orr__json_input_read(struct orr__json_input *input, void *buffer, size_t capacity) {
    size_t size = input->head_size - (size_t)input->peeked_at;
    if (size > 0) {
        size = size < capacity ? size : capacity;
        memcpy(buffer, input->head + input->peeked_at, size);
        input->peeked_at += size;
    } else {
        size = capacity > 0 ? input->read(input, buffer, capacity) : 0;
    }
    input->bytes += size;
    return size;
}

void orr__json_input_close(struct orr__json_input **input) {
    if (*input)
        (*input)->close(*input);
    *input = NULL;
}

bool orr__is_gzip(const char *head, size_t size) {
    return size >= 3 && memcmp(head, "\x1f\x8b\x08", 3) == 0;
}

/* ---------------------------------------------------------------------------------------------- */
/* A file */

struct file_input {
    struct orr__json_input base;
    int descriptor;
};

static size_t file_read(struct orr__json_input *input, void *buffer, size_t capacity) {
    struct file_input *file = (struct file_input *)input;
    for (;;) {
        ssize_t size = read(file->descriptor, buffer, capacity);
        if (size >= 0)
            return (size_t)size;
        if (errno != EINTR) {
            input->status = ORR_IO;
            snprintf(input->why, sizeof input->why, "%s", strerror(errno));
            return 0;
        }
    }
}

static void file_close(struct orr__json_input *input) {
    close(((struct file_input *)input)->descriptor);
    orr_memory_free(input->memory, input);
}

bool orr__json_input_is_plain(const struct orr__json_input *input) {
    return input->read == file_read;
}

static enum orr_status open_failed(const char *path, struct orr_error *error) {
    bool ours = errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG && errno != ELOOP;
    return orr_error_set(error, ours ? ORR_IO : ORR_INVALID, "%s: %s; expected a trace", path,
                         strerror(errno));
}

static enum orr_status open_file(const char *path, int *out_descriptor, struct orr_error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (descriptor < 0)
        return open_failed(path, error);
    if (fstat(descriptor, &facts) != 0) {
        enum orr_status status = open_failed(path, error);
        close(descriptor);
        return status;
    }
    if (S_ISDIR(facts.st_mode)) {
        close(descriptor);
        return orr_error_set(error, ORR_INVALID, "%s: a folder; expected a file with a trace",
                             path);
    }
    *out_descriptor = descriptor;
    return ORR_OK;
}

/* What is in gzip, if it is gzip. */
static enum orr_status through_gzip(struct orr__json_input *input,
                                    struct orr__json_input **out_input) {
    const char *head;
    size_t size = orr__json_input_peek(input, &head);
    *out_input = input;
    return orr__is_gzip(head, size) ? orr__gunzip_open(input, input->memory, out_input) : ORR_OK;
}

enum orr_status orr__json_input_open(const char *path, const struct orr_memory *memory,
                                     struct orr__json_input **out_input, struct orr_error *error) {
    *out_input = NULL;
    int descriptor = -1;
    enum orr_status status = open_file(path, &descriptor, error);
    if (status != ORR_OK)
        return status;
    struct file_input *file = orr_memory_alloc(memory, sizeof *file);
    if (!file) {
        close(descriptor);
        return orr_error_set(error, ORR_NO_MEMORY, "%s: out of host memory", path);
    }
    file->base = (struct orr__json_input){.read = file_read, .close = file_close, .memory = memory};
    file->descriptor = descriptor;
    status = through_gzip(&file->base, out_input);
    return status == ORR_OK ? ORR_OK : orr_error_set(error, status, "%s: out of host memory", path);
}

/* ---------------------------------------------------------------------------------------------- */
/* Bytes in memory */

struct bytes_input {
    struct orr__json_input base;
    const char *at;
    size_t left;
};

static size_t bytes_read(struct orr__json_input *input, void *buffer, size_t capacity) {
    struct bytes_input *bytes = (struct bytes_input *)input;
    size_t size = bytes->left < capacity ? bytes->left : capacity;
    if (size > 0)
        memcpy(buffer, bytes->at, size);
    bytes->at += size;
    bytes->left -= size;
    return size;
}

static void bytes_close(struct orr__json_input *input) {
    orr_memory_free(input->memory, input);
}

enum orr_status orr__json_input_bytes(const void *bytes, size_t size,
                                      const struct orr_memory *memory,
                                      struct orr__json_input **out_input) {
    *out_input = NULL;
    struct bytes_input *input = orr_memory_alloc(memory, sizeof *input);
    if (!input)
        return ORR_NO_MEMORY;
    input->base =
        (struct orr__json_input){.read = bytes_read, .close = bytes_close, .memory = memory};
    input->at = bytes;
    input->left = size;
    return through_gzip(&input->base, out_input);
}
