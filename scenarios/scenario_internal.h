/* What the files of the binding share; scenarios/scenario.h is the public face.
 *
 *     one lua_State, one coroutine per host
 *
 *     orr_scenario_run --- lua_resume ---> host 0 (the file itself)
 *            |      \----- lua_resume ---> host 1 (orrery.host)
 *            |                                |  s:sync() --> ORR_BLOCKED --> orr__finish yields
 *            '--- orr_runtime_next_host <-----'  and the scheduler resumes it when it is its turn
 *
 * Rules of the binding:
 *  1. A Lua error is a longjmp: between two API calls that can raise, nothing may be held that
 *     only C frees. Temporary memory is a Lua userdata.
 *  2. A function that acts on the runtime is written so that it can run twice: it reads its
 *     arguments, calls orr__caller, acts, and ends with orr__finish, which repeats the whole
 *     function after a block. Its arguments are the first `top` slots of its stack.
 *  3. Everything that raises goes through orr__raise*, so that the message has file and line of the
 *     scenario and the status survives pcall. */
#ifndef ORR_SCENARIOS_SCENARIO_INTERNAL_H
#define ORR_SCENARIOS_SCENARIO_INTERNAL_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "runtime/communicator.h"
#include "scenarios/scenario.h"

/* Longest time that one call can take (11 days), so that sums of them fit in int64; and longest
 * service of one command that the simulator can keep account of (2^42 ns, 1.2 hours). */
#define ORR__NS_MAX         INT64_C(1000000000000000)
#define ORR__SERVICE_NS_MAX ((INT64_C(1) << 42) - 1)

enum {
    ORR__SITE_MAX = 512,
    ORR__HOSTS_MAX = 65536,
    ORR__EXPECTATIONS_MAX = 1 << 20,
    ORR__WAITS_FOR_MAX = 80,
    ORR__STOP_KIND_MAX = 32,
    ORR__REASON_MAX = 512,
    ORR__STOP_ABOUT_MAX = 256,
    ORR__RECORDINGS_MAX = 256,
    ORR__POOLS = 24
};

/* Random numbers that operators drew, by the numbers of the draws: noted while a function runs, or
 * handed out again while it is repeated. */
struct orr__draws {
    struct orr__draws *outer; /* of the host: the functions around it */
    bool replays;
    int reference;     /* to the numbers, in the registry */
    uint64_t *numbers; /* Lua's memory */
    size_t count, capacity, next;
};

/* One host: a coroutine. */
struct orr__host {
    struct orr__draws *draws; /* of the innermost function that notes or repeats them; or NULL */
    lua_State *thread;        /* anchored in the registry */
    int anchor;
    uint32_t id;
    int64_t rank; /* as orrery.host counts; -1: the program */
    /* What it waits for from another host, "" if it doesn't; it then stands in a mailbox's list. */
    char waits_for[ORR__WAITS_FOR_MAX];
    uint32_t next_waiter; /* index + 1 of the host behind it there, 0: none */
    uint64_t farewell;    /* its last message, once it is done or parked: for who joins */
    bool done;
    bool
        parked; /* the program, in orrery.join: the runtime's host has ended, the coroutine waits */
};

struct orr_scenario {
    struct orr_scenario_config config;
    const struct orr_memory *memory;
    struct orr_runtime *runtime; /* during the run */
    lua_State *lua;
    int chunk;                     /* registry reference of the compiled file */
    char short_source[LUA_IDSIZE]; /* the path as it stands in Lua's own messages */
    uint64_t handle_count;         /* handles made so far: their order in pairs */
    uint32_t run;                  /* how often it has been rewound */
    uint32_t stream_count;         /* handles of streams that are kept, of all runs */
    uint64_t random_count;         /* random operators without a seed of their own so far */

    void *pools[ORR__POOLS]; /* of a scenario that repeats: free blocks of 16, 32, ... bytes */
    uint64_t lua_bytes, lua_bytes_max;
    bool memory_capped; /* an allocation was refused because of lua_bytes_max */
    uint64_t instructions, instructions_max;
    bool out_of_instructions;

    struct orr__host *hosts;
    size_t host_count, host_capacity;
    size_t running;       /* index into hosts */
    size_t live_count;    /* hosts that are not done */
    int64_t end_ns;       /* latest clock of a host that has ended */
    bool tracing;         /* a compiled function is being traced: calls can't yield */
    lua_State *playing;   /* that asked for gradients: where functions of the scenario run */
    int callbacks;        /* such functions that run, one within the other: calls can't yield */
    bool callback_failed; /* its error is on top of the stack */
    bool joining;         /* set by orrery.join just before it yields */
    bool blocked;         /* set by orr__finish just before it yields to the scheduler */

    /* Caller as the runtime knows it; a call from the same line is not announced again. */
    bool caller_known;
    uint32_t caller_host;
    char site[ORR__SITE_MAX];

    bool arguments_declared, arguments_wrong;

