/* Mailboxes: how one host waits for another, and what is said when nobody can go on.
 *
 *     orrery.mailbox([name])   m:put(value)   m:take([what])   m:count()
 *
 * The messages are in the handle's user value, a table: [first] .. [last], those two numbers, and
 * in `ids` under the same indices what the runtime calls each, for it puts the hosts in an order.
 * Hosts that wait are a list through struct orr__host: the handle's number is the first one's
 * index + 1. Their coroutines keep the mailbox alive. */
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

static struct orr__handle *mailbox_at(lua_State *L) {
    return orr__handle(L, 1, ORR__MAILBOX, "mailbox");
}

/* orrery.mailbox([name]) */
static int orrery_mailbox(lua_State *L) {
    const char *name = luaL_optstring(L, 1, "mailbox");
    orr__push_handle(L, ORR__MAILBOX, NULL);
    lua_newtable(L);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, 1);
    lua_setfield(L, -2, "first");
    lua_pushinteger(L, 0);
    lua_setfield(L, -2, "last");
    lua_newtable(L);
    lua_setfield(L, -2, "ids");
    lua_setiuservalue(L, -2, 1);
    return 1;
}

/* Pushes the table of messages. */
static void push_messages(lua_State *L, lua_Integer *out_first, lua_Integer *out_last) {
    lua_getiuservalue(L, 1, 1);
    lua_getfield(L, -1, "first");
    lua_getfield(L, -2, "last");
    *out_first = lua_tointeger(L, -2);
    *out_last = lua_tointeger(L, -1);
    lua_pop(L, 2);
}

/* Adds the value at index 2. */
static void push_back(lua_State *L, struct orr_runtime *runtime) {
    lua_Integer first, last;
    push_messages(L, &first, &last);
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, last + 1);
    lua_getfield(L, -1, "ids");
    lua_pushinteger(L, (lua_Integer)orr_runtime_post(runtime));
    lua_rawseti(L, -2, last + 1);
    lua_pop(L, 1);
    lua_pushinteger(L, last + 1);
    lua_setfield(L, -2, "last");
    lua_pop(L, 1);
}

/* Pushes the oldest message and drops it. ORR_BLOCKED, and nothing pushed, if there is none. */
static enum orr_status pop_front(lua_State *L, struct orr_runtime *runtime) {
    lua_Integer first, last;
    push_messages(L, &first, &last);
    if (first > last) {
        lua_pop(L, 1);
        return ORR_BLOCKED;
    }
    lua_getfield(L, -1, "ids");
    lua_rawgeti(L, -1, first);
    enum orr_status status = orr_runtime_take(runtime, (uint64_t)lua_tointeger(L, -1));
    if (status != ORR_OK)
        return status;
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_rawseti(L, -2, first);
    lua_pop(L, 1);
    lua_rawgeti(L, -1, first);
    lua_pushnil(L);
    lua_rawseti(L, -3, first);
    lua_pushinteger(L, first + 1);
    lua_setfield(L, -3, "first");
    lua_remove(L, -2);
    return ORR_OK;
}

/* --- waiting --- */

static void wait_here(lua_State *L, struct orr_scenario *scenario, struct orr__handle *mailbox) {
    struct orr__host *host = &scenario->hosts[scenario->running];
    lua_getiuservalue(L, 1, 1);
    lua_getfield(L, -1, "name");
    const char *what = lua_isstring(L, 2) ? lua_tostring(L, 2) : lua_tostring(L, -1);
    snprintf(host->waits_for, sizeof host->waits_for, "%s", *what ? what : "mailbox");
    lua_pop(L, 2);
    host->next_waiter = 0;
    uint32_t *link = &mailbox->number;
    while (*link != 0)
        link = &scenario->hosts[*link - 1].next_waiter;
    *link = (uint32_t)scenario->running + 1;
    orr_runtime_park(scenario->runtime);
}

static void wake_first(struct orr_scenario *scenario, struct orr__handle *mailbox) {
    if (mailbox->number == 0)
        return;
    struct orr__host *host = &scenario->hosts[mailbox->number - 1];
    mailbox->number = host->next_waiter;
    host->waits_for[0] = '\0';
    orr_runtime_unpark(scenario->runtime, host->id);
}

/* m:put(value): never waits for a taker. */
static int mailbox_put(lua_State *L) {
    lua_settop(L, 2);
    struct orr__handle *mailbox = mailbox_at(L);
    if (lua_isnil(L, 2))
        return orr__raise(L, ORR_INVALID, "put: expected a value, got nothing");
    struct orr_scenario *scenario = orr__stream_caller(L);
    enum orr_status status = orr_runtime_meet(scenario->runtime, mailbox->serial);
    if (status == ORR_OK) {
        push_back(L, scenario->runtime);
        wake_first(scenario, mailbox);
    }
    return orr__finish(L, status, 2, 0, mailbox_put);
}

/* m:take([what]): the oldest message; waits until there is one. `what` says in a hang what the call
 * was. */
