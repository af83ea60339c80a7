/* Machines as data: the built-in ones, machine files, and the SPEC of --devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/spec.h"
#include "runtime/cpu/cpu.h"
#include "scenarios/machine.h"
#include "sim/sim.h"
#include "tests/support.h"

static struct orr_machine *load(struct memory_counting *memory, const char *name) {
    struct orr_error error = {0};
    struct orr_machine *machine;
    enum orr_status status = orr_machine_load(name, &memory->table, &machine, &error);
    if (status != ORR_OK)
        print_message("%s\n", error.text);
    assert_int_equal(status, ORR_OK);
    return machine;
}

static void every_built_in_machine_loads_and_names_its_sources(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    const char *name;
    int count = 0;
    for (; (name = orr_machine_name(count)) != NULL; count++) {
        struct orr_machine *machine = load(&memory, name);
        assert_string_equal(machine->spec.name, name);
        assert_true(machine->figure_count >= 10);
        assert_true(strlen(machine->note) > 10);
        for (size_t i = 0; i < machine->figure_count; i++) {
            assert_true(strlen(machine->figures[i].source) > 8);
            assert_true(strlen(machine->figures[i].source) < ORR_MACHINE_SOURCE_MAX - 1);
            assert_true(machine->figures[i].value[0] != '\0');
        }
        assert_true(machine->spec.memory_bytes > 0 && machine->spec.bandwidth > 0);
        assert_true(orr_device_spec_peak(&machine->spec, ORR_UNIT_MATRIX, ORR_DTYPE_BF16) > 0);
        orr_machine_destroy(&machine);
    }
    assert_true(count >= 12);
    assert_int_equal(memory.live, 0);
}

static void built_in_machines_are_in_alphabetical_order(void **state) {
    (void)state;
    for (int i = 1; orr_machine_name(i); i++)
        assert_true(strcmp(orr_machine_name(i - 1), orr_machine_name(i)) < 0);
    assert_null(orr_machine_name(-1));
}

static void the_teaching_machine_has_round_figures_only(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_machine *machine = load(&memory, "teaching");
    const struct orr_device_spec *spec = &machine->spec;
    assert_true(spec->bandwidth == 2000000000000);
    for (int unit = 0; unit < 2; unit++)
        for (enum orr_dtype dtype = ORR_DTYPE_F64; dtype <= ORR_DTYPE_BF16; dtype++)
            assert_true(spec->peak[unit][dtype] == 500000000000000);
    assert_int_equal(orr_curve_at(&spec->matrix_efficiency, 1000), ORR_PPM);
    assert_int_equal(orr_curve_at(&spec->memory_efficiency, 1000), ORR_PPM);
    assert_int_equal(spec->kernel_fixed_ns, 0);
    assert_int_equal(spec->launch_latency_ns, 0);
    assert_int_equal(spec->host_operator_ns, 5000);
    assert_int_equal(spec->host_launch_ns, 5000);
    assert_int_equal(spec->host_graph_ns, 5000);
    assert_int_equal(spec->host_event_ns, 1);
    orr_machine_destroy(&machine);
}

static void an_alias_is_the_machine_it_names(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_machine *machine = load(&memory, "h100");
    assert_string_equal(machine->spec.name, "h100-sxm");
    assert_true(machine->spec.peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] == 989000000000000);
    assert_true(machine->spec.bandwidth == 3350000000000);
    assert_string_equal(orr_machine_alias("h100-sxm"), "h100");
    assert_null(orr_machine_alias("l4"));
    orr_machine_destroy(&machine);
}

static void nodes_and_clusters_are_made_of_devices(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_machine *node = load(&memory, "dgx-h100"), *device = load(&memory, "h100-sxm");
    assert_int_equal(node->devices, 8);
    assert_int_equal(node->spec.devices_per_node, 8);
    assert_true(node->spec.network_bandwidth == 50000000000);
    assert_true(node->spec.bandwidth == device->spec.bandwidth);
    orr_machine_destroy(&node);
    orr_machine_destroy(&device);
    node = load(&memory, "superpod-h100");
    assert_int_equal(node->devices, 256);
    assert_int_equal(node->spec.devices_per_node, 8);
    orr_machine_destroy(&node);
}

#define MINIMAL                                                                                    \
    "kind = 'gpu', memory_bytes = {1e9, source = 's'}, bandwidth = {1e12, source = 's'}, "         \
    "peak = {vector = {f32 = {1e12, source = 's'}}}, "                                             \
    "peer_bandwidth = {1e11, source = 's'}, host_bandwidth = {5e10, source = 's'}"

static void a_machine_file_is_read_figure_by_figure(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    struct orr_machine *machine;
    const char text[] = "return {" MINIMAL ", devices = 4, note = 'mine',\n"
                        "memory_efficiency = {{1e3, 0.25}, {1e6, 0.5}, source = 's'},\n"
                        "collective_sm_share = {0.125, source = 's'},\n"
                        "host_launch_ns = {2500, source = 'measured'}}";
    assert_int_equal(
        orr_machine_parse("folder/mine.lua", text, strlen(text), &memory.table, &machine, &error),
        ORR_OK);
    assert_string_equal(machine->spec.name, "mine");
    assert_string_equal(machine->note, "mine");
    assert_int_equal(machine->devices, 4);
    assert_int_equal(machine->spec.collective_sm_ppm, 125000);
    assert_int_equal(machine->spec.host_launch_ns, 2500);
    assert_int_equal(orr_curve_at(&machine->spec.memory_efficiency, 0), 250000);
    assert_int_equal(orr_curve_at(&machine->spec.memory_efficiency, 2000000), 500000);
    orr_machine_destroy(&machine);
    assert_int_equal(memory.live, 0);
}

static void a_machines_own_peaks_replace_all_of_its_bases(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    struct orr_machine *machine;
    const char text[] = "return { base = 'h100', peak = {vector = {f32 = {1e12, source = 's'}}}}";
    assert_int_equal(orr_machine_parse("m", text, strlen(text), &memory.table, &machine, &error),
                     ORR_OK);
    assert_true(machine->spec.peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] == 0);
    assert_true(machine->spec.bandwidth == 3350000000000);
    for (size_t i = 0; i < machine->figure_count; i++)
        assert_string_not_equal(machine->figures[i].key, "peak.matrix.bf16");
    orr_machine_destroy(&machine);
    assert_int_equal(memory.live, 0);
}

static void what_is_wrong_in_a_machine_file_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"return 5", "m.lua: machine: expected the file to return a table"},
        {"return {", "m.lua:1: unexpected symbol near <eof>"},
        {"return { kind = os.exit() }", "m.lua:1: attempt to index a nil value (global 'os')"},
        {"while true do end",
         "m.lua: machine: the file runs too long; it should only return a table"},
        {"return { bandwith = {1, source = 's'} }",
         "m.lua: bandwith: unknown key of a machine; did you mean 'bandwidth'?"},
        {"return { bandwidth = 5 }", "m.lua: bandwidth: expected { value, source = \"...\" }"},
        {"return { bandwidth = {5} }",
         "m.lua: bandwidth: expected source = \"where the figure is from\""},
        {"return { bandwidth = {'5', source = 's'} }", "m.lua: bandwidth: expected a number"},
        {"return { bandwidth = {-5, source = 's'} }",
         "m.lua: bandwidth: the number is out of range"},
        {"return { host_launch_ns = {9e18, source = 's'} }",
         "m.lua: host_launch_ns: the number is out of range"},
        {"return { bandwidth = {0/0, source = 's'} }",
         "m.lua: bandwidth: the number is out of range"},
        {"return { peak = {matrx = {}} }",
         "m.lua: matrx: unknown unit of peak; did you mean 'matrix'?"},
        {"return { peak = {matrix = {bf61 = {1, source = 's'}}} }",
         "m.lua: bf61: unknown dtype of peak; did you mean 'bf16'?"},
        {"return { memory_efficiency = {{1e6, 0.5}, {1e3, 0.6}, source = 's'} }",
         "m.lua: memory_efficiency: points must go up in x, and shares be above 0"},
        {"return { memory_efficiency = {{1e6, 1.5}, source = 's'} }",
         "m.lua: memory_efficiency: expected a share between 0 and 1"},
        {"return { base = 'h10' }", "m.lua: h10: the base is not a built-in machine"},
        {"return { kind = 'gpu' }", "m.lua: memory_bytes: expected the capacity of its memory"},
        {"return { base = 'h100', peer_bandwidth = {0, source = 's'} }",
         "m.lua: peer_bandwidth: expected the bandwidth to another device, one direction"},
        {"return { base = 'h100', host_bandwidth = {0, source = 's'} }",
         "m.lua: host_bandwidth: expected the bandwidth to the host's memory, one direction"},
        {"return { base = 'h100', devices_per_node = {8, source = 's'} }",
         "m.lua: network_bandwidth: expected the bandwidth to other nodes, which devices_per_node "
         "says there are"},
        {"return { base = 'h100', copy_engines = {0.5, source = 's'} }",
         "m.lua: copy_engines: expected a whole number"},
        {"return { base = 'h100', memory_bytes = {8e10 + 0.5, source = 's'} }",
         "m.lua: memory_bytes: expected a whole number"},
        {"return { base = 'h100', host_launch_ns = {0.5, source = 's'} }",
         "m.lua: host_launch_ns: expected a whole number"},
        {"return { base = 'h100', devices = 1.5 }", "m.lua: devices: expected a whole number"},
        {"return { base = 'h100', devices = 0 }", "m.lua: devices: expected 1 or more"},
        {"\x1bLua", "m.lua: machine: compiled Lua is not accepted; expected a text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct memory_counting memory;
        memory_counting_init(&memory, 0);
        struct orr_error error = {0};
        struct orr_machine *machine;
        enum orr_status status = orr_machine_parse("m.lua", cases[i].text, strlen(cases[i].text),
                                                   &memory.table, &machine, &error);
        assert_string_equal(error.text, cases[i].message);
        assert_int_equal(status, ORR_INVALID);
        assert_null(machine);
        assert_int_equal(memory.live, 0);
    }
}

static void an_unknown_machine_is_answered_with_the_nearest(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    struct orr_machine *machine;
    assert_int_equal(orr_machine_load("h10", &memory.table, &machine, &error), ORR_INVALID);
    assert_string_equal(error.text, "unknown machine 'h10'; did you mean 'h100'?");
    orr_error_clear(&error);
    assert_int_equal(orr_machine_load("./none.lua", &memory.table, &machine, &error), ORR_IO);
    assert_string_equal(error.text, "./none.lua: No such file or directory");
    orr_error_clear(&error);
    assert_int_equal(orr_machine_load("/", &memory.table, &machine, &error), ORR_INVALID);
    assert_int_equal(memory.live, 0);
}

static void load_with_memory(struct memory_counting *memory, void *context) {
    struct orr_error error = {0};
    struct orr_machine *machine;
    enum orr_status status = orr_machine_load(context, &memory->table, &machine, &error);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    orr_machine_destroy(&machine);
}

static void no_lack_of_memory_leaks_or_crashes(void **state) {
    (void)state;
    char name[] = "dgx-h100";
    assert_true(fail_each_request(load_with_memory, name) > 50);
}

/* --- the SPEC of --devices --- */

