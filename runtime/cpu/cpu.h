/* CPU devices: the backend `cpu`. Real threads, a real clock, numbers really computed.
 *
 * Every stream has a worker thread's worth of concurrency: threads are started as streams are first
 * used, and any of them runs whatever stream has something to do, one stream at a time. So a stream
 * that becomes ready always finds a thread, streams really overlap, and a chain of commands that
 * jumps from stream to stream is followed by one thread instead of being passed round sleepers.
 *
 *     host: submit --> ring of the stream --> worker: waits done? run, stamp, publish `done`
 *       ^                                                    |
 *       +------ retire (in any later verb, in order) <-------+
 *
 * Clock: CLOCK_MONOTONIC through the vDSO, ns since open. Measured 20.6 ns a read on an EPYC 9005
 * guest (rdtsc: 9.0); not worth a calibration that would have to wait at open and could drift from
 * every other clock. A command without `run` is stamped once (start = finish), one with `run` once
 * or twice: commands that follow each other without a wait share a stamp (start = finish of the
 * one before), if both were launched by then.
 *
 * Times in a record: enqueue_ns and enqueued_ns are the host's call; ready_ns is z of analysis.md
 * 2.2; start_ns of a collective's member is its own arrival, finish_ns is the same for all members.
 * A wait starts when it comes to the head of its stream and finishes when what it waits for has.
 * A skipped command has start_ns = finish_ns = when it was skipped.
 *
 * Runner: with ORR_RUNNER_PER_DEVICE each device has a dispatch thread, which takes the host's
 * commands in order and launches them. It is host 1 + device (hosts made later follow), and the
 * `host`, `enqueue_ns` and `enqueued_ns` of the record are its. submit then answers ORR_FULL also
 * when a device has 4096 commands that are not launched yet.
 *
 * ORR_FULL gives the point at which half of the stream's queue is free, not the very next one: a
 * host that waits for it sleeps once per half queue and the device never runs dry.
 *
 * Hosts: with more than one live host, a wait that is not over answers ORR_BLOCKED, and host_next
 * names the host that has waited longest for its turn, sleeping if all of them wait. A wait for
 * points that nobody can submit any more fails at once.
 *
 * Sleeping: a worker, dispatcher or waiting host spins for at most 10 us before it sleeps, and
 * never more of them at once than there are processors less one (waking a sleeper takes 20 us).
 *
 * Kernels should not start threads of their own: whoever owns the process makes OpenBLAS run in the
 * calling thread, by orr_gemm_single_thread of runtime/operators/gemm.h.
 *
 * Threads: verbs from one thread, as every backend. `run` is called from worker threads. */
#ifndef ORR_RUNTIME_CPU_CPU_H
#define ORR_RUNTIME_CPU_CPU_H

#include "runtime/backend.h"

/* Opens CPU devices; the specs say memory sizes and queue depths only. ORR_INVALID for no devices
 * or a queue depth above 2^20; ORR_NO_MEMORY, also when a thread can't be started. The optional
 * verbs host_create, host_next, host_done, host_access and perturb (delays, nth command fails) are
 * there. */
enum orr_status orr_cpu_open(const struct orr_backend_config *config,
                             struct orr_backend **out_backend, struct orr_error *error);

/* What the backend's threads did, since open. */
struct orr_cpu_counters {
    uint64_t threads;      /* worker threads started; dispatchers not included */
    uint64_t wakeups;      /* sleeping workers woken */
    uint64_t host_wakeups; /* times the waiting host was woken */
    uint64_t blocks;       /* times a stream was set aside for a wait */
    uint64_t handovers;    /* blocked streams resumed in place by who finished what they awaited */
};

/* Reads the counters, for benchmarks and tests; exact only while nothing is in flight. */
void orr_cpu_counters(struct orr_backend *backend, struct orr_cpu_counters *out_counters);

#endif
