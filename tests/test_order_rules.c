/* The rules of happens-before, each as a program that keeps it and one that breaks it; the
 * situations that the event handler of PyTorch's sanitizer is tested with; those of CuSan's
 * tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "hazards/order.h"
#include "tests/order_naive.h"
#include "tests/program_text.h"

#define SAFE   ORR_CHECK_NO_RACE, -1, -1
#define RACE   ORR_CHECK_RACE
#define FREED  ORR_CHECK_USE_AFTER_FREE
#define EARLY  ORR_CHECK_USE_BEFORE_ALLOC
#define BROKEN ORR_CHECK_INVALID, -1, -1

struct known {
    const char *name, *program;
    enum orr_check_verdict_kind kind;
    int op_a, op_b;
};

static const struct known rules[] = {
    {"1 a stream is in order", "k s w:A; k s r:A w:B; k s w:A", SAFE},
    {"1 two streams are not", "k s w:A; k t r:A", RACE, 0, 1},
    {"1 nor on two devices", "stream s nb 0; stream t nb 1; k s w:A; k t w:A", RACE, 0, 1},
    {"2 legacy waits for blocking", "stream L legacy; stream b bl; k b w:A; k L r:A", SAFE},
    {"2 blocking waits for legacy", "stream L legacy; stream b bl; k L w:A; k b r:A", SAFE},
    {"2 through legacy", "stream L legacy; stream b bl; stream c bl; k b w:A; k L w:B; k c r:A",
     SAFE},
    {"2 not without work between", "stream L legacy; stream b bl; stream c bl; k b w:A; k c r:A",
     RACE, 0, 1},
    {"2 a wait in legacy is a barrier too",
     "stream L legacy; stream b bl; stream c bl; rec e n; k b w:A; wait L e; k c r:A", SAFE},
    {"2 a record in legacy is none",
     "stream L legacy; stream b bl; stream c bl; k b w:A; rec e L; k c r:A", RACE, 0, 2},
    {"2 a wait without content is none",
     "stream L legacy; stream b bl; stream c bl; k b w:A; wait L e; k c r:A", RACE, 0, 2},
    {"2 other device", "stream L legacy 0; stream b bl 1; k b w:A; k L r:A", RACE, 0, 1},
    {"3 non-blocking, before", "stream L legacy; stream n nb; k n w:A; k L r:A", RACE, 0, 1},
    {"3 non-blocking, after", "stream L legacy; stream n nb; k L w:A; k n r:A", RACE, 0, 1},
    {"4 per-thread default", "stream L legacy; stream p ptds; k p w:A; k L w:A; k p w:A", SAFE},
    {"4 two threads", "stream p ptds; stream q ptds; k p w:A; k q w:A", RACE, 0, 1},
    {"5 sync of legacy", "stream L legacy; stream b bl; k b w:A; ssync L; hr A", SAFE},
    {"5 covers no non-blocking stream", "stream L legacy; k n w:A; ssync L; hr A", RACE, 0, 2},
    {"5 sync of blocking", "stream L legacy; stream b bl; k L w:A; k b w:B; ssync b; hr A", SAFE},
    {"5 even without work there", "stream L legacy; stream b bl; k L w:A; ssync b; hr A", SAFE},
    {"5 sync of another", "k s w:A; ssync t; hr A", RACE, 0, 2},
    {"6 destroyed stream", "k s w:A; sdestroy s; screate t; k t r:A", RACE, 0, 3},
    {"7 stream query", "k s w:A; sqok s; hr A", SAFE},
    {"7 event query", "k s w:A; rec e s; qok e; hr A", SAFE},
    {"8 device sync", "stream s nb 1; k s w:A; dsync 1; hr A", SAFE},
    {"8 of another device", "stream s nb 1; stream t nb 0; k s w:A; dsync 0; hr A", RACE, 0, 2},
    {"8 after an event of another device",
     "stream s nb 1; stream u nb 1; stream v nb 0; k s w:B; rec e s; esync e; wait u e; x: k v w:A;"
     "dsync 0; k u r:A",
     SAFE},
    {"9 record, then work", "k s w:B; rec e s; k s w:A; wait t e; k t r:A", RACE, 2, 4},
    {"9 what came before", "k s w:A; rec e s; k s w:B; wait t e; k t r:A", SAFE},
    {"9 in legacy", "stream L legacy; stream b bl; k b w:A; rec e L; wait n e; k n r:A", SAFE},
    {"10 overwritten", "k s w:A; rec e s; rec e t; wait u e; k u r:A", RACE, 0, 4},
    {"10 after the wait", "k s w:A; rec e s; wait u e; rec e t; k u r:A", SAFE},
    {"11 never recorded", "k s w:A; wait t e; rec e s; k t r:A", RACE, 0, 3},
    {"11 sync of it", "k s w:A; esync e; hr A", RACE, 0, 2},
    {"12 only what follows", "k s w:A; rec e s; k t r:A; wait t e", RACE, 0, 2},
    {"12 across devices", "stream s nb 0; stream t nb 1; k s w:A; rec e s; wait t e; k t r:A",
     SAFE},
    {"14 destroyed after the wait", "k s w:A; rec e s; wait t e; edestroy e; k t r:A", SAFE},
    {"14 before it", "k s w:A; rec e s; edestroy e; wait t e; k t r:A", RACE, 0, 4},
    {"14 created anew", "k s w:A; rec e s; ecreate e; esync e; hr A", RACE, 0, 4},
    {"15 host before", "buffer H pinned; hw H; cp s A<H", SAFE},
    {"15 host after", "buffer H pinned; cp s A<H; hw H", RACE, 0, 1},
    {"15 inherited", "k s w:A; ssync s; k t r:A", SAFE},
    {"15 not by another host", "k s w:A; ssync s; x: k t r:A", RACE, 0, 2},
    {"15 unless it is told", "k s w:A; ssync s; notify f; x: await f; x: k t r:A", SAFE},
    {"15 hosts race", "hw A; x: hw A", RACE, 0, 1},
    {"15 told before", "notify f; hw A; x: await f; x: hw A", RACE, 1, 3},
    {"15 a later notify", "hw A; notify f; x: notify f; y: await f; y: hr A", RACE, 0, 4},
    {"16 pageable up, the host goes on", "stream L legacy; buffer H pageable; cpsync A<H; hw H",
     SAFE},
    {"16 pageable up, the write is pending",
     "stream L legacy; buffer H pageable; cpsync A<H; k n r:A", RACE, 0, 1},
    {"16 pinned up", "stream L legacy; buffer H pinned; cpsync A<H; k n r:A", SAFE},
    {"16 down", "stream L legacy; buffer H pageable; cpsync H<A; hr H", SAFE},
    {"16 down does not wait for others",
     "stream L legacy; buffer H pageable; k n w:A; cpsync H<A; hr H", RACE, 0, 1},
    {"16 device to device", "stream L legacy; cpsync B<A; hr B", RACE, 0, 1},
    {"16 host to host", "stream L legacy; buffer H pageable; buffer I pinned; cpsync I<H; hr I",
     SAFE},
    {"16 waits for the stream first",
     "stream L legacy; stream b bl; buffer H pageable; k b w:H; cpsync A<H", SAFE},
    {"17 asynchronous host to host", "buffer H pageable; buffer I pinned; cp s I<H; hw H; hr I",
     SAFE},
    {"17 strict", "buffer H pageable; cp s A<H; hw H", RACE, 0, 1},
    {"17 staged", "option staged; buffer H pageable; cp s A<H; hw H", SAFE},
    {"17 staged does not wait", "option staged; buffer H pageable; k s w:H; cp s A<H", RACE, 0, 1},
    {"17 staged writes later", "option staged; buffer H pageable; cp s A<H; hr A", RACE, 0, 1},
    {"17 staged down is none", "option staged; buffer H pageable; cp s H<A; hr H", RACE, 0, 1},
    {"17 staged and aliased", "option staged; buffer H pageable; alias D H; cp s D<H; hr H", FREED,
     1, 2},
    {"18 memset, device", "stream L legacy; mssync A; hr A", RACE, 0, 1},
    {"18 memset, pinned", "stream L legacy; buffer A pinned; mssync A; hr A", SAFE},
    {"18 memset, managed", "stream L legacy; buffer A managed; mssync A; hr A", SAFE},
    {"18 memset, pageable", "stream L legacy; buffer A pageable; mssync A; hr A", RACE, 0, 1},
    {"19 a free orders nothing", "k s w:A; ssync s; cfree A; k s w:B; hr B", RACE, 3, 4},
    {"21 free of memory in use", "k s w:A; cfree A", FREED, 0, 1},
    {"21 after a sync", "k s w:A; ssync s; cfree A", SAFE},
    {"21 host memory in use", "buffer H pinned; cp s A<H; hfree H", FREED, 0, 1},
    {"21 earliest use", "k s w:A; rec e s; esync e; k t r:A; k u r:A; cfree A", FREED, 3, 5},
    {"21 two users", "k t r:A; k u r:A; ssync u; cfree A", FREED, 0, 3},
    {"22 managed", "buffer M managed; k s w:M; hr M", RACE, 0, 1},
    {"22 managed, synced", "buffer M managed; k s w:M; ssync s; hr M", SAFE},
    {"23 use after allocation", "malloca X s; k s w:X; freea X s", SAFE},
    {"23 on another stream", "malloca X s; k t w:X", EARLY, 0, 1},
    {"23 ordered", "malloca X s; rec e s; wait t e; k t w:X; rec g t; wait s g; freea X s", SAFE},
    {"23 free before the use ended", "malloca X s; rec e s; wait t e; k t w:X; freea X s", FREED, 3,
     4},
    {"23 free before the allocation", "malloca X s; freea X t", EARLY, 0, 1},
    {"23 use after the free", "malloca X s; freea X s; k s r:X", FREED, 1, 2},
    {"23 allocation before the free", "malloca X s; freea X s; k t r:X", EARLY, 0, 2},
    {"23 host", "buffer X managed; malloca X s; hw X", EARLY, 0, 1},
    {"24 reuse is ordered", "malloca X s; k s w:X; freea X s; malloca Y t reuse=X; k t w:Y", SAFE},
    {"24 only on its stream", "malloca X s; k s w:X; freea X s; malloca Y t reuse=X; k s w:Y",
     EARLY, 3, 4},
    {"25 reuse in the stream", "alloc A s; k s w:A; free A; alloc B s reuse=A; k s w:B", SAFE},
    {"25 used elsewhere", "alloc A s; k t w:A; free A; alloc B s reuse=A; k s w:B", FREED, 1, 4},
    {"25 recorded", "alloc A s; k t w:A; rs A t; free A; alloc B s reuse=A; k s w:B", SAFE},
    {"25 what counts is the free", "alloc A s; rs A t; k t w:A; free A; alloc B s reuse=A; k s w:B",
     SAFE},
    {"25 another stream recorded", "alloc A s; k t w:A; rs A u; free A; alloc B s reuse=A; k s w:B",
     FREED, 1, 5},
    {"25 joined back", "alloc A s; k t w:A; rec e t; wait s e; free A; alloc B s reuse=A; k s w:B",
     SAFE},
    {"25 joined back too late",
     "alloc A s; k t w:A; rec e t; free A; alloc B s reuse=A; k s w:B; wait s e", FREED, 1, 5},
    {"25 between hosts", "hw A; free A; x: alloc B s reuse=A; x: hw B", SAFE},
    {"25 a view of the end", "alloc A s; free A; k s r:A", FREED, 1, 2},
    {"26 host function", "hostfn s w:A; k s r:A; ssync s; hr A", SAFE},
    {"26 it is no host", "hostfn s w:A; hr A", RACE, 0, 1},
    {"32 a collective returns at once", "coll c allreduce s r:A w:A; hw A", RACE, 0, 1},
    {"32 and is in its stream", "k s w:A; coll c allreduce s r:A w:A; k s r:A", SAFE},
    {"34 a wait in a group", "gs; k s w:A; rec e s; waitign t e; ge; k t r:A", RACE, 1, 5},
    {"35 a group is no barrier",
     "gs; coll c allreduce s r:A w:B; coll d allreduce t r:C w:D; ge; k t r:B", RACE, 1, 4},
    {"36 send and receive", "k s w:A; send c 1 s r:A; recv c 1 s w:B; k s r:B w:A", SAFE},
    {"38 one communicator", "option serial; coll c x s w:A; coll c x t r:A", SAFE},
    {"38 without it", "coll c x s w:A; coll c x t r:A", RACE, 0, 1},
    {"38 two communicators", "option serial; coll c x s w:A; coll d x t r:A", RACE, 0, 1},
    {"38 two hosts", "option serial; coll c x s w:A; z: coll c x t r:A", RACE, 0, 1},
    {"38 orders no later work", "option serial; coll c x s r:B; coll c x t r:B; k s w:A; k t r:A",
     RACE, 2, 3},
    {"43 in place", "coll c allgather s r:A[0:8] w:A", SAFE},
};

static const struct known ranges[] = {
    {"disjoint", "k s w:A[0:4]; k t w:A[4:8]", SAFE},
    {"by one", "k s w:A[0:5]; k t w:A[4:8]", RACE, 0, 1},
    {"next to an old part", "k s w:A[4:8]; k t w:A[0:4]; k t r:A[4:8]", RACE, 0, 2},
    {"inside", "k s w:A[0:100]; k t r:A[40:41]", RACE, 0, 1},
    {"whole and part", "k s w:A[7:8]; k t r:A", RACE, 0, 1},
    {"part and whole", "k s w:A; k t r:A[7:8]", RACE, 0, 1},
    {"empty", "k s w:A; k t w:A[5:5]; k t w:A[9:3]", SAFE},
    {"empty buffer", "buffer A empty; k s w:A; k t w:A; hw A; cfree A", SAFE},
    {"an old part under newer ones", "k s w:A[0:8]; rec e s; wait t e; k t w:A[0:4]; k u r:A[4:6]",
     RACE, 0, 4},
    {"readers", "k s r:A; k t r:A; hr A", SAFE},
    {"all readers count", "k s r:A; k t r:A; rec e t; wait u e; k u w:A", RACE, 0, 4},
    {"the earliest counts", "k s r:A; k s r:A; k s w:B; k t w:A", RACE, 0, 3},
    {"reads before writes", "k s w:A; k s w:B; k t r:B w:A", RACE, 1, 2},
    {"in the order listed", "k s w:A; k s w:B; k t r:A r:B", RACE, 0, 2},
    {"an operation is no conflict with itself", "k s r:A w:A w:A[0:4]", SAFE},
};

static const struct known names[] = {
    {"alias", "buffer H pinned; alias D H; hw H; k s r:D; hw H", FREED, 2, 3},
    {"alias, synced", "buffer H pinned; alias D H; hw H; k s r:D; ssync s; hw H", SAFE},
    {"an alias outlives", "alias D H; cfree H; k s r:D", SAFE},
    {"alias of what has ended", "cfree H; alias D H; k s w:D", SAFE},
    {"alias of an alias", "alias D H; alias E D; k s w:E; k t r:H", FREED, 2, 3},
    {"alias of itself", "k s w:A; alias A A; k t r:A", RACE, 0, 2},
    {"touched before", "k s w:A; alloc A s; k t w:A", SAFE},
    {"touched before, then freed", "k s w:A; alloc A s; cfree A", SAFE},
    {"touched before, aliased", "k s w:A; alias B A; alloc A s; k t w:A; k t w:B", FREED, 0, 4},
    {"handed on twice",
     "alloc A s; k s w:A; free A; alloc B s reuse=A; free B; alloc C s reuse=B; k t w:C", FREED, 1,
     6},
    {"introduced twice", "alloc A s; alloc A s", BROKEN},
    {"introduced after its end", "free A; alloc A s", BROKEN},
    {"ended twice", "alloc A s; free A; free A", BROKEN},
    {"ended twice, otherwise", "cfree A; hfree A", BROKEN},
    {"freed as it was not allocated", "alloc A s; freea A s", BROKEN},
    {"freed before it is allocated", "freea A s; malloca A s", BROKEN},
    {"reuse of the living", "alloc A s; alloc B s reuse=A", BROKEN},
    {"reuse of the unknown", "alloc B s reuse=A", BROKEN},
    {"reuse of another kind", "malloca A s; freea A s; alloc B s reuse=A", BROKEN},
    {"reuse twice", "alloc A s; free A; alloc B s reuse=A; alloc C s reuse=A", BROKEN},
    {"await without notify", "await f; notify f", BROKEN},
    {"malformed after the finding", "k s w:A; k t w:A; await f", RACE, 0, 1},
    {"malformed before the finding", "k s w:A; await f; k t w:A", BROKEN},
    {"malformed at the finding", "k s w:A; free A; cfree A; k t w:A", BROKEN},
};

static const struct known event_handler[] = {
    {"nothing", "", SAFE},
    {"reads pass", "k s r:A; k t r:A", SAFE},
    {"read and write", "k s r:A; k t w:A", RACE, 0, 1},
    {"simple sync", "k s r:A; rec e s; wait t e; k t w:A", SAFE},
    {"reads check the last write", "k s w:A; rec e s; wait t e; k t r:A; k u r:A", RACE, 0, 4},
    {"branch", "k a w:A; rec e a; wait b e; wait c e; k b r:A; k c r:A w:A", RACE, 4, 5},
    {"chain of ten",
     "k s0 w:A; rec e0 s0; wait s1 e0; rec e1 s1; wait s2 e1; rec e2 s2; wait s3 e2; rec e3 s3;"
     "wait s4 e3; rec e4 s4; wait s5 e4; rec e5 s5; wait s6 e5; rec e6 s6; wait s7 e6; rec e7 s7;"
     "wait s8 e7; rec e8 s8; wait s9 e8; k s9 w:A",
     SAFE},
    {"expired record", "k s r:B; rec e s; k s r:A; wait t e; k t w:A", RACE, 2, 4},
    {"deleted record", "k s w:A; rec e s; edestroy e; ecreate e; wait t e; k t r:A", RACE, 0, 5},
    {"all reads checked, fail", "k s r:A; k t r:A; rec e s; wait u e; k u w:A", RACE, 1, 4},
    {"all reads checked, pass", "k s r:A; k t r:A; rec e s; rec g t; wait u e; wait u g; k u w:A",
     SAFE},
    {"several errors", "k s w:A w:B; k t r:A r:B w:A", RACE, 0, 1},
    {"states merge",
     "k s w:A; rec e s; k t w:B; rec g t; wait u e; wait u g; rec i u; wait v i; k v r:A r:B",
     SAFE},
    {"record overridden", "k s w:A; rec e s; k s w:B; rec e s; wait t e; k t r:B", SAFE},
    {"one wait of several", "k s w:A; rec e s; k s w:B; rec g s; wait t e; k t r:A; k t r:B", RACE,
     2, 6},
};

static const struct known cusan[] = {
    {"02 event", "buffer M managed; k s w:M; rec e s; hr M", RACE, 0, 2},
    {"02 event, synced", "buffer M managed; k s w:M; rec e s; esync e; hr M", SAFE},
    {"03 device to send", "buffer M managed; k s w:M; x: hr M", RACE, 0, 1},
    {"04 receive to device", "buffer M managed; x: hw M; notify f; x: await f; k s r:M", RACE, 0,
     3},
    {"04 waited for", "buffer M managed; x: hw M; x: notify f; await f; k s r:M", SAFE},
    {"07 two readers", "buffer M managed; k s r:M; hr M", SAFE},
    {"15 memset orders blocking streams",
     "stream L legacy; stream a bl; stream b bl; k a w:A; mssync B; k b r:A", SAFE},
    {"15 but not others", "stream L legacy; k a w:A; mssync B; k b r:A", RACE, 0, 2},
    {"17 query loop", "buffer M managed; k s w:M; sqok s; hr M", SAFE},
    {"19 host copy on legacy",
     "stream L legacy; stream a bl; buffer H pageable; buffer I pageable; buffer M managed;"
     "k a w:M; cp L I<H; hr M",
     SAFE},
    {"19 of a non-blocking stream",
     "stream L legacy; stream a nb; buffer H pageable; buffer I pageable; buffer M managed;"
     "k a w:M; cp L I<H; hr M",
     RACE, 0, 2},
    {"21 chunks", "k a w:A[0:4]; k b w:A[4:8]; k c w:A[8:12]; k a r:A[0:4]; k c r:A[8:12]", SAFE},
    {"22 other half", "buffer M managed; k s w:M[50:100]; hr M[0:50]", SAFE},
    {"23 after legacy work",
     "stream L legacy; stream s bl; buffer M managed; k L w:M; k s r:B;"
     "ssync s; hr M",
     SAFE},
    {"23 non-blocking",
     "stream L legacy; stream s nb; buffer M managed; k L w:M; k s r:B;"
     "ssync s; hr M",
     RACE, 0, 3},
    {"23 device sync",
     "stream L legacy; stream s nb; buffer M managed; k L w:M; k s r:B;"
     "dsync 0; hr M",
     SAFE},
    {"25 two syncs",
     "stream L legacy; stream s bl; stream t bl; buffer M managed; k s w:M;"
     "k L r:B; k t r:B; ssync t; hr M",
     SAFE},
    {"27 synchronous copy",
     "stream L legacy; stream s bl; buffer H pageable; k s w:A;"
     "cpsync H<B; hr A",
     SAFE},
    {"31 event sync", "k s w:A; rec e s; esync e; k t w:A", SAFE},
    {"32 async copy", "k s w:A; cp t B<A", RACE, 0, 1},
    {"33 wait event", "k s w:A; rec e s; wait t e; cp t B<A", SAFE},
    {"multi 01", "stream s nb 1; stream t nb 0; buffer M managed; k s w:M; dsync 0; hr M", RACE, 0,
     2},
    {"multi 02", "stream s nb 0; buffer M managed; k s w:M; rec e s; esync e; hr M", SAFE},
};

static void judge(const struct known *known, size_t count) {
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < count; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, known[i].program);
        struct orr_check_verdict verdict, naive = order_naive(program);
        assert_int_equal(orr_check_order(program, &verdict), ORR_OK);
        if (verdict.kind != known[i].kind || (int)verdict.op_a != known[i].op_a ||
            (int)verdict.op_b != known[i].op_b)
            fail_msg("%s: %s [%d, %d], expected %s [%d, %d]: %s", known[i].name,
                     orr_check_verdict_text(verdict.kind), (int)verdict.op_a, (int)verdict.op_b,
                     orr_check_verdict_text(known[i].kind), known[i].op_a, known[i].op_b,
                     verdict.message ? verdict.message : "");
        assert_int_equal(naive.kind, known[i].kind);
        assert_int_equal((int)naive.op_a, known[i].op_a);
        if (orr_check_verdict_is_unsafe(verdict.kind)) {
            assert_non_null(verdict.message);
            assert_non_null(verdict.fix);
        }
        orr_check_verdict_clear(&verdict);
        orr_stream_program_destroy(&program);
    }
}

#define JUDGE(table) judge(table, sizeof table / sizeof *table)

static void every_rule_orders_what_it_says_and_no_more(void **state) {
    (void)state;
    JUDGE(rules);
}

static void ranges_conflict_where_they_meet(void **state) {
    (void)state;
    JUDGE(ranges);
}

static void names_live_end_and_share_blocks(void **state) {
    (void)state;
    JUDGE(names);
}

static void the_situations_of_an_event_handler(void **state) {
    (void)state;
    JUDGE(event_handler);
}

static void the_situations_of_a_compiler_based_detector(void **state) {
    (void)state;
    JUDGE(cusan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_orders_what_it_says_and_no_more),
        cmocka_unit_test(ranges_conflict_where_they_meet),
        cmocka_unit_test(names_live_end_and_share_blocks),
        cmocka_unit_test(the_situations_of_an_event_handler),
        cmocka_unit_test(the_situations_of_a_compiler_based_detector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