static void expect_spec(const char *text, enum orr_exit exit, size_t count, const char *message) {
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    struct orr_spec spec;
    assert_int_equal(orr_spec_parse(text, NULL, &memory.table, &spec, &error), exit);
    assert_string_equal(error.text, message);
    if (exit == ORR_EXIT_OK)
        assert_int_equal(spec.device_count, count);
    orr_spec_clear(&spec, &memory.table);
    assert_int_equal(memory.live, 0);
}

static void a_spec_says_how_many_of_which_machine(void **state) {
    (void)state;
    expect_spec("sim:h100", ORR_EXIT_OK, 1, "");
    expect_spec("sim:h100*8", ORR_EXIT_OK, 8, "");
    expect_spec("sim:dgx-h100*128", ORR_EXIT_OK, 1024, "");
    expect_spec("sim:dgx-h100*2048", ORR_EXIT_OK, 16384, "");
    expect_spec("sim:h100*3+sim:l4+sim:dgx-a100", ORR_EXIT_OK, 12, "");
    expect_spec("cpu*4", ORR_EXIT_OK, 4, "");
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    struct orr_spec spec;
    assert_int_equal(orr_spec_parse("sim:l4+sim:h100*2", NULL, &memory.table, &spec, &error),
                     ORR_EXIT_OK);
    assert_true(spec.open == orr_sim_open && spec.virtual_clock);
    assert_string_equal(spec.devices[0].name, "l4");
    assert_string_equal(spec.devices[2].name, "h100-sxm");
    assert_string_equal(spec.name, "l4");
    orr_spec_clear(&spec, &memory.table);
    assert_int_equal(orr_spec_parse("cpu", NULL, &memory.table, &spec, &error), ORR_EXIT_OK);
    assert_true(spec.open == orr_cpu_open && !spec.virtual_clock);
    orr_spec_clear(&spec, &memory.table);
}

