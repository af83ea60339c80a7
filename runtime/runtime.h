/* The runtime object: one run of one program on one backend.
 *
 * It owns the backend, the devices' streams, events, buffers and tensors, hands out command ids,
 * writes records, and keeps the error text. Every object made through it must be destroyed before
 * it, or is freed with it.
 *
 *     struct orr_runtime *runtime;
 *     struct orr_runtime_config config = {.memory = &memory, .open = orr_sim_open,
 *                                         .specs = specs, .device_count = 8, .sink = sink};
 *     if (orr_runtime_create(&config, &runtime, &error) != ORR_OK) ...
 *     struct orr_stream *s = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
 *     struct orr_buffer *a;
 *     orr_buffer_alloc(s, 1 << 20, "a", &a);
 *     struct orr_kernel k = {.name = "produce", .service_ns = -1, .submit_ns = -1,
 *                            .accesses = &(struct orr_range){a, 0, 1 << 20, ORR_ACCESS_WRITE},
 *                            .access_count = 1, .cost = {.flops = 1000000000}};
 *     orr_stream_kernel(s, &k, NULL);
 *     orr_stream_sync(s);
 *     orr_runtime_finish(runtime);
 *     orr_runtime_destroy(&runtime);
 *
 * Errors: functions that return a status leave their text in orr_runtime_error(runtime). After an
 * ORR_DEVICE_FAILED the run can go on on streams that are not poisoned.
 *
 * Callers: every call is charged to, and recorded for, the current caller: a host (0 unless more
 * are created) and a site ("file:line" of the user's program). orr_runtime_set_caller changes it.
 *
 * With several hosts on a virtual clock any call that acts may answer ORR_BLOCKED: nothing
 * happened, and the caller must repeat it when orr_runtime_next_host names its host.
 *
 * Threads: one runtime, one thread. */
#ifndef ORR_RUNTIME_RUNTIME_H
#define ORR_RUNTIME_RUNTIME_H

#include "runtime/backend.h"
#include "runtime/names.h"
#include "runtime/record.h"

struct orr_observer;
struct orr_runtime;
struct orr_stream;
struct orr_event;
struct orr_buffer;

/* When an asynchronous copy from pageable host memory to a device reads its source (races.md rule
 * 17): in the order of its stream, or at the call, by the host, to a staging buffer. Drivers may do
 * either. */
enum orr_pageable { ORR_PAGEABLE_STRICT, ORR_PAGEABLE_STAGED };

#define ORR_DROP_WAIT_NONE UINT64_MAX

/* What to run on. Pointers are borrowed until destroy; `specs` is copied. */
struct orr_runtime_config {
    const struct orr_memory *memory;
    orr_backend_open open;
    const void *options;                 /* what `open` takes besides; NULL: its defaults */
    const struct orr_device_spec *specs; /* one for each device */
    uint32_t device_count;
    struct orr_sink *sink; /* NULL: no trace. Borrowed: the caller closes it after destroy */
    bool timing_only;
    enum orr_runner runner;
    uint64_t seed;
    enum orr_pageable pageable;
    /* Mutation of a schedule: the command that brings this wait, counted from 1 in order of calls,
     * does without it. 0: none. Counted is what commands wait for besides their own streams' order
     * and the rules of default streams, unless their stream has waited for it already or the host
     * has seen it done. A finding "dropped-wait" (note) says which it was.
     * ORR_DROP_WAIT_NONE: only count. */
    uint64_t drop_wait;
    bool trace_accesses;           /* records of byte ranges too (hazard checks need them) */
    struct orr_observer *observer; /* runtime/observer.h; NULL: nobody */
};

/* Opens the backend, writes the records of devices and host 0. On failure nothing is left open; the
 * text is in *error because there is no runtime to ask. */
