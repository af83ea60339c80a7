#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "trace/import/json_input.h"

enum { GUNZIP_BYTES = 1 << 16 };

struct gunzip_input {
    struct orr__json_input base;
    struct orr__json_input *below;
    z_stream stream;
    bool in_member; /* between a member's header and its end */
    bool ended;
    char buffer[GUNZIP_BYTES];
};

static void *gunzip_alloc(void *context, unsigned count, unsigned size) {
    return orr_memory_resize(context, NULL, (size_t)count * size);
}

static void gunzip_free(void *context, void *block) {
    orr_memory_free(context, block);
}

static void gunzip_cut(struct gunzip_input *input, const char *why) {
    input->ended = true;
    input->base.cut = true;
    input->base.cut_at = input->below->bytes - input->stream.avail_in;
    snprintf(input->base.why, sizeof input->base.why, "%s", why);
}

/* What is below has ended: fine between members. */
static void gunzip_end(struct gunzip_input *input) {
    input->ended = true;
    if (input->below->status != ORR_OK) {
        input->base.status = input->below->status;
        memcpy(input->base.why, input->below->why, sizeof input->base.why);
    } else if (input->in_member) {
        gunzip_cut(input, "the gzip stream ends too early");
    }
}

static bool gunzip_refill(struct gunzip_input *input) {
    size_t size = orr__json_input_read(input->below, input->buffer, sizeof input->buffer);
    input->stream.next_in = (Bytef *)input->buffer;
    input->stream.avail_in = (uInt)size;
    return size > 0;
}

/* A member has ended: another one may follow, or zeros that pad. */
static void gunzip_next_member(struct gunzip_input *input) {
    z_stream *stream = &input->stream;
    input->in_member = false;
    while (stream->avail_in > 0 || gunzip_refill(input)) {
        if (*stream->next_in != 0) {
            input->in_member = *stream->next_in == 0x1f;
            if (!input->in_member)
                gunzip_cut(input, "something that is not gzip follows the gzip stream");
            else
                inflateReset(stream);
            return;
        }
        stream->next_in++;
        stream->avail_in--;
    }
    gunzip_end(input);
}

static void gunzip_failed(struct gunzip_input *input, int result) {
    const char *message = input->stream.msg;
    if (result == Z_MEM_ERROR) {
        input->ended = true;
        input->base.status = ORR_NO_MEMORY;
        snprintf(input->base.why, sizeof input->base.why, "out of host memory");
    } else if (message && strstr(message, "data check")) {
        gunzip_cut(input, "the checksum of the gzip stream is wrong: its contents may be damaged");
    } else {
        gunzip_cut(input, "the gzip stream is damaged");
    }
}

static size_t gunzip_read(struct orr__json_input *base, void *buffer, size_t capacity) {
    struct gunzip_input *input = (struct gunzip_input *)base;
    z_stream *stream = &input->stream;
    uInt wanted = capacity < (1u << 30) ? (uInt)capacity : (1u << 30);
    stream->next_out = buffer;
    stream->avail_out = wanted;
    while (!input->ended && stream->avail_out == wanted) {
        bool dry = stream->avail_in == 0 && !gunzip_refill(input);
        int result = inflate(stream, Z_NO_FLUSH); /* may hold output though the input is dry */
        if (result == Z_STREAM_END)
            gunzip_next_member(input);
        else if (result == Z_BUF_ERROR && dry)
            gunzip_end(input);
        else if (result != Z_OK && result != Z_BUF_ERROR)
            gunzip_failed(input, result);
    }
    return wanted - stream->avail_out;
}

static void gunzip_close(struct orr__json_input *base) {
    struct gunzip_input *input = (struct gunzip_input *)base;
    inflateEnd(&input->stream);
    orr__json_input_close(&input->below);
    orr_memory_free(base->memory, input);
}

enum orr_status orr__gunzip_open(struct orr__json_input *below, const struct orr_memory *memory,
                                 struct orr__json_input **out_input) {
    *out_input = NULL;
    struct gunzip_input *input = orr_memory_alloc(memory, sizeof *input);
    if (!input) {
        orr__json_input_close(&below);
        return ORR_NO_MEMORY;
    }
    input->base =
        (struct orr__json_input){.read = gunzip_read, .close = gunzip_close, .memory = memory};
    input->below = below;
    input->in_member = true;
    input->stream = (z_stream){
        .zalloc = gunzip_alloc, .zfree = gunzip_free, .opaque = (voidpf)(uintptr_t)memory};
    if (inflateInit2(&input->stream, 15 + 16) != Z_OK) {
        orr__json_input_close(&below);
        orr_memory_free(memory, input);
        return ORR_NO_MEMORY;
    }
    *out_input = &input->base;
    return ORR_OK;
}