static int mailbox_take(lua_State *L) {
    lua_settop(L, 2);
    struct orr__handle *mailbox = mailbox_at(L);
    struct orr_scenario *scenario = orr__stream_caller(L);
    enum orr_status status = orr_runtime_meet(scenario->runtime, mailbox->serial);
    if (status == ORR_OK) {
        status = pop_front(L, scenario->runtime);
        if (status == ORR_BLOCKED)
            wait_here(L, scenario, mailbox);
    }
    return orr__finish(L, status, 2, 1, mailbox_take);
}

/* m:count(): messages that are there. */
static int mailbox_count(lua_State *L) {
    lua_settop(L, 1);
    const struct orr__handle *mailbox = mailbox_at(L);
    lua_Integer first, last;
    enum orr_status status = orr_runtime_meet(orr__stream_caller(L)->runtime, mailbox->serial);
    push_messages(L, &first, &last);
    lua_pushinteger(L, last - first + 1);
    return orr__finish(L, status, 1, 1, mailbox_count);
}

static int mailbox_text(lua_State *L) {
    (void)mailbox_at(L);
    lua_getiuservalue(L, 1, 1);
    lua_getfield(L, -1, "name");
    lua_pushfstring(L, "mailbox '%s'", lua_tostring(L, -1));
    return 1;
}

/* --- hangs --- */

bool orr__hosts_wait(const struct orr_scenario *scenario) {
    for (size_t i = 0; i < scenario->host_count; i++)
        if (scenario->hosts[i].waits_for[0] != '\0')
            return true;
    return false;
}

/* "rank 0 at case.lua:7 in receive from rank 1", "rank 1 at case.lua:9 makes no more calls" */
static void describe(const struct orr_scenario *scenario, size_t index, char *text, size_t size) {
    const struct orr__host *host = &scenario->hosts[index];
    char site[ORR__SITE_MAX], name[32] = "the program";
    orr__host_site(scenario, index, site, sizeof site);
    if (host->rank >= 0)
        snprintf(name, sizeof name, "rank %lld", (long long)host->rank);
    char reason[ORR__REASON_MAX];
    if (!orr_runtime_host_reason(scenario->runtime, host->id, reason, sizeof reason))
        snprintf(reason, sizeof reason, "in %s",
                 host->waits_for[0] ? host->waits_for : "a wait for a device");
    snprintf(text, size, "%s%s%s %s", name, site[0] ? " at " : "", site, reason);
}

/* Hosts that have ended are named too: what the others wait for may be a call of theirs. */
static void describe_ended(const struct orr_scenario *scenario, char *text, size_t size) {
    enum { LISTED = 4 };
    size_t used = strlen(text), ended = 0;
    for (size_t i = 0; i < scenario->host_count && used < size; i++) {
        const struct orr__host *host = &scenario->hosts[i];
        if (!host->done || host->rank < 0 || ++ended > LISTED)
            continue;
        used += (size_t)snprintf(text + used, size - used, "; rank %lld has ended",
                                 (long long)host->rank);
    }
    if (ended > LISTED && used < size)
        snprintf(text + used, size - used, "; and %zu more have", ended - LISTED);
}

/* As orr_scenario_describe_hosts; returns how many hosts wait. */
static size_t describe_all(const struct orr_scenario *scenario, char *text, size_t size) {
    enum { LISTED = 4 };
    size_t used = 0, live = 0;
    text[0] = '\0';
    for (size_t i = 0; i < scenario->host_count; i++) {
        const struct orr__host *host = &scenario->hosts[i];
        if (host->done || host->parked || /* a program that only joins */
            ++live > LISTED || used >= size)
            continue;
        char one[ORR__SITE_MAX + ORR__REASON_MAX + 64];
        describe(scenario, i, one, sizeof one);
        used += (size_t)snprintf(text + used, size - used, "%s%s", live > 1 ? "; " : "", one);
    }
    if (live > LISTED && used < size)
        snprintf(text + used, size - used, "; and %zu more", live - LISTED);
    return live;
}

void orr_scenario_describe_hosts(const struct orr_scenario *scenario, char *text, size_t size) {
    (void)describe_all(scenario, text, size);
}

enum orr_status orr__hosts_hang(struct orr_scenario *scenario, struct orr_error *error) {
    char text[ORR_ERROR_TEXT_MAX];
    size_t live = describe_all(scenario, text, sizeof text);
    describe_ended(scenario, text, sizeof text);
    const char *fault = orr_runtime_fault(scenario->runtime);
    enum orr_status status =
        orr_error_set(error, ORR_DEVICE_FAILED, "%s: hang: %s for what never comes: %s%s%s",
                      scenario->config.path, live > 1 ? "all hosts wait" : "the host waits", text,
                      fault ? ": " : "", fault ? fault : "");
    orr__stop(scenario, "hang", "", error->text,
              orr__hosts_wait(scenario)
                  ? "let who is waited for make that call: one order of calls on all ranks"
                  : orr__unending_fix);
    return status;
}

void orr__open_mailboxes(lua_State *L) {
    static const luaL_Reg functions[] = {{"mailbox", orrery_mailbox}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"put", mailbox_put}, {"take", mailbox_take}, {"count", mailbox_count}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, methods);
    orr__class(L, ORR__MAILBOX, mailbox_text);
}