enum orr_status orr_runtime_create(const struct orr_runtime_config *config,
                                   struct orr_runtime **out_runtime,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* Before the first call that concerns a device: what is to go slower, fail or be lost in this run
 * (runtime/perturb.h). Called again, it adds rules; figures that are there stay. ORR_INVALID for a
 * device that is not there or too late, ORR_UNSUPPORTED for what the backend can't do. Written to
 * the trace's meta as 'perturb'. */
enum orr_status orr_runtime_perturb(struct orr_runtime *runtime,
                                    const struct orr_perturb *perturb) ORR_MUST_CHECK;
/* Whether a call has failed since a wait can never end: the last one that did, a hang. */
bool orr_runtime_hung(const struct orr_runtime *runtime);
/* Why one of the hosts makes no call now: "in a wait for command 3 of stream 1 of device 0, which
 * is at 'k' at case.lua:7", "makes no more calls". False if the backend can't say. */
bool orr_runtime_host_reason(const struct orr_runtime *runtime, uint32_t host, char *text,
                             size_t size);
/* The first fault that took effect, as text; NULL: none. Borrowed until destroy. */
const char *orr_runtime_fault(const struct orr_runtime *runtime);
/* After orr_runtime_finish: the first perturbation that concerned nothing, because no command is
 * called so, or the run ended before: a delay, or a fault when none took effect. Its text, written
 * to `text`; NULL: none. */
const char *orr_runtime_idle_perturbation(const struct orr_runtime *runtime, char *text,
                                          size_t size);

/* Waits for all work of all devices, and reports the first failure of any stream. */
enum orr_status orr_runtime_finish(struct orr_runtime *runtime) ORR_MUST_CHECK;

/* Closes the backend (what has not finished is recorded as pending), frees everything, nulls the
 * handle; accepts NULL. Does not close the sink. */
void orr_runtime_destroy(struct orr_runtime **runtime);

/* As it was right after its creation, for running a program once more at a fraction of the cost of
 * a new runtime: everything that was made in it is gone, perturbations too, and ids start again;
 * names stay.
 * ORR_UNSUPPORTED if the backend can't, or with a sink. After ORR_NO_MEMORY only destroy is
 * left. */
enum orr_status orr_runtime_rewind(struct orr_runtime *runtime) ORR_MUST_CHECK;

/* The text of the last failure, borrowed; cleared by orr_error_clear. */
struct orr_error *orr_runtime_error(struct orr_runtime *runtime);

/* Who makes the following calls. `site` is copied; NULL or "": unknown. */
enum orr_status orr_runtime_set_caller(struct orr_runtime *runtime, uint32_t host,
                                       const char *site) ORR_MUST_CHECK;

/* Another host with a clock of its own, named for the trace. */
enum orr_status orr_runtime_add_host(struct orr_runtime *runtime, const char *name,
                                     uint32_t *out_host) ORR_MUST_CHECK;
/* See host_next and host_done of runtime/backend.h. */
enum orr_status orr_runtime_next_host(struct orr_runtime *runtime,
                                      uint32_t *out_host) ORR_MUST_CHECK;
void orr_runtime_host_done(struct orr_runtime *runtime, uint32_t host);

/* For layers in which hosts wait for each other, as for messages. A call of the current host that
 * concerns no device: takes its turn (ORR_BLOCKED) and 1 ns where the clock is virtual. `thing`
 * numbers what it is about: calls about different things commute. */
enum orr_status orr_runtime_meet(struct orr_runtime *runtime, uint64_t thing) ORR_MUST_CHECK;
/* The current host makes no calls until another one, then the current host, unparks it: its clock
 * goes on no earlier than that of who unparks it. If all hosts are parked, next_host fails. */
void orr_runtime_park(struct orr_runtime *runtime);
void orr_runtime_unpark(struct orr_runtime *runtime, uint32_t host);
/* Such layers say in which order that puts the hosts, so that checks know: all that the current
 * host has done and knows when it posts a message comes before whatever the host that takes it does
 * next. A message is taken once at most, by the current host. Costs no time. That a host makes
 * another one counts as a message to it; being unparked is none. A message's id is that of a
 * command, "post", of its host. */
uint64_t orr_runtime_post(struct orr_runtime *runtime);
enum orr_status orr_runtime_take(struct orr_runtime *runtime, uint64_t message) ORR_MUST_CHECK;

/* Clock of the current host, ns since the run began. */
int64_t orr_runtime_now(struct orr_runtime *runtime);

/* The current host computes for `ns` (virtual clocks; ORR_UNSUPPORTED elsewhere). ORR_INVALID for
 * less than 0, and past 2^61 ns (73 years), which no trace can tell. */
enum orr_status orr_runtime_spend(struct orr_runtime *runtime, int64_t ns) ORR_MUST_CHECK;

/* What the run was created with. Specs and names are borrowed until destroy; device < count. */
uint32_t orr_runtime_device_count(const struct orr_runtime *runtime);
const struct orr_device_spec *orr_runtime_spec(const struct orr_runtime *runtime, uint32_t device);
bool orr_runtime_timing_only(const struct orr_runtime *runtime);
uint64_t orr_runtime_seed(const struct orr_runtime *runtime);
const char *orr_runtime_backend_name(const struct orr_runtime *runtime);
/* The text of a name in a record, or in what a backend was given; borrowed until destroy. */
const char *orr_runtime_text(const struct orr_runtime *runtime, uint32_t name);
/* What it runs on, for whoever opened it; borrowed until destroy. */
struct orr_backend *orr_runtime_backend(const struct orr_runtime *runtime);

/* Adds a row to the trace's table meta, or a finding (severity "error", "warning", "note"; ids of
 * commands and buffer may be 0). Texts are copied. Without a sink a finding is only counted. */
void orr_runtime_meta(struct orr_runtime *runtime, const char *key, const char *value);
void orr_runtime_finding(struct orr_runtime *runtime, const char *kind, const char *severity,
                         uint64_t cmd_a, uint64_t cmd_b, uint64_t buffer, const char *message,
                         const char *fix);
/* Waits so far, as drop_wait counts them; 0 in a run without. The trace's meta `waits` has their
 * number at the end. */
uint64_t orr_runtime_wait_count(const struct orr_runtime *runtime);
/* False for one that is known to order nothing: its stream waits for something later in the same
 * stream before any work comes; or that has not been. */
bool orr_runtime_wait_matters(const struct orr_runtime *runtime, uint64_t wait);
/* Findings so far, notes included. */
uint64_t orr_runtime_finding_count(const struct orr_runtime *runtime);

#endif
