/* Oracle hang: every rule with a program that hangs and one that does not, random programs against
 * a naive search of all states, and what findings say.
 *
 * ORR_TEST_SEED is the first seed; the command line's first argument is the number of random
 * programs instead of the usual one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/splitmix.h"
#include "tests/hang_naive.h"
#include "tests/hang_draw.h"
#include "tests/program_text.h"
#include "tests/support.h"

enum { STATES_MAX = 6000 };

static uint64_t random_count = 600;

/* --- rules --- */

#define TWO "option hang; stream a nb 0; stream b nb 1; comm c r0 r1;"
#define FOUR                                                                                       \
    "option hang; stream a0 nb 0; stream b0 nb 0; stream a1 nb 1; stream b1 nb 1;"                 \
    "comm A r0 r1; comm B r0 r1;"

/* If h gets past its esync before s has started, t may take the only slot and wait for what is
 * behind the partner of s. */
#define EARLY_START                                                                                \
    "option hang; option slots 1; stream s nb 0; stream t nb 0; stream s1 nb 1; stream a nb 2;"    \
    "stream a1 nb 3; comm c1 r0 r1; comm c2 r0 r1; comm c3 r0 r1; coll c3 x a rank=r0; rec e a;"   \
    "notify f; esync e; coll c2 x t rank=r0; ha: coll c1 x s rank=r0; h1: coll c1 x s1 rank=r1;"   \
    "h1: rec g s1; h1: coll c2 x s1 rank=r1; h1: esync g; h1: coll c3 x a1 rank=r1"

/* If h2 gets the lock early, t starts before s, and waits for what is behind the partner of s. */
#define LATE_START                                                                                 \
    "option hang; stream s nb 0; stream t nb 0; stream s1 nb 1; stream u nb 2; stream a1 nb 3;"    \
    "comm c1 r0 r1; comm c2 r0 r1; comm c3 r0 r1; coll c3 x u rank=r0; rec e u; wait t e;"         \
    "coll c2 x t rank=r0; coll c1 x s rank=r0; notify f; h1: coll c1 x s1 rank=r1;"                \
    "h1: coll c2 x s1 rank=r1; h2: lock x; h2: coll c3 x a1 rank=r1; h2: unlock x; h3: lock x;"    \
    "h3: await f; h3: unlock x;"

/* The same, where a host of its own calls what t starts: after a flag, or under a lock. */
#define LATE_CALL                                                                                  \
    "option hang; stream s nb 0; stream t nb 0; stream s1 nb 1; comm c1 r0 r1; comm c2 r0 r1;"     \
    "coll c1 x s rank=r0; coll c1 x s1 rank=r1; coll c2 x s1 rank=r1; notify f; h3: lock x;"       \
    "h3: await f; h3: unlock x; h1: await y;"
#define LATE_FLAG LATE_CALL "h1: coll c2 x t rank=r0; h2: lock x; h2: notify y; h2: unlock x;"
#define LATE_LOCK                                                                                  \
    LATE_CALL "h1: lock z; h1: coll c2 x t rank=r0; h1: unlock z; h2: lock z; h2: notify y;"       \
              "h2: lock x; h2: unlock x; h2: unlock z;"

/* A rule, a program that keeps it and one that does not. The first is `no-hang`. */
struct rule {
    const char *name, *good, *bad;
    enum orr_check_verdict_kind verdict; /* of the bad one */
};

