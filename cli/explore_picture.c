/* What an execution leaves behind, to be compared with what another one does. */
#include <string.h>

#include "cli/explore_scenario.h"
#include "runtime/buffer.h"
#include "runtime/splitmix.h"

enum { ENTRIES_MAX = 1 << 20 };

struct taking {
    struct orr_explorer *explorer;
    struct orr_picture *picture;
    enum orr_status status;
};

static struct orr_pictured *add(struct orr_picture *picture) {
    if (orr_memory_grow(picture->memory, &picture->entries, &picture->capacity, picture->count + 1,
                        sizeof *picture->entries, ENTRIES_MAX) != ORR_OK)
        return NULL;
    return &picture->entries[picture->count++];
}

static void take_buffer(void *context, const struct orr_live_buffer *buffer) {
    struct taking *taking = context;
    const struct orr_runtime *runtime = orr_explorer_runtime(taking->explorer);
    struct orr_pictured *entry = taking->status == ORR_OK ? add(taking->picture) : NULL;
    if (!entry) {
        taking->status = ORR_NO_MEMORY;
        return;
    }
    const char *label = orr_runtime_text(runtime, buffer->label);
    const char *site = orr_runtime_text(runtime, buffer->site);
    char where[32] = "host memory";
    if (buffer->device != ORR_ID_NONE)
        snprintf(where, sizeof where, "device %u", (unsigned)buffer->device);
    entry->key = orr_splitmix_mix(buffer->id);
    entry->digest = orr_untimed_contents(orr_explorer_backend(taking->explorer), buffer->memory,
                                         buffer->base, buffer->bytes);
    snprintf(entry->text, sizeof entry->text, "%.40s%s%s%s%.60s (%s) ends with other contents",
             *label ? "'" : "a buffer", label, *label ? "'" : "", *site ? " of " : "", site, where);
}

/* What hosts have read up to each read: the first one that differs is where it shows. */
static enum orr_status take_reads(struct taking *taking) {
    uint32_t count;
    const struct orr_untimed_step *steps =
        orr_untimed_steps(orr_explorer_backend(taking->explorer), &count);
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != ORR_UNTIMED_HOST_ACCESS ||
            steps[i].command_kind != ORR_COMMAND_HOSTREAD)
            continue;
        struct orr_pictured *entry = add(taking->picture);
        if (!entry)
            return ORR_NO_MEMORY;
        const char *site = orr_runtime_text(orr_explorer_runtime(taking->explorer), steps[i].site);
        entry->key = steps[i].id;
        entry->digest = steps[i].digest;
        snprintf(entry->text, sizeof entry->text, "the host reads something else%s%.100s",
                 *site ? " at " : "", site);
    }
    return ORR_OK;
}

enum orr_status orr_picture_take(struct orr_explorer *explorer, const struct orr_memory *memory,
                                 struct orr_picture *out_picture) {
    *out_picture = (struct orr_picture){.memory = memory};
    struct taking taking = {.explorer = explorer, .picture = out_picture};
    taking.status = take_reads(&taking);
    orr_buffers_show(orr_explorer_runtime(explorer), &taking, take_buffer);
    return taking.status;
}

bool orr_picture_differs(const struct orr_picture *picture, const struct orr_picture *normal,
                         char *text, size_t size) {
    for (size_t i = 0; i < picture->count; i++)
        for (size_t k = 0; k < normal->count; k++)
            if (picture->entries[i].key == normal->entries[k].key &&
                picture->entries[i].digest != normal->entries[k].digest) {
                snprintf(text, size, "%s", picture->entries[i].text);
                return true;
            }
    return false;
}

void orr_picture_clear(struct orr_picture *picture) {
    if (picture->memory)
        orr_memory_free(picture->memory, picture->entries);
    *picture = (struct orr_picture){0};
}