static void a_wrong_spec_is_wrong_usage_and_a_wrong_machine_bad_input(void **state) {
    (void)state;
#define EXPECTED "; expected sim:MACHINE[*N], cpu[*N] or cuda:GPUS[*N], joined by +"
    expect_spec("", ORR_EXIT_USAGE, 0, "--devices '': no such target" EXPECTED);
    expect_spec("gpu", ORR_EXIT_USAGE, 0, "--devices 'gpu': no such target" EXPECTED);
    expect_spec("sim:", ORR_EXIT_USAGE, 0, "--devices 'sim:': no such target" EXPECTED);
    expect_spec("sim:h100*0", ORR_EXIT_USAGE, 0,
                "--devices 'sim:h100*0': the number behind * must be a positive count" EXPECTED);
    expect_spec("sim:h100*x", ORR_EXIT_USAGE, 0,
                "--devices 'sim:h100*x': the number behind * must be a positive count" EXPECTED);
    expect_spec("sim:dgx-h100*99999", ORR_EXIT_USAGE, 0,
                "--devices 'sim:dgx-h100*99999': more than 131072 devices" EXPECTED);
    expect_spec("cpu+sim:h100", ORR_EXIT_USAGE, 0,
                "--devices 'sim:h100': one run has one backend" EXPECTED);
    expect_spec("sim:h100+", ORR_EXIT_USAGE, 0, "--devices '': no such target" EXPECTED);
    static const char *const no_gpus[] = {"cuda:",     "cuda:x",  "cuda:0,",  "cuda:1-0",
                                          "cuda:0--1", "cuda:64", "cuda:0.5", "cuda:0,,1"};
    for (size_t i = 0; i < sizeof no_gpus / sizeof no_gpus[0]; i++) {
        char message[256];
        snprintf(message, sizeof message,
                 "--devices '%s': GPUs are numbers from 0 to 63, as in 0, 0-3 or 0,2" EXPECTED,
                 no_gpus[i]);
        expect_spec(no_gpus[i], ORR_EXIT_USAGE, 0, message);
    }
    expect_spec("cuda", ORR_EXIT_USAGE, 0, "--devices 'cuda': no such target" EXPECTED);
    expect_spec("cuda:0*0", ORR_EXIT_USAGE, 0,
                "--devices 'cuda:0*0': the number behind * must be a positive count" EXPECTED);
    expect_spec("cuda:0-63*9999", ORR_EXIT_USAGE, 0,
                "--devices 'cuda:0-63*9999': more than 131072 devices" EXPECTED);
    expect_spec("cpu+cuda:0", ORR_EXIT_USAGE, 0,
                "--devices 'cuda:0': one run has one backend" EXPECTED);
#undef EXPECTED
    expect_spec("sim:h10*8", ORR_EXIT_INPUT, 0, "unknown machine 'h10'; did you mean 'h100'?");
    expect_spec("sim:./none.lua", ORR_EXIT_INPUT, 0, "./none.lua: No such file or directory");
}

