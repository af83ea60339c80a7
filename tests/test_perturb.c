/* Perturbations and faults of simulated devices: their texts, what each does, and what they leave
 * alone. tests/test_perturbed.py runs whole scenarios under them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/perturb.h"
#include "sim/sim.h"
#include "tests/scenario_play.h"

/* --- texts --- */

static void a_text_is_read_and_written(void **state) {
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"", ""},
        {"jitter=0.25", "jitter=0.25"},
        {" jitter=.5 ", NULL},
        {"seed=18446744073709551615;host_jitter=0.5", "seed=18446744073709551615 host_jitter=0.5"},
        {"straggler=by:1.5,device:3", "straggler=device:3,by:1.5"},
        {"straggler=by:0.5,name:gemm,device:0", "straggler=device:0,name:gemm,by:0.5"},
        {"slow_link=device:0,peer:host,by:10,at:2us", "slow_link=device:0,peer:host,at:2000,by:10"},
        {"memory=bytes:2MiB", "memory=bytes:2097152"},
        {"delay=name:matmul,ns:1ms,nth:2", "delay=name:matmul,nth:2,ns:1000000"},
        {"jitter=0.1 jitter=0.2", "jitter=0.2"},
        {"lose_rank=rank:1,at:5 lose_rank=at:6", "lose_rank=rank:1,at:5 lose_rank=at:6"},
        {"allocator=adversarial", "allocator=adversarial"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr_perturb perturb = {0};
        struct orr_error error = {0};
        char text[ORR_PERTURB_TEXT_MAX];
        enum orr_status status = orr_perturb_parse(&perturb, cases[i].text, &error);
        assert_int_equal(status, cases[i].written ? ORR_OK : ORR_INVALID);
        if (cases[i].written)
            assert_string_equal(orr_perturb_text(&perturb, text, sizeof text), cases[i].written);
    }
}

static void a_wrong_text_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"jiter=0.1", "perturb: unknown key 'jiter'; did you mean 'jitter'?"},
        {"jitter", "perturb: expected KEY=VALUE, got 'jitter'"},
        {"jitter=1", "perturb: jitter: expected a share from 0 to below 1, got '1'"},
        {"jitter=-0.1", "perturb: jitter: expected a share from 0 to below 1, got '-0.1'"},
        {"jitter=device:3", "perturb: jitter: expected a share from 0 to below 1, got 'device:3'"},
        {"straggler=3", "perturb: straggler: expected fields NAME:VALUE, got '3'"},
        {"straggler=device:3", "perturb: straggler: expected by"},
        {"straggler=devic:3",
         "perturb: unknown field of straggler 'devic'; did you mean 'device'?"},
        {"straggler=device:1,device:2,by:2", "perturb: straggler: device is there twice"},
        {"straggler=device:1,by:0",
         "perturb: straggler: by: expected a factor above 0, at most 1000000, got '0'"},
        {"late_rank=ns:5y", "perturb: late_rank: ns: expected a time, as in 2000 or 2us, got '5y'"},
        {"late_rank=ns:9999999999999s",
         "perturb: late_rank: ns: expected a time, as in 2000 or 2us, got '9999999999999s'"},
        {"fail_alloc=device:0,nth:0",
         "perturb: fail_alloc: nth: expected a number from 1, got '0'"},
        {"device_error=device:0,nth:1,at:5", "perturb: device_error: expected nth or at"},
        {"delay=ns:5", "perturb: delay: expected a name, a stream or a device"},
        {"delay=name:,ns:5", "perturb: delay: name: expected a name of 1 to 63 bytes, got ''"},
        {"seed=x", "perturb: seed: expected a whole number, got 'x'"},
        {"allocator=evil", "perturb: allocator: expected caching or adversarial, got 'evil'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct orr_perturb perturb = {0};
        struct orr_error error = {0};
        assert_int_equal(orr_perturb_parse(&perturb, cases[i].text, &error), ORR_INVALID);
        assert_string_equal(error.text, cases[i].message);
    }
}

static void there_are_at_most_so_many_rules(void **state) {
    (void)state;
    struct orr_perturb perturb = {0};
    struct orr_error error = {0};
    for (int i = 0; i < ORR_PERTURB_RULES_MAX; i++)
        assert_int_equal(orr_perturb_parse(&perturb, "lose_rank=at:1", &error), ORR_OK);
    assert_int_equal(orr_perturb_parse(&perturb, "lose_rank=at:1", &error), ORR_INVALID);
    assert_string_equal(error.text, "perturb: more than 64 rules");
}

