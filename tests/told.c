#include "tests/told.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct told *told_of(struct orr_observer *observer) {
    return (struct told *)(void *)observer;
}

__attribute__((format(printf, 2, 3))) static void write_text(struct told *told, const char *format,
                                                             ...) {
    char piece[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof piece)
        abort();
    if (told->length + (size_t)length + 1 > told->capacity) {
        told->capacity = 2 * told->capacity + 4096;
        told->text = realloc(told->text, told->capacity);
        if (!told->text)
            abort();
    }
    memcpy(told->text + told->length, piece, (size_t)length + 1);
    told->length += (size_t)length;
}

static const char *text_of(const struct told *told, uint32_t name) {
    return orr_names_text(told->observer.names, name);
}

static void write_points(struct told *told, const struct orr_point *points, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        write_text(told, " %u:%llu", (unsigned)points[i].stream, (unsigned long long)points[i].seq);
}

static void tell_stream(struct orr_observer *observer, const struct orr_record_stream *stream) {
    struct told *told = told_of(observer);
    write_text(told, "stream %u '%s' device %u %s\n", (unsigned)stream->id,
               text_of(told, stream->name), (unsigned)stream->device,
               orr_stream_sync_text((enum orr_stream_sync)stream->header.b));
}

static void tell_host(struct orr_observer *observer, const struct orr_observed_host *host) {
    write_text(told_of(observer), "host %u '%s'\n", (unsigned)host->id, host->name);
}

static void tell_buffer(struct orr_observer *observer, const struct orr_observed_buffer *buffer) {
    struct told *told = told_of(observer);
    write_text(told, "buffer %llu '%s' at %u:%llu+%llu cmd %llu", (unsigned long long)buffer->id,
               text_of(told, buffer->label), (unsigned)buffer->memory,
               (unsigned long long)buffer->base, (unsigned long long)buffer->bytes,
               (unsigned long long)buffer->cmd);
    if (buffer->stream != ORR_ID_NONE)
        write_text(told, " stream %u", (unsigned)buffer->stream);
    write_text(told, " host %u%s", (unsigned)buffer->host, buffer->is_pageable ? " pageable" : "");
    if (buffer->after_count > 0)
        write_text(told, " after");
    write_points(told, buffer->after, buffer->after_count);
    write_text(told, "\n");
}

static void tell_free(struct orr_observer *observer, uint64_t id, uint64_t cmd, uint32_t host,
                      uint32_t site) {
    struct told *told = told_of(observer);
    const char *text = text_of(told, site);
    write_text(told, "free %llu cmd %llu host %u%s%s\n", (unsigned long long)id,
               (unsigned long long)cmd, (unsigned)host, *text ? " site " : "", text);
}

static void tell_record_stream(struct orr_observer *observer, uint64_t id, uint32_t stream) {
    write_text(told_of(observer), "record_stream %llu stream %u\n", (unsigned long long)id,
               (unsigned)stream);
}

static void write_access(struct told *told, const struct orr_observed_access *access) {
    static const char *const modes[] = {"?", "r", "w", "rw"};
    write_text(told, " %s%llu[%llu:%llu]", modes[access->mode], (unsigned long long)access->buffer,
               (unsigned long long)access->offset,
               (unsigned long long)(access->offset + access->bytes));
}

static void tell_command(struct orr_observer *observer,
                         const struct orr_observed_command *command) {
    struct told *told = told_of(observer);
    write_text(told, "%s %llu '%s' host %u", orr_command_kind_text(command->kind),
               (unsigned long long)command->id, text_of(told, command->name),
               (unsigned)command->host);
    if (command->stream != ORR_ID_NONE)
        write_text(told, " stream %u:%llu", (unsigned)command->stream,
                   (unsigned long long)command->seq);
    for (uint32_t i = 0; i < command->access_count; i++)
        write_access(told, &command->accesses[i]);
    if (command->wait_count > 0)
        write_text(told, " waits");
    write_points(told, command->waits, command->wait_count);
    if (command->communicator != ORR_ID_NONE)
        write_text(told, " comm %u rank %u seq %llu of %u %s", (unsigned)command->communicator,
                   (unsigned)command->rank, (unsigned long long)command->collective,
                   (unsigned)command->members, orr_collective_kind_text(command->collective_kind));
    write_text(told, "\n");
}

static void tell_observed(struct orr_observer *observer, uint32_t host,
                          const struct orr_point *points, uint32_t count) {
    write_text(told_of(observer), "observed host %u", (unsigned)host);
    write_points(told_of(observer), points, count);
    write_text(told_of(observer), "\n");
}

static void tell_posted(struct orr_observer *observer, uint32_t host, uint64_t message) {
    write_text(told_of(observer), "posted host %u message %llu\n", (unsigned)host,
               (unsigned long long)message);
}

static void tell_taken(struct orr_observer *observer, uint32_t host, uint64_t message) {
    write_text(told_of(observer), "taken host %u message %llu\n", (unsigned)host,
               (unsigned long long)message);
}

void told_init(struct told *told) {
    *told = (struct told){.observer = {.stream = tell_stream,
                                       .host = tell_host,
                                       .buffer = tell_buffer,
                                       .free = tell_free,
                                       .record_stream = tell_record_stream,
                                       .command = tell_command,
                                       .observed = tell_observed,
                                       .posted = tell_posted,
                                       .taken = tell_taken}};
    write_text(told, "%s", "");
}

void told_free(struct told *told) {
    free(told->text);
    *told = (struct told){0};
}

const char *told_new(struct told *told) {
    const char *text = told->text + told->begin;
    told->begin = told->length;
    return text;
}