static void a_spec_may_name_a_machine_file(void **state) {
    (void)state;
    char path[] = "/tmp/orrery-machine-XXXXXX.lua";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    static const char text[] = "return { base = 'teaching', devices = 2 }";
    assert_true(write(file, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(file);
    char spec[64];
    snprintf(spec, sizeof spec, "sim:%s*3", path);
    expect_spec(spec, ORR_EXIT_OK, 6, "");
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_machine_loads_and_names_its_sources),
        cmocka_unit_test(built_in_machines_are_in_alphabetical_order),
        cmocka_unit_test(the_teaching_machine_has_round_figures_only),
        cmocka_unit_test(an_alias_is_the_machine_it_names),
        cmocka_unit_test(nodes_and_clusters_are_made_of_devices),
        cmocka_unit_test(a_machine_file_is_read_figure_by_figure),
        cmocka_unit_test(a_machines_own_peaks_replace_all_of_its_bases),
        cmocka_unit_test(what_is_wrong_in_a_machine_file_is_named),
        cmocka_unit_test(an_unknown_machine_is_answered_with_the_nearest),
        cmocka_unit_test(no_lack_of_memory_leaks_or_crashes),
        cmocka_unit_test(a_spec_says_how_many_of_which_machine),
        cmocka_unit_test(a_wrong_spec_is_wrong_usage_and_a_wrong_machine_bad_input),
        cmocka_unit_test(a_spec_may_name_a_machine_file),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
