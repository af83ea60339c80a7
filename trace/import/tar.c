#include "trace/import/tar.h"

#include <stdio.h>
#include <string.h>

/* POSIX ustar: offsets and sizes of the fields that matter. */
enum {
    NAME_BYTES = 100,
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    CHECKSUM_AT = 148,
    CHECKSUM_BYTES = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155,
    EXTRA_MAX = 1 << 16 /* of a long name, or of pax records */
};

/* Octal digits between blanks, or, with the highest bit set, a big-endian number. */
static bool parse_number(const char *field, size_t size, uint64_t *out_number) {
    uint64_t number = 0;
    size_t i = 0;
    if ((unsigned char)field[0] == 0x80) {
        for (i = 1; i < size; i++) {
            if (number >> 55 != 0)
                return false;
            number = number << 8 | (unsigned char)field[i];
        }
        *out_number = number;
        return true;
    }
    while (i < size && field[i] == ' ')
        i++;
    if (i == size || field[i] < '0' || field[i] > '7')
        return false;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        number = number << 3 | (uint64_t)(field[i] - '0');
    *out_number = number;
    return i == size || field[i] == ' ' || field[i] == '\0';
}

bool orr__is_tar(const char *block, size_t size) {
    uint64_t wanted, sum = 0, bytes;
    if (size < ORR__TAR_BLOCK || !parse_number(block + CHECKSUM_AT, CHECKSUM_BYTES, &wanted) ||
        !parse_number(block + SIZE_AT, SIZE_BYTES, &bytes))
        return false;
    for (size_t i = 0; i < ORR__TAR_BLOCK; i++) {
        bool inside = i >= CHECKSUM_AT && i < CHECKSUM_AT + CHECKSUM_BYTES;
        sum += inside ? ' ' : (unsigned char)block[i];
    }
    return sum == wanted;
}

/* -- A member ---------------------------------------------------------------------------------- */

struct member_input {
    struct orr__json_input base;
    struct orr__tar *tar;
    uint64_t left;
};

static void set_cut(struct orr__tar *tar, const char *why) {
    tar->cut = true;
    tar->why = why;
    tar->cut_at = tar->below->cut ? tar->below->cut_at : tar->below->bytes;
}

static size_t member_read(struct orr__json_input *base, void *buffer, size_t capacity) {
    struct member_input *member = (struct member_input *)base;
    size_t wanted = member->left < capacity ? (size_t)member->left : capacity;
    size_t size = orr__json_input_read(member->tar->below, buffer, wanted);
    member->left -= size;
    member->tar->left -= size;
    if (size == 0 && member->left > 0) {
        if (member->tar->below->status != ORR_OK) {
            base->status = member->tar->below->status;
            memcpy(base->why, member->tar->below->why, sizeof base->why);
            return 0;
        }
        set_cut(member->tar, "the archive ends too early");
        base->cut = true;
        base->cut_at = member->tar->cut_at;
        snprintf(base->why, sizeof base->why, "%s", member->tar->why);
    }
    return size;
}

static void member_close(struct orr__json_input *base) {
    struct member_input *member = (struct member_input *)base;
    orr_memory_free(base->memory, member);
}

/* -- From header to header --------------------------------------------------------------------- */

void orr__tar_begin(struct orr__tar *tar, struct orr__json_input *below,
                    const struct orr_memory *memory) {
    *tar = (struct orr__tar){.below = below, .memory = memory};
}

void orr__tar_end(struct orr__tar *tar) {
    orr__json_input_close(&tar->member);
}

static bool failed(struct orr__tar *tar, const char *why) {
    if (tar->below->status != ORR_OK)
        tar->status = tar->below->status;
    else
        set_cut(tar, why);
    return false;
}

/* Reads so many bytes, or says that the archive is cut. */
static bool read_exactly(struct orr__tar *tar, char *buffer, size_t size) {
    size_t got = 0, more = 1;
    while (got < size && more > 0) {
        more = orr__json_input_read(tar->below, buffer + got, size - got);
        got += more;
    }
    return got == size || failed(tar, "the archive ends too early");
}

static bool pass(struct orr__tar *tar, uint64_t size) {
    char buffer[4096];
    while (size > 0) {
        size_t part = size < sizeof buffer ? (size_t)size : sizeof buffer;
        if (!read_exactly(tar, buffer, part))
            return false;
        size -= part;
    }
    return true;
}

static void set_name(char *out, const char *name, size_t length) {
    if (length >= ORR__TAR_NAME_MAX)
        length = ORR__TAR_NAME_MAX - 1;
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    out[length] = '\0';
}