static const struct rule rules[] = {
    {"one sequence of calls", TWO "r0: coll c x a; r1: coll c x b; r0: coll c y a; r1: coll c y b",
     TWO "r0: coll c x a; r0: coll c y a; r1: coll c y b; r1: coll c x b", ORR_CHECK_MISMATCH},
    {"one count", TWO "r0: coll c x a n=4; r1: coll c x b n=4",
     TWO "r0: coll c x a n=4; r1: coll c x b n=5", ORR_CHECK_MISMATCH},
    {"no call is missing", TWO "r0: coll c x a; r1: coll c x b", TWO "r0: coll c x a",
     ORR_CHECK_HANG},
    {"a rank that is not listed waits too",
     TWO "stream d nb 1; r0: coll c x a; r1: coll c x b; r2: coll c z d",
     TWO "stream d nb 1; r0: coll c x a; r2: coll c z d", ORR_CHECK_HANG},
    {"a mismatch counts before all have started",
     "option hang; stream a nb 0; stream b nb 1; stream d nb 1; comm c r0 r1 r2; r0: coll c x a;"
     "r1: coll c x b; r2: coll c x d",
     "option hang; stream a nb 0; stream b nb 1; comm c r0 r1 r2; r0: coll c x a; r1: coll c y b",
     ORR_CHECK_MISMATCH},
    {"messages that cross are grouped",
     TWO "r0: gs; r0: send c r1 a; r0: recv c r1 a; r0: ge; r1: gs; r1: send c r0 b;"
         "r1: recv c r0 b; r1: ge",
     TWO "r0: send c r1 a; r0: recv c r1 a; r1: send c r0 b; r1: recv c r0 b", ORR_CHECK_HANG},
    {"messages of one pair keep their order",
     TWO "r0: send c r1 a; r0: send c r1 a; r1: recv c r0 b; r1: recv c r0 b",
     TWO "r0: send c r1 a; r0: send c r1 a; r1: recv c r0 b", ORR_CHECK_HANG},
    {"a group that is not closed sends nothing", TWO "r0: gs; r0: coll c x a",
     TWO "r0: gs; r0: coll c x a; r1: coll c x b", ORR_CHECK_HANG},
    {"one host that launches for two ranks groups them",
     "option hang; stream a nb; comm c q r; gs; coll c x a rank=q; coll c x a rank=r; ge",
     "option hang; stream a nb; comm c q r; coll c x a rank=q; coll c x a rank=r", ORR_CHECK_HANG},
    {"groups nest",
     TWO "r0: gs; r0: gs; r0: send c r1 a; r0: ge; r0: recv c r1 a; r0: ge; r1: gs;"
         "r1: send c r0 b; r1: recv c r0 b; r1: ge",
     TWO "r0: gs; r0: send c r1 a; r0: ge; r0: gs; r0: recv c r1 a; r0: ge; r1: gs;"
         "r1: send c r0 b; r1: ge; r1: gs; r1: recv c r0 b; r1: ge",
     ORR_CHECK_HANG},
    {"slots for all, or one order",
     FOUR "option slots 2; r0: coll A x a0; r0: coll B x b0; r1: coll B x b1; r1: coll A x a1",
     FOUR "option slots 1; r0: coll A x a0; r0: coll B x b0; r1: coll A x a1; r1: coll B x b1",
     ORR_CHECK_HANG},
    {"events make an order for slots",
     FOUR "option slots 1; r0: coll A x a0; r0: rec e a0; r0: wait b0 e; r0: coll B x b0;"
          "r1: coll A x a1; r1: rec f a1; r1: wait b1 f; r1: coll B x b1",
     FOUR "option slots 1; r0: coll A x a0; r0: rec e a0; r0: wait b0 e; r0: coll B x b0;"
          "r1: coll B x b1; r1: rec f b1; r1: wait a1 f; r1: coll A x a1",
     ORR_CHECK_HANG},
    {"no host sync before what a partner needs",
     FOUR "r0: coll A x a0; r0: coll B x b0; r0: ssync a0; r1: coll B x b1; r1: coll A x a1;"
          "r1: ssync b1",
     FOUR "r0: coll A x a0; r0: ssync a0; r0: coll B x b0; r1: coll B x b1; r1: ssync b1;"
          "r1: coll A x a1",
     ORR_CHECK_HANG},
    {"a device's sync waits for all its streams",
     FOUR "r0: coll A x a0; r0: dsync 1; r1: coll A x a1; r1: dsync 1",
     FOUR "r0: coll A x a0; r0: dsync 0; r0: notify f; r1: await f; r1: coll A x a1",
     ORR_CHECK_HANG},
    {"a call that may block does",
     FOUR "r0: coll A x a0; r0: notify f; r1: await f;"
          "r1: coll A x a1; r0: isync 0",
     FOUR "r0: coll A x a0; r0: isync 0; r0: notify f; r1: await f; r1: coll A x a1",
     ORR_CHECK_HANG},
    {"an event stands for what was there",
     TWO "r0: rec e a; r0: coll c x a; r0: esync e;"
         "r0: notify f; r1: await f; r1: coll c x b",
     TWO "r0: coll c x a; r0: rec e a; r0: esync e; r0: notify f; r1: await f; r1: coll c x b",
     ORR_CHECK_HANG},
    {"an event recorded by another host may come first",
     TWO "r0: coll c x a; r1: coll c x b;"
         "r0: rec e a; r1: esync e",
     TWO "r0: coll c x a; r0: rec e a; r1: esync e; r1: coll c x b", ORR_CHECK_HANG},
    {"a record by another host may free a host before what it waited for is done", EARLY_START,
     EARLY_START "; hb: await f; hb: rec e a1", ORR_CHECK_HANG},
    {"a start that waits for a host, by way of streams, may still come first",
     LATE_START "option slots 2", LATE_START "option slots 1", ORR_CHECK_HANG},
    {"a start that waits for a flag may still come first", LATE_FLAG "option slots 2",
     LATE_FLAG "option slots 1", ORR_CHECK_HANG},
    {"a start that waits for a lock may still come first", LATE_LOCK "option slots 2",
     LATE_LOCK "option slots 1", ORR_CHECK_HANG},
    {"a later record does not touch a wait",
     TWO "r0: rec e a; r0: wait b e; r0: coll c x a; r0: rec e a; r1: coll c x b",
     TWO "r0: coll c x a; r0: rec e a; r0: wait b e; r0: rec e b; r1: coll c x b", ORR_CHECK_HANG},
    {"a wait in a group has no effect",
     TWO "r0: coll c x a; r0: rec e a; r0: waitign b e; r0: notify f; r1: await f; r1: coll c x b",
     TWO "r0: coll c x a; r0: rec e a; r0: wait b e; r0: notify f; r1: await f; r1: coll c x b",
     ORR_CHECK_HANG},
    {"the legacy stream waits for blocking streams, not for others",
     "option hang; stream L legacy 0; stream a nb 0; stream b nb 1; comm c r0 r1;"
     "r0: coll c x a; r0: k L; r0: ssync L; r0: notify f; r1: await f; r1: coll c x b",
     "option hang; stream L legacy 0; stream a bl 0; stream b nb 1; comm c r0 r1;"
     "r0: coll c x a; r0: k L; r0: ssync L; r0: notify f; r1: await f; r1: coll c x b",
     ORR_CHECK_HANG},
    {"blocking streams wait for the legacy stream",
     "option hang; stream L legacy 0; stream a nb 0; stream b nb 1; comm c r0 r1;"
     "r0: coll c x L; r0: k a; r0: ssync a; r0: notify f; r1: await f; r1: coll c x b",
     "option hang; stream L legacy 0; stream a ptds 0; stream b nb 1; comm c r0 r1;"
     "r0: coll c x L; r0: k a; r0: ssync a; r0: notify f; r1: await f; r1: coll c x b",
     ORR_CHECK_HANG},
    {"a queue holds what it holds",
     TWO "option depth 3; r0: coll c x a; r0: k a; r0: k a; r0: notify f; r1: await f;"
         "r1: coll c x b",
     TWO "option depth 2; r0: coll c x a; r0: k a; r0: k a; r0: notify f; r1: await f;"
         "r1: coll c x b",
     ORR_CHECK_HANG},
    {"a wait without effect needs no room",
     TWO "option depth 1; r0: coll c x a; r0: wait a e; r0: notify f; r1: await f; r1: coll c x b",
     TWO "option depth 1; r0: rec e b; r0: coll c x a; r0: wait a e; r0: notify f; r1: await f;"
         "r1: coll c x b",
     ORR_CHECK_HANG},
    {"a group needs room for all its entries",
     TWO "option depth 1; comm d r0; r0: gs; r0: coll d x a; r0: coll d x b; r0: ge",
     TWO "option depth 1; comm d r0; r0: coll c x a; r0: gs; r0: coll d x b; r0: coll d x a;"
         "r0: ge; r0: notify f; r1: await f; r1: coll c x b",
     ORR_CHECK_HANG},
    {"locks are taken in one order",
     "option hang; t: lock x; t: lock y; t: unlock y; t: unlock x; u: lock x; u: lock y;"
     "u: unlock y; u: unlock x",
     "option hang; t: lock x; t: lock y; t: unlock y; t: unlock x; u: lock y; u: lock x;"
     "u: unlock x; u: unlock y",
     ORR_CHECK_HANG},
    {"a lock that is held over a wait is not for who is waited for",
     "option hang; t: lock x; t: await f; t: unlock x; u: notify f; u: lock x; u: unlock x",
     "option hang; t: lock x; t: await f; t: unlock x; u: lock x; u: notify f; u: unlock x",
     ORR_CHECK_HANG},
    {"a lock is taken once", "option hang; lock x; unlock x; lock x", "option hang; lock x; lock x",
     ORR_CHECK_HANG},
    {"only the holder gives a lock back", "option hang; t: unlock x; u: lock x; u: unlock x",
     "option hang; t: lock x; u: unlock x; u: lock x", ORR_CHECK_HANG},
    {"host functions take locks, too",
     "option hang; stream s nb; hostfn s lock:x unlock:x; u: lock x; u: unlock x",
     "option hang; stream s nb; hostfn s lock:x lock:y unlock:y unlock:x; u: lock y; u: lock x",
     ORR_CHECK_HANG},
    {"a host function does not wait for its own stream",
     "option hang; stream s nb; stream t nb; k t; hostfn s sync_stream:t",
     "option hang; stream s nb; hostfn s sync_stream:s", ORR_CHECK_HANG},
    {"a host function that waits for a stream waits for all of it",
     "option hang; stream s nb; stream t nb; k t; hostfn s sync_stream:t; rec e s; k t",
     "option hang; stream s nb; stream t nb; k t; hostfn s sync_stream:t; rec e s; wait t e",
     ORR_CHECK_HANG},
    {"a flag is set by somebody", "option hang; t: await f; u: notify f",
     "option hang; t: await f; t: notify f", ORR_CHECK_HANG},
    {"who of two hosts of one rank gets which number matters to streams of one host, too",
     "option hang; option slots 1; stream a nb 0; stream b nb 1; stream d nb 1; comm c r0 r1;"
     "r0: coll c x a; h1: coll c x b rank=r1",
     "option hang; option slots 1; stream s0 nb 0; stream s1 nb 1; stream s3 nb 0; stream s4 nb 1;"
     "comm c r0 r1; h0: coll c x s0 rank=r0; h1: coll c x s1 n=2 rank=r1; h0: coll c x s4 rank=r1;"
     "h0: send c r1 s3 rank=r0; h1: recv c r0 s1 rank=r1",
     ORR_CHECK_MISMATCH},
    {"two hosts of one rank may swap their calls",
     "option hang; stream a nb; stream b nb; comm c r0; h1: coll c x a rank=r0;"
     "h2: coll c x b rank=r0",
     "option hang; stream a nb; stream b nb; comm c r0 r1; h1: coll c x a rank=r0;"
     "h2: coll c y a rank=r0; r1: coll c x b; r1: coll c y b",
     ORR_CHECK_MISMATCH},
};