    /* Status of the last error that the binding raised, and its whole message: an error that
     * reaches the top with that message has that status, any other is ORR_INVALID. */
    enum orr_status raised;
    char raised_text[ORR_ERROR_TEXT_MAX];
    char stop_kind[ORR__STOP_KIND_MAX];   /* of the finding that ended the run; "" */
    char stop_about[ORR__STOP_ABOUT_MAX]; /* what it is about, the same in every order of calls */

    char stop_fix[ORR__STOP_ABOUT_MAX];

    struct orr_recording **recordings; /* that scenarios hold; owned */
    size_t recording_count, recording_capacity;

    int program;     /* reference to the coroutine of host 0; kept for the next run */
    bool silent;     /* calls are not told their lines */
    bool has_run;    /* since its creation: what never changes is in place */
    bool has_rawset; /* has called it, since it was rewound; only where it is run many times */

    struct orr_expectation *expectations; /* texts are owned */
    size_t expectation_count, expectation_capacity;
};

struct orr_scenario *orr__scenario_of(lua_State *L);

/* --- scenario.c --- */
/* Adds the host whose coroutine is on top of L, which it takes; `rank` -1 is the program's. */
enum orr_status orr__host_add(struct orr_scenario *scenario, lua_State *L, lua_State *thread,
                              uint32_t id, int64_t rank);

/* --- sandbox.c --- */
/* Frees what the pools of a closed state hold. */
void orr__pools_free(struct orr_scenario *scenario);
/* Creates the state with all libraries; NULL when out of memory. */
lua_State *orr__sandbox_open(struct orr_scenario *scenario);
/* A lua_CFunction: opens the libraries, called protected. */
int orr__sandbox_fill(lua_State *L);
/* Seeds math.random; called protected. */
void orr__sandbox_seed(lua_State *L, uint64_t seed);
/* Pushes a text for a value, without addresses. */
const char *orr__tostring(lua_State *L, int index);

/* A lua_CFunction: the keys of a table as an array, in the order of pairs. */
int orr__sorted_keys(lua_State *L);
/* Marks a coroutine as the scheduler's to resume, or no more so: coroutine.resume and close then
 * refuse it. Keep the coroutine alive meanwhile. */
void orr__coroutine_claim(lua_State *L, lua_State *thread, bool claimed);

/* --- repeat.c: scenarios that are run many times --- */
#define ORR__STREAMS "orrery.streams" /* tables in the registry that belong to one run */
#define ORR__MESHES  "orrery.meshes"
#define ORR__SCOPES  "orrery.scopes"
#define ORR__MODULES "orrery.modules"
/* Puts an empty table of globals in front of the one that is there, and guards before the tables of
 * the library. Called protected, before the program is compiled. */
void orr__repeat_open(lua_State *L);
/* Forgets what a run has left. Called protected. */
int orr__repeat_clear(lua_State *L);