static void rules_are_given_in_lua_too(void **state) {
    (void)state;
    expect_failure("orrery.perturb{ jiter = 0.1 }",
                   "demo.lua:1: orrery.perturb: unknown key 'jiter'; did you mean 'jitter'?");
    expect_failure(
        "orrery.perturb{ straggler = { device = 0, by = 'x' } }",
        "demo.lua:1: orrery.perturb: straggler: by: expected a factor above 0, at most 1000000, "
        "got 'x'");
    expect_failure("orrery.perturb{ straggler = { device = 7, by = 2 } }",
                   "demo.lua:1: perturb: straggler: there is no device 7; this run has 2, counted "
                   "from 0");
    expect_failure("orrery.perturb{ slow_link = { device = 1, peer = 1, by = 2 } }",
                   "demo.lua:1: perturb: slow_link: device 1 has no link to itself");
    expect_failure("orrery.perturb{ 0.1 }",
                   "demo.lua:1: orrery.perturb: expected names, as in { jitter = 0.1 }");
    expect_failure("orrery.perturb{ jitter = -0.5 }",
                   "demo.lua:1: orrery.perturb: jitter: expected a share from 0 to below 1, got "
                   "'below 0'");
    expect_failure("orrery.perturb{ jitter = true }",
                   "demo.lua:1: orrery.perturb: jitter: expected a number or a short text, got "
                   "boolean");
    expect_failure("local a = orrery.device(0):alloc(4)\norrery.perturb{ jitter = 0.5 }",
                   "demo.lua:2: perturb: comes before the first call to a device");
    expect_printed("orrery.perturb{ late_rank = {{ ns = 1e3 }, { rank = 1, ns = 5 }} }\n"
                   "orrery.perturb'late_rank=ns:2us'\n"
                   "print(orrery.now())",
                   "3000\n");
}

/* --- what each does: a program over two devices, two streams and a collective --- */

static const char program[] =
    "local p = ...\n"
    "local c = orrery.communicator{}\n"
    "local s, k, a, h = {}, {}, {}, {}\n"
    "for i = 0, 1 do\n"
    "    local d = orrery.device(i)\n"
    "    s[i], k[i] = d:stream('compute'), d:stream('side')\n"
    "    a[i], h[i] = d:alloc(4096, 'a'), orrery.host_alloc(4096, 'h')\n"
    "    s[i]:kernel{ name = 'produce', writes = {a[i]}, ns = 10000 }\n"
    "    k[i]:wait(s[i]:record())\n"
    "    k[i]:kernel{ name = 'change', reads = {a[i]}, writes = {a[i]}, ns = 10000 }\n"
    "end\n"
    "c:all_reduce{ input = {a[0], a[1]}, streams = {k[0], k[1]}, count = 1024 }\n"
    "for i = 0, 1 do\n"
    "    k[i]:copy{ to = h[i], from = a[i] }\n"
    "end\n"
    "for i = 0, 1 do k[i]:sync() end\n"
    "print(h[0]:f32(3), h[1]:f32(1023))\n";

/* Plays the program on two devices under rules. */
static void play_perturbed(struct play *play, const char *rules, char *text, size_t size) {
    snprintf(text, size, "orrery.perturb'%s' %s", rules, program + sizeof "local p = ..." - 1);
    play_prepare(play, text, 2);
    play_run(play);
}

static void numbers_don_t_depend_on_time(void **state) {
    (void)state;
    static const char *const rules[] = {
        "jitter=0.9",
        "host_jitter=0.9",
        "straggler=device:1,by:7",
        "straggler=device:1,by:0.1,at:15us",
        "slow_link=device:0,peer:1,by:100",
        "slow_link=device:1,peer:host,by:100",
        "late_rank=ns:1ms",
        "stall_host=ns:3us",
        "stall_host=ns:1ms,nth:4",
        "delay=name:produce,ns:1ms",
        "delay=stream:side,ns:20us,nth:2",
        "delay=device:1,ns:50us",
        "allocator=adversarial",
        "jitter=0.5 host_jitter=0.5 straggler=device:0,by:3 delay=device:1,ns:5us"};
    char text[4096], plain[sizeof((struct play *)0)->printed];
    struct play play;
    play_perturbed(&play, "", text, sizeof text);
    assert_int_equal(play.status, ORR_OK);
    memcpy(plain, play.printed, sizeof plain);
    play_end(&play);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int seed = 0; seed < 10; seed++) {
            char seeded[256];
            snprintf(seeded, sizeof seeded, "%s seed=%d", rules[i], seed);
            play_perturbed(&play, seeded, text, sizeof text);
            if (play.status != ORR_OK || strcmp(play.printed, plain) != 0)
                fail_msg("%s: %s%s", seeded, play.error.text, play.printed);
            play_end(&play);
        }
}

