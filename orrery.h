/* Orrery from C: one header over all rooms, for programs that use the library as a whole.
 *
 * The example makes two devices of a machine, lets one stream produce and another consume, leaves a
 * trace and prints what the analyzer says about it. It is tests/test_c_api.c, compiled and run.
 *
 *     struct orr_memory memory = orr_memory_system();
 *     struct orr_error error = {0};
 *     struct orr_machine *machine;
 *     struct orr_sink *sink;
 *     struct orr_runtime *runtime;
 *
 *     orr_machine_load("h100", &memory, &machine, &error);
 *     orr_sqlite_sink_open("run.db", NULL, &memory, &sink, &error);
 *     struct orr_device_spec specs[2] = {machine->spec, machine->spec};
 *     struct orr_runtime_config config = {.memory = &memory, .open = orr_sim_open, .specs = specs,
 *                                         .device_count = 2, .sink = sink};
 *     orr_runtime_create(&config, &runtime, &error);
 *
 *     struct orr_stream *s = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
 *     struct orr_stream *c = orr_device_stream(runtime, 0, ORR_STREAM_COMMUNICATE);
 *     struct orr_buffer *a;
 *     struct orr_event *e;
 *     orr_buffer_alloc(s, 1 << 20, "a", &a);
 *     orr_event_create(runtime, "produced", &e);
 *     ... orr_stream_kernel(s, &produce, NULL);
 *     orr_event_record(e, s);
 *     orr_stream_wait(c, e);
 *     ... orr_stream_kernel(c, &consume, NULL);
 *     orr_runtime_finish(runtime);
 *
 *     orr_runtime_destroy(&runtime);
 *     sink->close(sink, "ok", &error);
 *
 * Every status is to be checked; every header named below is the manual of its subject.
 *
 * Threads: one runtime, one thread; see the headers. */
#ifndef ORR_ORRERY_H
#define ORR_ORRERY_H

/* IWYU pragma: begin_exports */
#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "hazards/check_json.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_write.h"
#include "runtime/autograd.h"
#include "runtime/cpu/cpu.h"
#include "runtime/gradient_function.h"
#include "runtime/loss_scale.h"
#include "runtime/program.h"
#include "runtime/record_memory.h"
#include "runtime/region.h"
#include "runtime/tensor.h"
#include "scenarios/machine.h"
#include "scenarios/scenario.h"
#include "sim/sim.h"
#include "trace/perfetto.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline.h"
/* IWYU pragma: end_exports */

#endif
