#include "hazards/json_events.h"

#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <string.h>

#include <yajl/yajl_parse.h>

/* --- memory --- */

/* Before each of yajl's blocks: its neighbours in the list, from which a jump frees them. */
struct orr__json_block {
    struct orr__json_block *next, *previous;
};

_Static_assert(sizeof(struct orr__json_block) % 16 == 0, "what follows is aligned to 16 bytes");

struct orr__json_call {
    jmp_buf missing_memory;
};

static void link_block(struct orr__json *json, struct orr__json_block *block) {
    block->previous = NULL;
    block->next = json->blocks;
    if (block->next)
        block->next->previous = block;
    json->blocks = block;
}

static void unlink_block(struct orr__json *json, struct orr__json_block *block) {
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        json->blocks = block->next;
}

static void *give(void *context, void *old, size_t size) {
    struct orr__json *json = context;
    struct orr__json_block *block = old ? (struct orr__json_block *)old - 1 : NULL;
    if (block)
        unlink_block(json, block);
    struct orr__json_block *given =
        size > SIZE_MAX - sizeof *given
            ? NULL
            : orr_memory_resize(json->memory, block, size + sizeof *given);
    if (given || block)
        link_block(json, given ? given : block);
    if (!given)
        longjmp(json->call->missing_memory, 1);
    return given + 1;
}

static void *give_new(void *context, size_t size) {
    return give(context, NULL, size);
}

static void take_back(void *context, void *old) {
    struct orr__json *json = context;
    if (!old)
        return;
    unlink_block(json, (struct orr__json_block *)old - 1);
    orr_memory_free(json->memory, (struct orr__json_block *)old - 1);
}

static void forget_handle(struct orr__json *json) {
    while (json->blocks)
        take_back(json, json->blocks + 1);
    json->handle = NULL;
}

/* --- values --- */

static int tell(struct orr__json *json, enum orr__json_kind kind, const char *text, size_t length,
                bool is_true) {
    json->quiet = 0;
    json->told = json->offset + yajl_get_bytes_consumed(json->handle);
    struct orr__json_value value = {
        .kind = kind, .is_true = is_true, .text = text, .length = length};
    if (json->tell(json->context, &value))
        return 1;
    json->status = ORR_NO_MEMORY;
    return 0;
}

/* A string as it is handed on; false: no UTF-8, or no memory. */
static bool build_string(struct orr__json *json, const unsigned char *text, size_t length) {
    orr__builder_restart(&json->token);
    orr__build_bytes(&json->token, "", 0);
    size_t from = 0;
    for (size_t at = 0; at < length;) {
        while (at < length && text[at] < 0x80 && text[at] != '\0')
            at++; /* most of all text */
        if (at == length)
            break;
        size_t size = orr__utf8_length(text + at, length - at);
        if (size == 0)
            return false;
        if (text[at] == '\0') {
            orr__build_bytes(&json->token, (const char *)text + from, at - from);
            orr__build_bytes(&json->token, "\xc0\x80", 2);
            from = at + 1;
        }
        at += size;
    }
    orr__build_bytes(&json->token, (const char *)text + from, length - from);
    if (json->token.failed)
        json->status = ORR_NO_MEMORY;
    return !json->token.failed;
}

static int tell_string(struct orr__json *json, enum orr__json_kind kind, const unsigned char *text,
                       size_t length) {
    if (!build_string(json, text, length))
        return 0;
    return tell(json, kind, json->token.data, json->token.length, false);
}

static int on_null(void *context) {
    return tell(context, ORR__JSON_NULL, "", 0, false);
}

static int on_boolean(void *context, int value) {
    return tell(context, ORR__JSON_BOOL, "", 0, value != 0);
}

static int on_number(void *context, const char *text, size_t length) {
    struct orr__json *json = context;
    orr__builder_restart(&json->token);
    orr__build_bytes(&json->token, text, length);
    if (json->token.failed) {
        json->status = ORR_NO_MEMORY;
        return 0;
    }
    return tell(json, ORR__JSON_NUMBER, json->token.data, json->token.length, false);
}

static int on_string(void *context, const unsigned char *text, size_t length) {
    return tell_string(context, ORR__JSON_STRING, text, length);
}

static int on_key(void *context, const unsigned char *text, size_t length) {
    return tell_string(context, ORR__JSON_KEY, text, length);
}

static int open(struct orr__json *json, enum orr__json_kind kind) {
    if (++json->depth > ORR_JSON_DEPTH_MAX)
        return 0;
    return tell(json, kind, "", 0, false);
}

static int on_map(void *context) {
    return open(context, ORR__JSON_MAP);
}

static int on_array(void *context) {
    return open(context, ORR__JSON_ARRAY);
}

static int on_end(void *context) {
    struct orr__json *json = context;
    assert(json->depth > 0);
    json->depth--;
    return tell(json, ORR__JSON_END, "", 0, false);
}

/* --- parsing --- */

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_end,
};

