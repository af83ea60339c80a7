/* Conflicts, once for each kind and pair of sites, and how they are told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hazards/monitor_internal.h"

enum { SLOTS_MIN = 64, WHO_MAX = 256 };

static const struct {
    const char *text, *severity;
} kinds[] = {
#define KIND_ROW(name, text, severity) {text, severity},
    ORR_MONITOR_KIND_LIST(KIND_ROW)
#undef KIND_ROW
};

/* --- keeping them --- */

/* Does the host that calls `b` know by now that `a` was called? By messages, and by what the
 * streams that it has waited for had learned of the other host when that last learned something. */
static bool is_called_after(struct orr_monitor *monitor, const struct orr__touch *a,
                            const struct orr__touch *b) {
    const struct orr__actor *host_a = orr__monitor_host(monitor, a->host);
    const struct orr__actor *host_b = orr__monitor_host(monitor, b->host);
    return host_a && host_b &&
           orr__shared_clock_get(&host_b->clock, orr__actor_index(monitor, host_a)) >= a->call;
}

/* Calls of two hosts that know nothing of each other may come in either order, from run to run: by
 * their sites they have one that does not depend on it. */
static void put_in_order(struct orr_monitor *monitor, struct orr__found *found) {
    const struct orr_names *names = monitor->observer.names;
    if (found->a.host == found->b.host || found->kind != ORR_MONITOR_RACE ||
        is_called_after(monitor, &found->a, &found->b))
        return;
    int order = strcmp(orr_names_text(names, found->a.site), orr_names_text(names, found->b.site));
    if (order == 0)
        order = strcmp(orr_names_text(names, found->a.name), orr_names_text(names, found->b.name));
    if (order <= 0)
        return;
    struct orr__touch a = found->a;
    found->a = found->b;
    found->b = a;
    if (found->class != ORR__WRITE_AFTER_WRITE)
        found->class =
            found->class == ORR__READ_AFTER_WRITE ? ORR__WRITE_AFTER_READ : ORR__READ_AFTER_WRITE;
}

static bool same(const struct orr__found *a, const struct orr__found *b) {
    return a->kind == b->kind && a->class == b->class && a->a.site == b->a.site &&
           a->b.site == b->b.site && a->a.name == b->a.name && a->b.name == b->b.name;
}

static size_t slot_of(const struct orr_monitor *monitor, const struct orr__found *found) {
    uint64_t hash = (uint64_t)found->kind * 4 + (uint64_t)found->class;
    const uint32_t words[] = {found->a.site, found->b.site, found->a.name, found->b.name};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    size_t mask = monitor->found_slot_count - 1, slot = (size_t)(hash >> 32) & mask;
    while (monitor->found_slots[slot] != 0 &&
           !same(&monitor->found[monitor->found_slots[slot] - 1], found))
        slot = (slot + 1) & mask;
    return slot;
}

static bool grow_slots(struct orr_monitor *monitor) {
    if (2 * (monitor->found_count + 1) <= monitor->found_slot_count)
        return true;
    size_t count = monitor->found_slot_count > 0 ? 2 * monitor->found_slot_count : SLOTS_MIN;
    uint32_t *slots = orr_memory_alloc(monitor->memory, count * sizeof *slots);
    if (!slots)
        return false;
    orr_memory_free(monitor->memory, monitor->found_slots);
    monitor->found_slots = slots;
    monitor->found_slot_count = count;
    for (size_t i = 0; i < monitor->found_count; i++)
        slots[slot_of(monitor, &monitor->found[i])] = (uint32_t)i + 1;
    return true;
}

void orr__monitor_found(struct orr_monitor *monitor, const struct orr__found *told) {
    struct orr__found found = *told;
    put_in_order(monitor, &found);
    if (!grow_slots(monitor)) {
        orr__monitor_lacks(monitor);
        return;
    }
    size_t slot = slot_of(monitor, &found);
    if (monitor->found_slots[slot] != 0) {
        struct orr__found *known = &monitor->found[monitor->found_slots[slot] - 1];
        known->count += known->last_b != found.b.cmd || known->last_a != found.a.cmd;
        known->last_a = found.a.cmd;
        known->last_b = found.b.cmd;
        return;
    }
    if (monitor->found_count == monitor->options.findings_max) {
        monitor->figures.dropped_findings++;
        return;
    }
    if (orr_memory_grow(monitor->memory, &monitor->found, &monitor->found_capacity,
                        monitor->found_count + 1, sizeof *monitor->found,
                        monitor->options.findings_max) != ORR_OK) {
        orr__monitor_lacks(monitor);
        return;
    }
    found.last_a = found.a.cmd;
    found.last_b = found.b.cmd;
    monitor->found[monitor->found_count++] = found;
    monitor->found_slots[slot] = (uint32_t)monitor->found_count;
}

size_t orr_monitor_finding_count(const struct orr_monitor *monitor) {
    return monitor->found_count;
}

/* --- telling them --- */

struct text {
    char *at;
    size_t left;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < text->left ? (size_t)length : text->left - 1;
    text->at += used;
    text->left -= used;
}

static const char *name_of(const struct orr_monitor *monitor, uint32_t name) {
    return orr_names_text(monitor->observer.names, name);
}