static void judge(const char *name, const char *text, enum orr_check_verdict_kind expected) {
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(&memory, text);
    struct orr_check_verdict verdict;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    if (verdict.kind != expected)
        fail_msg("%s: %s instead of %s for %s", name, orr_check_verdict_text(verdict.kind),
                 orr_check_verdict_text(expected), text);
    assert_int_equal(verdict.op_a, ORR_NONE);
    assert_int_equal(verdict.op_b, ORR_NONE);
    assert_true((verdict.message != NULL) == orr_check_verdict_is_unsafe(expected));
    assert_true((verdict.fix != NULL) == orr_check_verdict_is_unsafe(expected));
    if (program->op_count <= NAIVE_OPS_MAX)
        assert_int_equal(naive_hangs(program, STATES_MAX), expected);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void every_rule_holds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        judge(rules[i].name, rules[i].good, ORR_CHECK_NO_HANG);
        judge(rules[i].name, rules[i].bad, rules[i].verdict);
    }
}

/* --- what is said --- */

static void expect_texts(const char *text, const char *message, const char *fix) {
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(&memory, text);
    struct orr_check_verdict verdict;
    assert_int_equal(orr_stream_program_check(program, NULL, &verdict), ORR_OK);
    assert_string_equal(verdict.message, message);
    assert_string_equal(verdict.fix, fix);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void a_hang_names_everybody_and_the_circle(void **state) {
    (void)state;
    expect_texts(
        FOUR "r0: coll A x a0; r0: ssync a0; r0: coll B x b0; r1: coll B x b1; r1: ssync b1;"
             "r1: coll A x a1",
        "they wait for each other: host r0 -> stream a0 -> host r1 -> stream b1 -> host r0\n"
        "host r0 is in op 1 'r0: ssync a0' and waits for stream a0, where op 0 'r0: coll A x a0' "
        "does not finish\n"
        "host r1 is in op 4 'r1: ssync b1' and waits for stream b1, where op 3 'r1: coll B x b1' "
        "does not finish\n"
        "stream a0: op 0 'r0: coll A x a0' has started and waits for rank r1's call number 1 of "
        "communicator A, op 5 'r1: coll A x a1', which host r1 does not get to\n"
        "stream b1: op 3 'r1: coll B x b1' has started and waits for rank r0's call number 1 of "
        "communicator B, op 2 'r0: coll B x b0', which host r0 does not get to\n"
        "rank r0 calls A, B\n"
        "rank r1 calls B, A",
        "move op 1 'r0: ssync a0' behind the calls that the other ranks wait for (checked: without "
        "it nothing hangs)");
}

static void a_hang_names_the_call_that_never_comes(void **state) {
    (void)state;
    expect_texts(
        TWO "r0: coll c x a; r1: coll c x b; r0: coll c x a",
        "nothing can help: stream a: op 2 'r0: coll c x a' has started and waits for rank r1's "
        "call number 2 of communicator c, which never comes: rank r1 makes only 1 such call\n"
        "stream a: op 2 'r0: coll c x a' has started and waits for rank r1's call number 2 of "
        "communicator c, which never comes: rank r1 makes only 1 such call",
        "let rank r1 make the call that is missing, the partner of op 2 'r0: coll c x a' (checked: "
        "with it at the end of host r1 nothing hangs); or leave that one out");
}

static void a_mismatch_names_both_calls(void **state) {
    (void)state;
    expect_texts(
        TWO "r0: coll c x a n=8; r0: coll c y a; r1: coll c y b; r1: coll c x b n=8",
        "call number 1 of communicator c is not the same for all: rank r0 x, count 8 (op 0 "
        "'r0: coll c x a n=8'); rank r1 y, count 1 (op 2 'r1: coll c y b')\n"
        "rank r0: x n=8, y\n"
        "rank r1: y, x n=8",
        "make the calls of communicator c in the same order on ranks r0 and r1: call number 1 of "
        "rank r1 would be op 3 'r1: coll c x b n=8'");
}

static void more_room_and_more_slots_are_counted(void **state) {
    (void)state;
    expect_texts(TWO "option depth 2; r0: coll c x a; r0: k a; r0: k a; r0: k a; r0: notify f;"
                     "r1: await f; r1: coll c x b",
                 "they wait for each other: host r0 -> stream a -> host r1 -> host r0\n"
                 "host r0 is in op 2 'r0: k a' and waits for room (queue_depth 2) in stream a, "
                 "where op 0 'r0: coll c x a' does not finish\n"
                 "host r1 is in op 5 'r1: await f' and waits for flag f, which host r0 would set "
                 "in op 4 'r0: notify f'\n"
                 "stream a: op 0 'r0: coll c x a' has started and waits for rank r1's call number "
                 "1 of communicator c, op 6 'r1: coll c x b', which host r1 does not get to",
                 "make the call that a partner needs before the queue is full; or use queues of 4 "
                 "entries (checked: then nothing hangs)");
}

static void calls_of_one_host_are_grouped(void **state) {
    (void)state;
    expect_texts("option hang; stream a nb; stream b nb; comm c q r; coll c x a rank=q; ssync a;"
                 "coll c x b rank=r",
                 "they wait for each other: host h -> stream a -> host h\n"
                 "host h is in op 1 'ssync a' and waits for stream a, where op 0 'coll c x a "
                 "rank=q' does not finish\n"
                 "stream a: op 0 'coll c x a rank=q' has started and waits for rank r's call "
                 "number 1 of communicator c, op 2 'coll c x b rank=r', which host h does not get "
                 "to",
                 "put the communication of a host in one group (group_start before its first, "
                 "group_end after its last): host h (checked: then nothing hangs)");
}

/* --- limits --- */

static void it_gives_up_where_it_was_told_to(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(
        &memory, "option hang; stream s nb; comm c h; h0: coll c x s rank=h; h1: hostfn s lock:l;"
                 "h2: hostfn s lock:l unlock:l; h3: rec e s; h2: esync e; h1: ssync s");
    struct orr_check_limits limits = {.states_max = 2};
    struct orr_check_verdict verdict;
    assert_int_equal(orr_stream_program_check(program, &limits, &verdict), ORR_OK);
    assert_int_equal(verdict.kind, ORR_CHECK_UNKNOWN);
    assert_non_null(strstr(verdict.message, "gave up after"));
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void check_with_failures(struct memory_counting *memory, void *context) {
    (void)context;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i += 3) {
        struct orr_memory plain = orr_memory_system();
        struct orr_stream_program *program = stream_program_of(&plain, rules[i].bad);
        program->memory = &memory->table;
        struct orr_check_verdict verdict;
        enum orr_status status = orr_stream_program_check(program, NULL, &verdict);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        if (status == ORR_OK) {
            assert_int_equal(verdict.kind, rules[i].verdict);
            assert_non_null(verdict.message);
            assert_non_null(verdict.fix);
            assert_non_null(verdict.data);
        }
        orr_check_verdict_clear(&verdict);
        program->memory = &plain;
        orr_stream_program_destroy(&program);
    }
}

static void memory_may_be_missing_everywhere(void **state) {
    (void)state;
    assert_true(fail_each_request(check_with_failures, NULL) > 100);
}

/* --- random programs --- */

static void agree(uint64_t seed, uint64_t counts[ORR_CHECK_VERDICT_COUNT]) {
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = hang_draw(&memory, seed);
    enum orr_check_verdict_kind expected = naive_hangs(program, STATES_MAX);
    struct orr_hang_result result;
    assert_int_equal(orr_hangs_find(program, 0, &result), ORR_OK);
    counts[expected]++;
    if (expected != ORR_CHECK_UNKNOWN && result.kind != expected) {
        for (uint32_t i = 0; i < program->op_count; i++) {
            char text[128];
            orr_stream_op_short(program, i, text, sizeof text);
            print_message("# %u %s\n", i, text);
        }
        fail_msg("seed %llu: %s, but %s in all states", (unsigned long long)seed,
                 orr_check_verdict_text(result.kind), orr_check_verdict_text(expected));
    }
    if (orr_check_verdict_is_unsafe(result.kind)) {
        const char *wrong = naive_replay(program, &result);
        if (wrong)
            fail_msg("seed %llu: the schedule of a %s: %s", (unsigned long long)seed,
                     orr_check_verdict_text(result.kind), wrong);
    }
    orr_hang_result_clear(&result);
    orr_stream_program_destroy(&program);
}

static void random_programs_hang_as_in_all_states(void **state) {
    (void)state;
    uint64_t counts[ORR_CHECK_VERDICT_COUNT] = {0}, seed = random_seed(1);
    for (uint64_t i = 0; i < random_count; i++)
        agree(orr_splitmix_at(seed, i), counts);
    print_message("# %llu hang, %llu mismatch, %llu no-hang, %llu too large\n",
                  (unsigned long long)counts[ORR_CHECK_HANG],
                  (unsigned long long)counts[ORR_CHECK_MISMATCH],
                  (unsigned long long)counts[ORR_CHECK_NO_HANG],
                  (unsigned long long)counts[ORR_CHECK_UNKNOWN]);
}

int main(int argc, char **argv) {
    if (argc > 1)
        random_count = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_holds),
        cmocka_unit_test(a_hang_names_everybody_and_the_circle),
        cmocka_unit_test(a_hang_names_the_call_that_never_comes),
        cmocka_unit_test(a_mismatch_names_both_calls),
        cmocka_unit_test(more_room_and_more_slots_are_counted),
        cmocka_unit_test(calls_of_one_host_are_grouped),
        cmocka_unit_test(it_gives_up_where_it_was_told_to),
        cmocka_unit_test(memory_may_be_missing_everywhere),
        cmocka_unit_test(random_programs_hang_as_in_all_states),
    };
    return cmocka_run_group_tests_name("hangs", tests, NULL, NULL);
}