static void faults_end_the_run_and_say_so(void **state) {
    (void)state;
    static const struct {
        const char *rules, *message;
    } cases[] = {
        {"device_error=device:1,nth:1",
         "demo.lua:8: produce: device 1 failed it (perturb device_error=device:1,nth:1)"},
        {"device_error=device:0,nth:3",
         "demo.lua:12: all_reduce: device 0 failed it (perturb device_error=device:0,nth:3)"},
        {"device_error=device:1,at:15us",
         "demo.lua:8: produce: device 1 failed it (perturb device_error=device:1,at:15000)"},
        {"fail_link=device:0,peer:1",
         "demo.lua:12: all_reduce: a link of device 0 failed at 0 ns (perturb "
         "fail_link=device:0,peer:1)"},
        {"fail_link=device:1,peer:host",
         "demo.lua:14: copy: a link of device 1 failed at 0 ns (perturb "
         "fail_link=device:1,peer:host)"},
        {"lose_link=device:0,peer:1",
         "hang: the host waits for command 4 of stream 1 of device 0, which is at 'all_reduce' at "
         "demo.lua:12, which never ends: a link of device 0 was lost at 0 ns (perturb "
         "lose_link=device:0,peer:1)"},
        {"lose_device=device:1,at:1us",
         "device 1 was lost at 1000 ns (perturb lose_device=device:1,at:1000)"},
        {"lose_rank=at:2us",
         "demo.lua:9: the program was lost at 2000 ns (perturb lose_rank=at:2000)"},
        {"fail_alloc=device:1,nth:1",
         "demo.lua:7: device 1 (test) is out of memory: asked for 4096 bytes, 0 used (0 reserved), "
         "capacity 1073741824: an allocation found no memory (perturb fail_alloc=device:1,nth:1); "
         "largest live buffers: none"},
        {"memory=device:0,bytes:4095",
         "demo.lua:7: device 0 (test) is out of memory: asked for 4096 bytes, 0 used (0 reserved), "
         "capacity 3584: its capacity was lowered (perturb memory=device:0,bytes:4095); largest "
         "live buffers: none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        struct play play;
        play_perturbed(&play, cases[i].rules, text, sizeof text);
        assert_string_not_equal(cases[i].message, "");
        if (!strstr(play.error.text, cases[i].message))
            fail_msg("%s:\n%s", cases[i].rules, play.error.text);
        assert_true(play.status == ORR_DEVICE_FAILED || play.status == ORR_DEVICE_MEMORY);
        assert_non_null(orr_runtime_fault(play.fixture.runtime));
        play_end(&play);
    }
}

/* --- ranks --- */

static const char ranks[] = "local spmd = require 'spmd'\n"
                            "local world = spmd.world{}\n"
                            "orrery.host(function(rank)\n"
                            "    local me, d = world:rank(rank), orrery.device(rank)\n"
                            "    local a = d:alloc(4096, 'a')\n"
                            "    d:stream('communicate'):kernel{ name = 'p', writes = {a} }\n"
                            "    for i = 1, 3 do me:all_reduce{ input = a } end\n"
                            "    d:sync()\n"
                            "    print(rank)\n"
                            "end)\n";

static void play_ranks(struct play *play, const char *rules, char *text, size_t size) {
    snprintf(text, size, "orrery.perturb'%s' %s", rules, ranks);
    play_prepare(play, text, 3);
    play_run(play);
}

static void a_late_rank_is_waited_for(void **state) {
    (void)state;
    char text[2048];
    struct play play;
    play_ranks(&play, "late_rank=rank:1,ns:5ms", text, sizeof text);
    assert_int_equal(play.status, ORR_OK);
    assert_true(orr_runtime_now(play.fixture.runtime) > 5000000);
    play_end(&play);
}

static void a_lost_rank_is_named(void **state) {
    (void)state;
    for (int at_ns = 0; at_ns < 60000; at_ns += 1500) {
        char text[2048], rules[64], named[64];
        struct play play;
        snprintf(rules, sizeof rules, "lose_rank=rank:2,at:%d", at_ns);
        snprintf(named, sizeof named, "rank 2 was lost at %d ns", at_ns);
        play_ranks(&play, rules, text, sizeof text);
        if (play.status == ORR_OK) { /* it had made its last call */
            assert_non_null(strstr(play.printed, "2\n"));
            assert_true(at_ns > 0);
        } else if (!strstr(play.error.text, "hang") || !strstr(play.error.text, named)) {
            fail_msg("%s: %s%s", rules, play.error.text, fixture_error(&play.fixture));
        }
        play_end(&play);
    }
}

static void every_call_of_a_host_can_stall(void **state) {
    (void)state;
    for (int nth = 1; nth < 12; nth++) {
        char text[2048], rules[64];
        struct play play;
        snprintf(rules, sizeof rules, "stall_host=rank:0,nth:%d,ns:2ms", nth);
        play_ranks(&play, rules, text, sizeof text);
        assert_int_equal(play.status, ORR_OK);
        assert_true(orr_runtime_now(play.fixture.runtime) > 2000000);
        play_end(&play);
    }
}

static void clocks_stop_at_the_end_of_time(void **state) {
    (void)state;
    struct play play;
    play_prepare(&play,
                 "orrery.perturb{ stall_host = { ns = 10^15 } }\n"
                 "local s = orrery.device(0):stream('compute')\n"
                 "for i = 1, 3000 do s:kernel{ name = 'k' } end\n"
                 "print(orrery.now() >= 1 << 61, orrery.now() < (1 << 61) + 10^9)\n",
                 1);
    play_run(&play);
    assert_string_equal(play.printed, "true\ttrue\n");
    play_end(&play);
}

/* --- what a race shows --- */

static void a_delay_makes_a_race_show(void **state) {
    (void)state;
    /* The consumer is enqueued long after the producer: without a delay it reads what is there. */
    static const char race[] =
        "local d = orrery.device(0)\n"
        "local s, c = d:stream('compute'), d:stream('side')\n"
        "local a, b = d:alloc(64, 'a'), d:alloc(64, 'b')\n"
        "local h = orrery.host_alloc(64)\n"
        "s:kernel{ name = 'produce', writes = {a}, ns = 1000 }\n"
        "orrery.spend(100000)\n"
        "c:kernel{ name = 'consume', reads = {a}, writes = {b}, ns = 1000 }\n"
        "c:copy{ to = h, from = b } c:sync() s:sync()\n"
        "print(h:f32(0) == h:f32(0))\n";
    char text[2048];
    expect_printed(race, "true\n");
    snprintf(text, sizeof text, "orrery.perturb'delay=name:produce,ns:200us' %s", race);
    expect_printed(text, "false\n");
    snprintf(text, sizeof text, "orrery.perturb'delay=stream:compute,ns:200us' %s", race);
    expect_printed(text, "false\n");
}

/* --- the adversarial allocator --- */

static void freed_bytes_are_handed_out_first(void **state) {
    (void)state;
    /* a, b and c lie side by side; b is freed last, so that the next one of its size gets its
     * bytes, although there is room before it. */
    static const char text[] = "orrery.perturb{ allocator = 'adversarial' }\n"
                               "local d = orrery.device(0)\n"
                               "local s, k = d:stream('compute'), d:stream('side')\n"
                               "local a, b, c = d:alloc(512), d:alloc(512), d:alloc(512)\n"
                               "local h, right = orrery.host_alloc(512), orrery.host_alloc(512)\n"
                               "s:kernel{ name = 'p', writes = {b}, ns = 1000 }\n"
                               "s:copy{ to = right, from = b }\n"
                               "k:wait(s:record())\n"
                               "k:kernel{ name = 'slow', ns = 50000 }\n"
                               "k:copy{ to = h, from = b }\n"
                               "a:free() b:free()\n"
                               "local n = d:alloc(512)\n"
                               "s:kernel{ name = 'q', writes = {n}, ns = 1000 }\n"
                               "d:sync()\n"
                               "print(h:f32(0) == right:f32(0), d:memory().reuse_count)\n";
    /* what k reads was freed under it: wrong numbers, here and now */
    expect_printed(text, "false\t1\n");
}

static void a_recorded_stream_keeps_its_bytes(void **state) {
    (void)state;
    static const char text[] = "orrery.perturb{ allocator = 'adversarial' }\n"
                               "local d = orrery.device(0)\n"
                               "local s, k = d:stream('compute'), d:stream('side')\n"
                               "local b, h = d:alloc(512), orrery.host_alloc(512)\n"
                               "s:kernel{ name = 'p', writes = {b}, ns = 1000 }\n"
                               "k:wait(s:record())\n"
                               "k:kernel{ name = 'slow', ns = 50000 }\n"
                               "k:copy{ to = h, from = b }\n"
                               "b:record_stream(k) b:free()\n"
                               "local n = d:alloc(512)\n"
                               "s:kernel{ name = 'q', writes = {n}, ns = 1000 }\n"
                               "d:sync()\n"
                               "print(h:f32(0) == h:f32(0))\n";
    expect_printed(text, "true\n");
}

/* --- CPU threads --- */

/* Plays a text on two CPU devices. */
static void play_on_threads(struct play *play, const char *text) {
    play_prepare(play, text, 2);
    play->fixture.config.open = orr_cpu_open;
    play_run(play);
}

static void threads_rest_and_fail(void **state) {
    (void)state;
    struct play play;
    play_on_threads(&play, "orrery.perturb'delay=name:k,nth:2,ns:30ms'\n"
                           "local s = orrery.device(0):stream('compute')\n"
                           "for i = 1, 3 do s:kernel{ name = 'k' } end\n"
                           "s:sync() print(orrery.now() >= 30000000)");
    assert_string_equal(play.printed, "true\n");
    play_end(&play);
    play_on_threads(&play, "orrery.perturb'device_error=device:1,nth:2'\n"
                           "local s = orrery.device(1):stream('compute')\n"
                           "for i = 1, 3 do s:kernel{ name = 'k' } end\n"
                           "s:sync()");
    assert_int_equal(play.status, ORR_DEVICE_FAILED);
    if (!strstr(play.error.text, "k: device 1 failed it (perturb device_error=device:1,nth:2)"))
        fail_msg("%s", play.error.text);
    play_end(&play);
    play_on_threads(&play, "orrery.perturb{ jitter = 0.5 }");
    assert_int_equal(play.status, ORR_UNSUPPORTED);
    assert_string_equal(play.error.text, "demo.lua:1: perturb: CPU devices have no jitter");
    play_end(&play);
}

/* --- memory of the host --- */

static void run_perturbed(struct memory_counting *memory, void *context) {
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = *(const struct orr_runtime_config *)context;
    struct orr_runtime *runtime;
    struct orr_perturb perturb = {0};
    struct orr_error error = {0};
    config.memory = &memory->table;
    config.specs = specs;
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    assert_int_equal(orr_perturb_parse(&perturb,
                                       "jitter=0.5 delay=name:k,ns:5 device_error=device:0,nth:2 "
                                       "allocator=adversarial",
                                       &error),
                     ORR_OK);
    if (orr_runtime_perturb(runtime, &perturb) == ORR_OK) {
        struct orr_buffer *a = NULL, *b = NULL;
        struct orr_stream *stream = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
        if (stream && orr_buffer_alloc(stream, 512, "a", &a) == ORR_OK &&
            orr_buffer_alloc(stream, 512, "b", &b) == ORR_OK) {
            orr_buffer_free(&a);
            if (orr_buffer_alloc(stream, 256, "a", &a) == ORR_OK)
                orr_buffer_free(&a);
        }
        (void)!orr_runtime_finish(runtime);
    }
    orr_runtime_destroy(&runtime);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct orr_runtime_config config = {.open = orr_sim_open, .device_count = 2};
    (void)fail_each_request(run_perturbed, &config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_read_and_written),
        cmocka_unit_test(a_wrong_text_is_named),
        cmocka_unit_test(there_are_at_most_so_many_rules),
        cmocka_unit_test(rules_are_given_in_lua_too),
        cmocka_unit_test(numbers_don_t_depend_on_time),
        cmocka_unit_test(faults_end_the_run_and_say_so),
        cmocka_unit_test(a_late_rank_is_waited_for),
        cmocka_unit_test(a_lost_rank_is_named),
        cmocka_unit_test(every_call_of_a_host_can_stall),
        cmocka_unit_test(clocks_stop_at_the_end_of_time),
        cmocka_unit_test(a_delay_makes_a_race_show),
        cmocka_unit_test(freed_bytes_are_handed_out_first),
        cmocka_unit_test(a_recorded_stream_keeps_its_bytes),
        cmocka_unit_test(threads_rest_and_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