static enum orr_status say_wrong(struct orr__json *json, yajl_status result,
                                 struct orr_error *error) {
    uint64_t at = json->offset + yajl_get_bytes_consumed(json->handle);
    json->status = ORR_INVALID;
    if (result == yajl_status_client_canceled && json->depth > ORR_JSON_DEPTH_MAX)
        return orr_error_set(error, ORR_INVALID,
                             "nested more than %d deep at byte %" PRIu64
                             "; at most so many levels were expected",
                             ORR_JSON_DEPTH_MAX, at);
    if (result == yajl_status_client_canceled)
        return orr_error_set(error, ORR_INVALID,
                             "no JSON: the string that ends at byte %" PRIu64
                             " is not UTF-8; UTF-8 was expected",
                             at);
    char *text = (char *)yajl_get_error(json->handle, 0, NULL, 0);
    text[strcspn(text, "\n")] = '\0';
    /* Not yajl's own place of the error, which depends on the pieces. */
    orr_error_set(error, ORR_INVALID,
                  "no JSON behind byte %" PRIu64 ": %s; one object was expected", json->told, text);
    yajl_free_error(json->handle, (unsigned char *)text);
    return ORR_INVALID;
}

/* What yajl may jump out of. `bytes` NULL: the end. */
static enum orr_status call_parser(struct orr__json *json, const char *bytes, size_t size,
                                   struct orr_error *error) {
    yajl_alloc_funcs functions = {give_new, give, take_back, json};
    if (!json->handle)
        json->handle = yajl_alloc(&callbacks, &functions, json);
    yajl_status result = bytes ? yajl_parse(json->handle, (const unsigned char *)bytes, size)
                               : yajl_complete_parse(json->handle);
    if (result == yajl_status_ok)
        return ORR_OK;
    if (json->status != ORR_OK)
        return json->status;
    return say_wrong(json, result, error);
}

static enum orr_status call(struct orr__json *json, const char *bytes, size_t size,
                            struct orr_error *error) {
    struct orr__json_call place;
    json->call = &place;
    if (setjmp(place.missing_memory) == 0)
        json->status = call_parser(json, bytes, size, error);
    else
        json->status = ORR_NO_MEMORY;
    json->call = NULL;
    if (json->status != ORR_OK)
        forget_handle(json);
    if (json->status == ORR_NO_MEMORY)
        orr_error_set(error, ORR_NO_MEMORY, "no memory to read a program");
    return json->status;
}

static enum orr_status feed(struct orr__json *json, const char *bytes, size_t size,
                            struct orr_error *error) {
    json->quiet += size;
    enum orr_status status = call(json, bytes, size, error);
    json->offset += size;
    return status;
}

/* yajl reads a token that spans pieces once more for every piece. So once one has become long, what
 * follows is held back until it is as long again: every byte is then read two or three times at
 * most. */
static enum orr_status hold(struct orr__json *json, const char *bytes, size_t size,
                            struct orr_error *error) {
    orr__build_bytes(&json->held, bytes, size);
    if (json->held.failed) {
        forget_handle(json);
        json->status = orr_error_set(error, ORR_NO_MEMORY, "no memory to read a program");
        return json->status;
    }
    if (json->held.length < json->quiet)
        return ORR_OK;
    enum orr_status status = feed(json, json->held.data, json->held.length, error);
    orr__builder_clear(&json->held);
    return status;
}

enum orr_status orr__json_parse(struct orr__json *json, const char *bytes, size_t size,
                                struct orr_error *error) {
    enum { LONG_BYTES = 1 << 16 };
    if (json->status != ORR_OK)
        return json->status;
    json->token.memory = json->held.memory = json->memory;
    if (json->held.length > 0 || json->quiet > LONG_BYTES)
        json->status = hold(json, bytes, size, error);
    else
        json->status = feed(json, bytes, size, error);
    if (json->status == ORR_OK && json->quiet + json->held.length > ORR_JSON_TOKEN_MAX) {
        forget_handle(json);
        orr__builder_clear(&json->held);
        json->status = orr_error_set(error, ORR_INVALID,
                                     "a string, number or run of blanks is longer than %d bytes "
                                     "before byte %" PRIu64 "; at most so many were expected",
                                     ORR_JSON_TOKEN_MAX, json->offset);
    }
    return json->status;
}

enum orr_status orr__json_end(struct orr__json *json, struct orr_error *error) {
    json->token.memory = json->held.memory = json->memory;
    if (json->status == ORR_OK && json->held.length > 0)
        json->status = feed(json, json->held.data, json->held.length, error);
    enum orr_status status = json->status;
    if (status == ORR_OK)
        status = call(json, NULL, 0, error);
    forget_handle(json);
    orr__builder_clear(&json->held);
    json->offset = json->told = 0;
    json->depth = json->quiet = 0;
    json->status = ORR_OK;
    return status;
}

void orr__json_clear(struct orr__json *json) {
    forget_handle(json);
    json->token.memory = json->held.memory = json->memory;
    orr__builder_clear(&json->token);
    orr__builder_clear(&json->held);
    json->offset = json->told = 0;
    json->depth = json->quiet = 0;
    json->status = ORR_OK;
}
