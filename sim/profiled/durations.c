#include "sim/profiled/profiled_internal.h"

#include "runtime/splitmix.h"

enum { CAPACITY_MIN = 64, CAPACITY_MAX = 1 << 24 };

static bool is_of(const struct profiled_duration *place, const struct orr_record_command *record) {
    return place->name == record->name && place->kind == record->header.a &&
           place->dtype == record->header.b && place->flops == record->flops &&
           place->bytes_read == record->bytes_read && place->bytes_written == record->bytes_written;
}

static bool is_free(const struct profiled_duration *place) {
    return place->ns == 0;
}

/* Where the entry is, or would be. */
static struct profiled_duration *place_of(struct profiled_duration *places, size_t capacity,
                                          const struct orr_record_command *record) {
    uint64_t hash = orr_splitmix_mix(record->name + ((uint64_t)record->header.a << 32));
    hash = orr_splitmix_mix(hash ^ record->flops);
    hash = orr_splitmix_mix(hash ^ record->bytes_read);
    hash = orr_splitmix_mix(hash ^ record->bytes_written);
    size_t at = (size_t)hash & (capacity - 1);
    while (!is_free(&places[at]) && !is_of(&places[at], record))
        at = (at + 1) & (capacity - 1);
    return &places[at];
}

static bool grow(struct profiled_durations *durations) {
    size_t capacity = durations->capacity ? 2 * durations->capacity : CAPACITY_MIN;
    struct profiled_duration *places =
        capacity <= CAPACITY_MAX ? orr_memory_alloc(durations->memory, capacity * sizeof *places)
                                 : NULL;
    if (!places)
        return false;
    for (size_t i = 0; i < durations->capacity; i++) {
        const struct profiled_duration *old = &durations->places[i];
        struct orr_record_command record = {.name = old->name,
                                            .flops = old->flops,
                                            .bytes_read = old->bytes_read,
                                            .bytes_written = old->bytes_written};
        record.header.a = (uint8_t)old->kind;
        record.header.b = (uint8_t)old->dtype;
        if (!is_free(old))
            *place_of(places, capacity, &record) = *old;
    }
    orr_memory_free(durations->memory, durations->places);
    durations->places = places;
    durations->capacity = capacity;
    return true;
}

struct profiled_duration *orr__profiled_duration(struct profiled_durations *durations,
                                                 const struct orr_record_command *record) {
    if (4 * (durations->count + 1) > 3 * durations->capacity && !grow(durations))
        return NULL;
    struct profiled_duration *place = place_of(durations->places, durations->capacity, record);
    if (is_free(place)) {
        *place = (struct profiled_duration){.name = record->name,
                                            .kind = record->header.a,
                                            .dtype = record->header.b,
                                            .flops = record->flops,
                                            .bytes_read = record->bytes_read,
                                            .bytes_written = record->bytes_written,
                                            .ns = ORR_TIME_MAX};
        durations->count++;
    }
    return place;
}

void orr__profiled_durations_clear(struct profiled_durations *durations) {
    orr_memory_free(durations->memory, durations->places);
    *durations = (struct profiled_durations){.memory = durations->memory};
}
