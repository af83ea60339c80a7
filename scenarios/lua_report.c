/* What libraries say about the scenario that uses them: where it is, and why it can't go on.
 *
 *     orrery.site()   orrery.stop{ kind =, message =, fix =, about = } */
#include <stdio.h>

#include "scenarios/scenario_internal.h"

const char orr__unending_fix[] = "enqueue what is waited for, or see to it that it can end";

void orr__stop(struct orr_scenario *scenario, const char *kind, const char *about,
               const char *message, const char *fix) {
    snprintf(scenario->stop_kind, sizeof scenario->stop_kind, "%s", kind);
    snprintf(scenario->stop_about, sizeof scenario->stop_about, "%s", about);
    snprintf(scenario->stop_fix, sizeof scenario->stop_fix, "%s", fix);
    orr_runtime_finding(scenario->runtime, kind, "error", 0, 0, 0, message, fix);
}

void orr_scenario_blame(struct orr_scenario *scenario, const struct orr_error *error) {
    if (!scenario->stop_kind[0] && error->status == ORR_DEVICE_FAILED &&
        orr_runtime_hung(scenario->runtime))
        orr__stop(scenario, "hang", "", error->text, orr__unending_fix);
}

const char *orr_scenario_stopped(const struct orr_scenario *scenario) {
    return scenario->stop_kind[0] ? scenario->stop_kind : NULL;
}

const char *orr_scenario_stop_about(const struct orr_scenario *scenario) {
    return scenario->stop_about;
}

const char *orr_scenario_stop_fix(const struct orr_scenario *scenario) {
    return scenario->stop_fix;
}

/* "file:line" of the innermost call in the scenario's own file. */
static int orrery_site(lua_State *L) {
    char site[ORR__SITE_MAX];
    orr__site(L, site, sizeof site);
    lua_pushstring(L, site);
    return 1;
}

/* A finding that ends the run: exit code 4, and the trace is kept. `about` says what it is about in
 * words that are the same in every order of calls, which those of the message need not be. */
static int orrery_stop(lua_State *L) {
    static const char *const keys[] = {"kind", "message", "fix", "about", NULL};
    lua_settop(L, 1);
    luaL_checktype(L, 1, LUA_TTABLE);
    orr__check_keys(L, 1, "stop", keys);
    const char *kind = orr__field_text(L, 1, "stop", "kind", "stopped");
    const char *message = orr__field_text(L, 1, "stop", "message", "the scenario stopped");
    const char *fix = orr__field_text(L, 1, "stop", "fix", "");
    const char *about = orr__field_text(L, 1, "stop", "about", message);
    orr__stop(orr__scenario_of(L), kind, about, message, fix);
    return orr__raise(L, ORR_DEVICE_FAILED, "%s", message);
}

void orr__open_reports(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"site", orrery_site}, {"stop", orrery_stop}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
