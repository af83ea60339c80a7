#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario_internal.h"

struct orr_scenario *orr__scenario_of(lua_State *L) {
    struct orr_scenario *scenario;
    memcpy(&scenario, lua_getextraspace(L), sizeof scenario);
    return scenario;
}

/* Line of the innermost frame of a coroutine in the scenario's file, or 0. */
static int line_in_file(lua_State *L, const char *path) {
    lua_Debug frame;
    for (int level = 0; lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.source[0] == '@' && strcmp(frame.source + 1, path) == 0 && frame.currentline > 0)
            return frame.currentline;
    }
    return 0;
}

static void write_site(const struct orr_scenario *scenario, int line, char *site, size_t size) {
    if (line > 0)
        snprintf(site, size, "%s:%d", scenario->config.path, line);
    else
        site[0] = '\0';
}

void orr__site(lua_State *L, char *site, size_t size) {
    const struct orr_scenario *scenario = orr__scenario_of(L);
    int line = line_in_file(L, scenario->config.path);
    /* A coroutine that runs library code only: the place is where its host has got to. */
    if (line == 0 && scenario->running < scenario->host_count)
        line = line_in_file(scenario->hosts[scenario->running].thread, scenario->config.path);
    write_site(scenario, line, site, size);
}

void orr__host_site(const struct orr_scenario *scenario, size_t index, char *site, size_t size) {
    int line = line_in_file(scenario->hosts[index].thread, scenario->config.path);
    write_site(scenario, line, site, size);
}

/* Raises `text` behind a place and remembers its status. */
static int raise_at(lua_State *L, enum orr_status status, const char *site, const char *text) {
    struct orr_scenario *scenario = orr__scenario_of(L);
    const char *place = site[0] != '\0' ? site : scenario->config.path;
    struct orr_error message = {0};
    (void)orr_error_set(&message, status, "%s: %s", place, text);
    scenario->raised = status;
    memcpy(scenario->raised_text, message.text, sizeof scenario->raised_text);
    lua_pushstring(L, scenario->raised_text);
    return lua_error(L);
}

int orr__raise(lua_State *L, enum orr_status status, const char *format, ...) {
    char text[ORR_ERROR_TEXT_MAX], site[ORR__SITE_MAX];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    orr__site(L, site, sizeof site);
    return raise_at(L, status, site, text);
}

/* Length of "path:line" at the beginning of a text that goes on with ": "; 0 if there is none. */
static size_t placed_length(const char *text, const char *path) {
    size_t length = strlen(path);
    if (strncmp(text, path, length) != 0 || text[length] != ':')
        return 0;
    size_t digits = strspn(text + length + 1, "0123456789");
    length += 1 + digits;
    return digits > 0 && strncmp(text + length, ": ", 2) == 0 ? length : 0;
}

int orr__raise_runtime(lua_State *L, enum orr_status status) {
    struct orr_error *error = orr_runtime_error(orr__scenario_of(L)->runtime);
    char text[ORR_ERROR_TEXT_MAX], site[ORR__SITE_MAX];
    snprintf(text, sizeof text, "%s",
             error->status != ORR_OK && error->text[0] ? error->text : orr_status_text(status));
    orr_error_clear(error);
    orr__site(L, site, sizeof site);
    /* A backend's failure has a site already: this one, or that of an operator which was traced. */
    size_t length = placed_length(text, orr__scenario_of(L)->config.path);
    if (length > 0)
        snprintf(site, sizeof site, "%.*s", (int)length, text);
    return raise_at(L, status, site, length > 0 ? text + length + 2 : text);
}

/* The message of an error value that is no text. */
static const char *message_of(lua_State *L) {
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tostring(L, -1);
    return lua_isnil(L, -1) ? "error without a message" : "error with a value that is no text";
}

/* Lua cuts long paths in its own messages; ours have them whole. */
static const char *skip_short_source(const struct orr_scenario *scenario, const char *message) {
    size_t length = strlen(scenario->short_source);
    if (strncmp(message, scenario->short_source, length) == 0 && message[length] == ':')
        return message + length;
    return NULL;
}

enum orr_status orr__error_take(struct orr_scenario *scenario, lua_State *L, int lua_status,
                                struct orr_error *error) {
    char site[ORR__SITE_MAX];
    orr__site(L, site, sizeof site);
    const char *place = site[0] != '\0' ? site : scenario->config.path;
    if (lua_status == LUA_ERRMEM) {
        if (!scenario->memory_capped)
            return orr_error_set(error, ORR_NO_MEMORY, "%s: out of host memory", place);
        return orr_error_set(error, ORR_INVALID,
                             "%s: the scenario needs more than its limit of %llu bytes of memory",
                             place, (unsigned long long)scenario->lua_bytes_max);
    }
    const char *message = message_of(L);
    if (scenario->raised != ORR_OK && strcmp(message, scenario->raised_text) == 0)
        return orr_error_set(error, scenario->raised, "%s", message);
    const char *rest = skip_short_source(scenario, message);
    if (rest)
        return orr_error_set(error, ORR_INVALID, "%s%s", scenario->config.path, rest);
    return orr_error_set(error, ORR_INVALID, "%s: %s", place, message);
}

const char *orr__suggest(char *text, size_t size, const char *word, const char *const *names,
                         int count) {
    const char *nearest = orr_nearest_name(word, names, count);
    if (nearest) {
        snprintf(text, size, "; did you mean '%s'?", nearest);
        return text;
    }
    size_t used = (size_t)snprintf(text, size, "; known:");
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s %s", i > 0 ? "," : "", names[i]);
    return text;
}