/* "27 path=some/long/name\n" and so on: LENGTH KEY=VALUE, where the length counts all of it. */
static void read_pax(struct orr__tar *tar, const char *text, size_t size) {
    const char *end = text + size;
    while (text < end) {
        uint64_t length = 0;
        const char *at = text;
        while (at < end && *at >= '0' && *at <= '9' && length < EXTRA_MAX)
            length = length * 10 + (uint64_t)(*at++ - '0');
        if (at == end || *at != ' ' || length <= (uint64_t)(at + 1 - text) ||
            length > (uint64_t)(end - text))
            return;
        const char *key = at + 1, *value_end = text + length - 1;
        size_t left = (size_t)(value_end - key);
        if (left > 5 && memcmp(key, "path=", 5) == 0) {
            set_name(tar->name, key + 5, left - 5);
        } else if (left > 5 && memcmp(key, "size=", 5) == 0) {
            uint64_t number = 0;
            for (at = key + 5; at < value_end && *at >= '0' && *at <= '9' && number >> 59 == 0;
                 at++)
                number = number * 10 + (uint64_t)(*at - '0');
            tar->size = number;
            tar->has_size = at == value_end;
        }
        text += length;
    }
}

/* A member that says something of the next one: a GNU long name, or pax records. */
static bool read_extra(struct orr__tar *tar, char type, uint64_t size, uint64_t padded) {
    if (size > EXTRA_MAX)
        return pass(tar, padded);
    char *text = orr_memory_resize(tar->memory, NULL, (size_t)padded + 1);
    if (!text) {
        tar->status = ORR_NO_MEMORY;
        return false;
    }
    bool read = read_exactly(tar, text, (size_t)padded);
    if (read && type == 'L')
        set_name(tar->name, text, strnlen(text, (size_t)size));
    else if (read && type == 'x')
        read_pax(tar, text, (size_t)size);
    orr_memory_free(tar->memory, text);
    return read;
}

static void name_of(const struct orr__tar *tar, const char *header, char *out) {
    char joined[PREFIX_BYTES + NAME_BYTES + 2];
    size_t length = 0, name = strnlen(header, NAME_BYTES);
    if (tar->name[0] != '\0') {
        memcpy(out, tar->name, sizeof tar->name);
        return;
    }
    /* GNU's own old header has other things where the prefix would be. */
    if (memcmp(header + MAGIC_AT, "ustar\0", 6) == 0) {
        length = strnlen(header + PREFIX_AT, PREFIX_BYTES);
        memcpy(joined, header + PREFIX_AT, length);
        if (length > 0)
            joined[length++] = '/';
    }
    memcpy(joined + length, header, name);
    set_name(out, joined, length + name);
}

static bool hand_out(struct orr__tar *tar, uint64_t size, uint64_t padded,
                     struct orr__tar_member *out_member) {
    struct member_input *member = orr_memory_alloc(tar->memory, sizeof *member);
    if (!member) {
        tar->status = ORR_NO_MEMORY;
        return false;
    }
    member->base =
        (struct orr__json_input){.read = member_read, .close = member_close, .memory = tar->memory};
    member->tar = tar;
    member->left = size;
    tar->left = padded;
    tar->member = out_member->input = &member->base;
    return true;
}

static bool is_zero(const char *block) {
    for (size_t i = 0; i < ORR__TAR_BLOCK; i++)
        if (block[i] != '\0')
            return false;
    return true;
}

bool orr__tar_next(struct orr__tar *tar, struct orr__tar_member *out_member) {
    char header[ORR__TAR_BLOCK];
    uint64_t left = tar->left;
    tar->left = 0;
    orr__json_input_close(&tar->member);
    if (!tar->cut && !pass(tar, left))
        return false;
    for (;;) {
        uint64_t size;
        if (tar->cut || tar->status != ORR_OK || !read_exactly(tar, header, sizeof header) ||
            is_zero(header))
            return false;
        if (!orr__is_tar(header, sizeof header) ||
            !parse_number(header + SIZE_AT, SIZE_BYTES, &size))
            return failed(tar, "the archive is damaged");
        char type = header[TYPE_AT];
        bool is_extra = type == 'L' || type == 'x' || type == 'K' || type == 'g';
        if (!is_extra && tar->has_size)
            size = tar->size;
        if (size > (UINT64_C(1) << 62))
            return failed(tar, "the archive is damaged");
        uint64_t padded = (size + ORR__TAR_BLOCK - 1) / ORR__TAR_BLOCK * ORR__TAR_BLOCK;
        if (is_extra) {
            if (!read_extra(tar, type, size, padded))
                return false;
            continue;
        }
        name_of(tar, header, out_member->name);
        tar->name[0] = '\0';
        tar->has_size = false;
        if (type == '0' || type == '\0' || type == '7')
            return hand_out(tar, size, padded, out_member);
        if (!pass(tar, padded))
            return false;
    }
}
