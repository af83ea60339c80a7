#include "trace/import/kineto_event.h"

static const struct {
    const char *key;
    size_t length;
} args[ORR__ARG_COUNT] = {
#define ARG_KEY(name, key) [ORR__ARG_##name] = {key, sizeof key - 1},
    ORR__ARG_LIST(ARG_KEY)
#undef ARG_KEY
};

static size_t bucket(const char *key, size_t length) {
    return (length * 7 + (unsigned char)key[0]) & 63;
}

void orr__event_keys_init(struct orr__event_keys *keys) {
    memset(keys, 0, sizeof *keys);
    for (size_t i = 0; i < ORR__ARG_COUNT; i++) {
        uint8_t *first = &keys->first[bucket(args[i].key, args[i].length)];
        keys->next[i] = *first;
        *first = (uint8_t)(i + 1);
    }
}

static int find_arg(const struct orr__event_keys *keys, struct orr__json_text key) {
    if (key.length == 0)
        return -1;
    int i = keys->first[bucket(key.at, key.length)] - 1;
    while (i >= 0 && (args[i].length != key.length || memcmp(args[i].key, key.at, key.length) != 0))
        i = keys->next[i] - 1;
    return i;
}

static void read_args(const struct orr__event_keys *keys, struct orr__json_cursor *cursor,
                      struct orr__event *event) {
    struct orr__json_text key;
    struct orr__json_value value;
    const char *begin = cursor->at - 1;
    while (orr__json_member(cursor, &key, &value)) {
        int arg = find_arg(keys, key);
        orr__json_skip(cursor, &value);
        if (arg >= 0 && value.kind != ORR__JSON_NULL) {
            event->args[arg] = value;
            event->has |= UINT64_C(1) << arg;
        }
    }
    event->all_args = (struct orr__json_text){.at = begin, .length = (size_t)(cursor->at - begin)};
}

static int find_field(struct orr__json_text key) {
    if (key.length == 3) {
        if (memcmp(key.at, "cat", 3) == 0)
            return ORR__FIELD_CAT;
        if (memcmp(key.at, "pid", 3) == 0)
            return ORR__FIELD_PID;
        if (memcmp(key.at, "tid", 3) == 0)
            return ORR__FIELD_TID;
        if (memcmp(key.at, "dur", 3) == 0)
            return ORR__FIELD_DUR;
    }
    if (orr__json_is(key, "ts"))
        return ORR__FIELD_TS;
    return orr__json_is(key, "name") ? ORR__FIELD_NAME : -1;
}

void orr__event_read(const struct orr__event_keys *keys, struct orr__json_cursor *cursor,
                     struct orr__event *event) {
    struct orr__json_text key;
    struct orr__json_value value;
    event->ph = '\0';
    event->fields = 0;
    event->has = 0;
    memset(event->field, 0, sizeof event->field);
    event->all_args.length = 0;
    event->is_object = orr__json_value(cursor, &value) && value.kind == ORR__JSON_OBJECT;
    if (!event->is_object) {
        orr__json_skip(cursor, &value);
        return;
    }
    while (orr__json_member(cursor, &key, &value)) {
        int field = find_field(key);
        if (field >= 0) {
            orr__json_skip(cursor, &value);
            event->field[field] = value;
            event->fields |= value.kind != ORR__JSON_NULL ? 1u << field : 0;
        } else if (value.kind == ORR__JSON_OBJECT && orr__json_is(key, "args")) {
            read_args(keys, cursor, event);
        } else {
            if (value.kind == ORR__JSON_STRING && value.text.length == 1 && orr__json_is(key, "ph"))
                event->ph = *value.text.at;
            orr__json_skip(cursor, &value);
        }
    }
}
