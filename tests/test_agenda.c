/* The agenda against a list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/agenda.h"
#include "tests/support.h"

enum { DEVICES_MAX = 1000, STEPS = 20000 };

/* The earliest event by (time, class, device). */
static const struct orr__event *earliest(const struct orr__event *events, uint32_t count) {
    const struct orr__event *found = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].time_ns != INT64_MAX &&
            (!found || events[i].time_ns < found->time_ns ||
             (events[i].time_ns == found->time_ns && events[i].order < found->order)))
            found = &events[i];
    return found;
}

static void compare(const struct orr__agenda *agenda, const struct orr__event *events,
                    uint32_t count) {
    const struct orr__event *top = orr__agenda_top(agenda), *expected = earliest(events, count);
    assert_true((top == NULL) == (expected == NULL));
    if (!top)
        return;
    assert_int_equal(top->time_ns, expected->time_ns);
    assert_int_equal(orr__event_device(top), orr__event_device(expected));
    assert_int_equal(orr__event_class(top), orr__event_class(expected));
}

/* Few different times, so that ties are the rule; a third of the calls removes. */
static void play(uint32_t count) {
    struct orr_memory memory = orr_memory_system();
    struct orr__agenda agenda;
    static struct orr__event events[DEVICES_MAX];
    uint64_t random = count;
    assert_int_equal(orr__agenda_open(&agenda, count, &memory), ORR_OK);
    for (uint32_t i = 0; i < count; i++)
        events[i].time_ns = INT64_MAX;
    compare(&agenda, events, count);
    for (int step = 0; step < STEPS; step++) {
        uint32_t device = (uint32_t)random_below(&random, count);
        enum orr__event_class class = (enum orr__event_class)random_below(&random, 3);
        int64_t time_ns = random_below(&random, 3) ? (int64_t)random_below(&random, 50) : INT64_MAX;
        uint32_t soon = orr__agenda_set(&agenda, device, time_ns, class);
        events[device] = (struct orr__event){(uint64_t) class << 32 | device, time_ns};
        assert_true(soon == UINT32_MAX || events[soon].time_ns != INT64_MAX);
        if (step % (1 + (int)count / 10) == 0)
            compare(&agenda, events, count);
    }
    orr__agenda_close(&agenda);
}

static void the_earliest_event_comes_first_whatever_the_number_of_devices(void **state) {
    (void)state;
    const uint32_t counts[] = {1, 2, 3, 7, 16, 17, 127, 128, 129, 300, DEVICES_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        play(counts[i]);
}

static void of_events_at_one_time_the_class_then_the_device_decides(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr__agenda agenda;
    assert_int_equal(orr__agenda_open(&agenda, 3, &memory), ORR_OK);
    (void)orr__agenda_set(&agenda, 0, 5, ORR__EVENT_START);
    (void)orr__agenda_set(&agenda, 2, 5, ORR__EVENT_FINISH);
    (void)orr__agenda_set(&agenda, 1, 5, ORR__EVENT_FINISH);
    const uint32_t expected[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        uint32_t device = orr__event_device(orr__agenda_top(&agenda));
        assert_int_equal(device, expected[i]);
        (void)orr__agenda_set(&agenda, device, INT64_MAX, ORR__EVENT_FINISH);
    }
    assert_null(orr__agenda_top(&agenda));
    orr__agenda_close(&agenda);
}

/* With many devices, an event is announced before it is the earliest of all, if not when it is set
 * then when the ones before it go. */
static void every_event_is_announced_before_it_comes(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr__agenda agenda;
    static bool announced[DEVICES_MAX];
    uint64_t random = 7;
    uint32_t unannounced = 0;
    assert_int_equal(orr__agenda_open(&agenda, DEVICES_MAX, &memory), ORR_OK);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        (void)orr__agenda_set(&agenda, i, 1000 + (int64_t)random_below(&random, 1000),
                              ORR__EVENT_FINISH);
    memset(announced, 0, sizeof announced);
    for (int step = 0; step < STEPS; step++) {
        struct orr__event top = *orr__agenda_top(&agenda);
        uint32_t device = orr__event_device(&top);
        unannounced += step >= 2 * DEVICES_MAX && !announced[device];
        announced[device] = false;
        uint32_t soon = orr__agenda_set(&agenda, device,
                                        top.time_ns + 1000 + (int64_t)random_below(&random, 100),
                                        ORR__EVENT_FINISH);
        announced[soon] = true;
    }
    assert_int_equal(unannounced, 0);
    orr__agenda_close(&agenda);
}

static void opening_fails_without_memory_and_leaves_nothing(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 1);
    struct orr__agenda agenda;
    assert_int_equal(orr__agenda_open(&agenda, 8, &memory.table), ORR_NO_MEMORY);
    assert_int_equal(memory.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_event_comes_first_whatever_the_number_of_devices),
        cmocka_unit_test(of_events_at_one_time_the_class_then_the_device_decides),
        cmocka_unit_test(every_event_is_announced_before_it_comes),
        cmocka_unit_test(opening_fails_without_memory_and_leaves_nothing),
    };
    return cmocka_run_group_tests_name("agenda", tests, NULL, NULL);
}