/* --- errors.c --- */
/* "file:line" of the innermost frame in the scenario's file into `site`; "" if there is none. */
void orr__site(lua_State *L, char *site, size_t size);
/* The same for where a host has got to. */
void orr__host_site(const struct orr_scenario *scenario, size_t index, char *site, size_t size);
/* Raises "file:line: text"; never returns, and says int so that callers can return it. */
int orr__raise(lua_State *L, enum orr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Raises the runtime's error text for a failed call, and clears it. */
int orr__raise_runtime(lua_State *L, enum orr_status status);
/* Fills *error from the error value on top of L (a coroutine that failed, or the main state). */
enum orr_status orr__error_take(struct orr_scenario *scenario, lua_State *L, int lua_status,
                                struct orr_error *error);
/* "; did you mean 'x'?" for a near name, else "; known: a, b, c" into `text`; returns it. */
const char *orr__suggest(char *text, size_t size, const char *word, const char *const *names,
                         int count);

/* --- lua_mailbox.c --- */
/* True if a host waits for another one. */
bool orr__hosts_wait(const struct orr_scenario *scenario);
/* ORR_DEVICE_FAILED: nobody can go on; says which host is in which call, at which line. */
enum orr_status orr__hosts_hang(struct orr_scenario *scenario, struct orr_error *error);

/* --- calls.c: what acting functions begin and end with --- */
/* Announces host and site of the following runtime calls; raises where a block could not be
 * resumed. */
struct orr_scenario *orr__caller(lua_State *L);
/* The same for calls on streams and what is below: an error while a compiled function is traced,
 * which records operators only. */
struct orr_scenario *orr__stream_caller(lua_State *L);
/* Ends an acting function: its `results` on success, a yield and `again` if it is blocked, else an
 * error. */
int orr__finish(lua_State *L, enum orr_status status, int top, int results, lua_CFunction again);

/* --- draws.c: numbers of random operators without a seed of their own --- */
/* Notes or repeats the draws of a host's function, from push to pop. All zero but for `reference`,
 * LUA_NOREF: nothing noted yet. */
void orr__draws_push(struct orr__host *host, struct orr__draws *draws);
void orr__draws_pop(struct orr__host *host, struct orr__draws *draws);
void orr__draws_free(lua_State *L, struct orr__draws *draws);
/* The number of the running host's next draw, and that it has been taken. */
uint64_t orr__draw(lua_State *L);
void orr__drawn(lua_State *L, uint64_t number);

/* --- arguments.c: reading arguments and named ones --- */
/* Raises if the table at `index` has a key not among the names (ending with NULL). */
void orr__check_keys(lua_State *L, int index, const char *function, const char *const *names);
/* Values of a field; `wanted` is the default if the field is absent. All raise for another type. */
int64_t orr__field_integer(lua_State *L, int index, const char *function, const char *key,
                           int64_t min, int64_t max, int64_t wanted);
const char *orr__field_text(lua_State *L, int index, const char *function, const char *key,
                            const char *wanted);
bool orr__field_flag(lua_State *L, int index, const char *function, const char *key, bool wanted);
enum orr_dtype orr__dtype(lua_State *L, const char *what, const char *name);
enum orr_dtype orr__field_dtype(lua_State *L, int index, const char *function, const char *key,
                                enum orr_dtype wanted);
/* The value at `index`, which must be a whole number (also 1e9) within the bounds. */
int64_t orr__integer(lua_State *L, int index, const char *what, int64_t min, int64_t max);
double orr__number(lua_State *L, int index, const char *what);
/* A name of a list; raises with the nearest. Returns its index. */
int orr__choice(lua_State *L, const char *what, const char *word, const char *const *names,
                int count);
/* A buffer, or {buffer, lo, hi}: bytes lo <= offset < hi. */
struct orr_range orr__range(lua_State *L, int index, const char *what);

/* --- objects.c: userdata --- */
/* Makes the metatable of a kind from the table of its methods on top, which it takes: a text, and
 * an __index that names the nearest method. */
void orr__class(lua_State *L, const char *kind, lua_CFunction text);
/* Puts a table in front of the table of functions on top: unknown names and assignments are
 * errors. */
void orr__module_seal(lua_State *L, const char *name);
/* What a handle's userdata holds. */
struct orr__handle {
    void *pointer;    /* the runtime's object; NULL once freed */
    uint64_t serial;  /* order of creation */
    uint32_t number;  /* index of a device; of a stream, the run that it belongs to */
    const char *kind; /* whose address says enough where it is the same; if not, ask Lua */
};
/* Pushes a handle of a kind and returns it. */
struct orr__handle *orr__push_handle(lua_State *L, const char *kind, void *pointer);
/* The handle at `index`; raises for another type. */
struct orr__handle *orr__handle(lua_State *L, int index, const char *kind, const char *what);
/* The same, but NULL for another type. */
struct orr__handle *orr__handle_of(lua_State *L, int index, const char *kind);
/* True if the value is a handle of the kind. */
bool orr__is_handle(lua_State *L, int index, const char *kind);

#define ORR__MODULE       "orrery" /* the table of functions and fields, in the registry */
#define ORR__DEVICE       "orrery.device"
#define ORR__STREAM       "orrery.stream"
#define ORR__EVENT        "orrery.event"
#define ORR__BUFFER       "orrery.buffer"
#define ORR__COMMUNICATOR "orrery.communicator"
#define ORR__MAILBOX      "orrery.mailbox"

/* Functions that are methods of another file's class. */
int orr__device_stream(lua_State *L);
int orr__device_alloc(lua_State *L);
int orr__device_legacy(lua_State *L);
int orr__device_copy_sync(lua_State *L);
int orr__device_fill_sync(lua_State *L);
int orr__stream_alloc(lua_State *L);
int orr__buffer_role(lua_State *L);

/* The stream at `index`. */
struct orr_stream *orr__stream(lua_State *L, int index, const char *what);
/* The live buffer at `index`; raises for a freed one. */
struct orr_buffer *orr__buffer(lua_State *L, int index, const char *what);
/* Pushes a buffer's handle. */
void orr__push_buffer(lua_State *L, struct orr_buffer *buffer);

/* --- one file a subject: each makes its classes and adds its functions to the table on top --- */
void orr__open_orrery(lua_State *L);
void orr__open_streams(lua_State *L);
void orr__open_buffers(lua_State *L);
void orr__open_communicators(lua_State *L);
void orr__open_mailboxes(lua_State *L);
void orr__open_perturb(lua_State *L);
void orr__open_reports(lua_State *L);
extern const char orr__unending_fix[]; /* of a wait for a device */
/* A finding of severity error that ends the run, which fails with the same message. `about`: see
 * orr_scenario_stop_about. */
void orr__stop(struct orr_scenario *scenario, const char *kind, const char *about,
               const char *message, const char *fix);
void orr__open_expect(lua_State *L); /* to the table `expect` */

/* --- lua_recording.c --- */
/* Frees the recordings that are left. */
void orr__recordings_free(struct orr_scenario *scenario);

/* Index of the device whose handle is at `index`. */
uint32_t orr__device(lua_State *L, int index);

#endif
