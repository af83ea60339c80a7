/* Looking at a runtime from outside: texts of names, streams by id, live buffers. */
#include "runtime/runtime_internal.h"

const char *orr_runtime_text(const struct orr_runtime *runtime, uint32_t name) {
    return orr_names_text(runtime->names, name);
}

const struct orr_stream *orr_runtime_stream(const struct orr_runtime *runtime, uint32_t id) {
    return id < runtime->stream_count ? runtime->streams[id] : NULL;
}

static void show_list(const struct orr_buffer *buffer, void *context,
                      void (*show)(void *context, const struct orr_live_buffer *buffer)) {
    for (; buffer; buffer = buffer->next) {
        const struct orr_live_buffer shown = {.id = buffer->id,
                                              .bytes = buffer->bytes,
                                              .base = buffer->base,
                                              .memory = buffer->memory,
                                              .device = buffer->device,
                                              .label = buffer->label,
                                              .site = buffer->site};
        show(context, &shown);
    }
}

void orr_buffers_show(const struct orr_runtime *runtime, void *context,
                      void (*show)(void *context, const struct orr_live_buffer *buffer)) {
    for (uint32_t i = 0; i < runtime->device_count; i++)
        show_list(runtime->devices[i].buffers, context, show);
    show_list(runtime->host_buffers, context, show);
}