/* "stream 'compute' of device 0", "host 'main'". */
static const char *who(const struct orr_monitor *monitor, uint32_t index, char *text) {
    const struct orr__actor *actor = &monitor->actors[index];
    if (actor->is_host && actor->host_name && *actor->host_name)
        snprintf(text, WHO_MAX, "host '%s'", actor->host_name);
    else if (actor->is_host)
        snprintf(text, WHO_MAX, "host %u", (unsigned)actor->id);
    else
        snprintf(text, WHO_MAX, "stream '%s' of device %u", name_of(monitor, actor->name),
                 (unsigned)actor->device);
    return text;
}

/* "'produce' (a.lua:7)". */
static void put_command(struct text *text, const struct orr_monitor *monitor,
                        const struct orr__touch *touch) {
    const char *site = name_of(monitor, touch->site);
    put(text, "'%s' (%s%scommand %llu)", name_of(monitor, touch->name), site, *site ? ", " : "",
        (unsigned long long)touch->cmd);
}

static const char *class_text(const struct orr_monitor *monitor, const struct orr__found *found) {
    bool host_a = monitor->actors[found->a.actor].is_host;
    bool host_b = monitor->actors[found->b.actor].is_host;
    switch (found->class) {
    case ORR__READ_AFTER_WRITE:
        return host_b ? "host read before sync (read after write)" : "read after write";
    case ORR__WRITE_AFTER_READ:
        return host_b && !host_a ? "staging memory rewritten under a queued copy (write after read)"
                                 : "write after read";
    case ORR__WRITE_AFTER_WRITE: return "write after write";
    default: return "free before the last use";
    }
}

static void put_message(struct text *text, const struct orr_monitor *monitor,
                        const struct orr__found *found) {
    char a[WHO_MAX], b[WHO_MAX];
    const char *buffer = name_of(monitor, found->b.label);
    who(monitor, found->a.actor, a);
    who(monitor, found->b.actor, b);
    put(text, "%s: bytes [%llu, %llu) of '%s': ", class_text(monitor, found),
        (unsigned long long)(found->lo - found->base),
        (unsigned long long)(found->hi - found->base), *buffer ? buffer : "?");
    if (found->kind == ORR_MONITOR_UNORDERED_FREE) {
        const char *site = name_of(monitor, found->b.site);
        put_command(text, monitor, &found->a);
        put(text, " on %s may still %s them when the next owner of the bytes on %s does; freed%s%s",
            a, found->a.mode & ORR_ACCESS_WRITE ? "write" : "read", b, *site ? " at " : "", site);
    } else {
        put_command(text, monitor, &found->b);
        put(text, " on %s %s what ", b, found->b.mode & ORR_ACCESS_WRITE ? "writes" : "reads");
        put_command(text, monitor, &found->a);
        put(text, " on %s %s", a, found->a.mode & ORR_ACCESS_WRITE ? "writes" : "reads");
        if (found->kind == ORR_MONITOR_USE_AFTER_FREE)
            put(text, " through '%s', whose bytes these were", name_of(monitor, found->a.label));
        put(text, ", and nothing orders the two");
    }
    if (found->count > 1)
        put(text, " (%llu times)", (unsigned long long)found->count);
}

static void put_fix(struct text *text, const struct orr_monitor *monitor,
                    const struct orr__found *found) {
    char a[WHO_MAX], b[WHO_MAX];
    who(monitor, found->a.actor, a);
    who(monitor, found->b.actor, b);
    bool host_a = monitor->actors[found->a.actor].is_host;
    bool host_b = monitor->actors[found->b.actor].is_host;
    if (found->kind == ORR_MONITOR_UNORDERED_FREE) {
        put(text,
            "call record_stream for %s before the free, or make %s wait for an event recorded "
            "after ",
            a, b);
        put_command(text, monitor, &found->a);
        put(text, " before the free");
        return;
    }
    if (found->kind == ORR_MONITOR_USE_AFTER_FREE)
        put(text,
            "before '%s' is freed, record_stream for %s, or: ", name_of(monitor, found->a.label),
            a);
    if (host_a) {
        put(text, "%s must come after ", b);
        put_command(text, monitor, &found->a);
        put(text, " of %s: pass a message between their hosts", a);
        return;
    }
    put(text, "record an event on %s after ", a);
    put_command(text, monitor, &found->a);
    put(text, host_b ? " and let %s sync it before " : " and make %s wait for it before ", b);
    put_command(text, monitor, &found->b);
}

void orr_monitor_finding(const struct orr_monitor *monitor, size_t index,
                         struct orr_monitor_finding *out_finding) {
    const struct orr__found *found = &monitor->found[index];
    *out_finding = (struct orr_monitor_finding){.kind = found->kind,
                                                .kind_text = kinds[found->kind].text,
                                                .severity = kinds[found->kind].severity,
                                                .cmd_a = found->a.cmd,
                                                .cmd_b = found->b.cmd,
                                                .buffer = found->b.buffer,
                                                .count = found->count};
    snprintf(out_finding->site_a, ORR_MONITOR_SITE_MAX, "%s", name_of(monitor, found->a.site));
    snprintf(out_finding->site_b, ORR_MONITOR_SITE_MAX, "%s", name_of(monitor, found->b.site));
    struct text message = {out_finding->message, sizeof out_finding->message};
    struct text fix = {out_finding->fix, sizeof out_finding->fix};
    put_message(&message, monitor, found);
    put_fix(&fix, monitor, found);
}
