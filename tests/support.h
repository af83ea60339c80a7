/* What the runtime's tests share: a runtime with a sink in memory, memory that counts and fails.
 *
 *     struct fixture f;
 *     fixture_open(&f, orr_sim_open, 2);
 *     ... f.runtime ...
 *     fixture_close(&f);                    // asserts that nothing leaked
 *
 * Failures of the fixture itself fail the test that runs.
 *
 * Threads: one; memory_counting may be used by a backend's workers too. */
#ifndef ORR_TESTS_SUPPORT_H
#define ORR_TESTS_SUPPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/buffer.h"
#include "runtime/communicator.h"
#include "runtime/record_memory.h"
#include "tests/random_numbers.h"

/* --- memory --- */

/* Counts blocks and requests, and fails one request. */
struct memory_counting {
    struct orr_memory table;
    atomic_size_t requests; /* allocations and growths asked for */
    size_t fail_at;         /* this one fails, from 1; 0: none */
    bool fail_later;        /* those after it fail too */
    atomic_size_t live;     /* blocks not freed */
};

void memory_counting_init(struct memory_counting *memory, size_t fail_at);

/* Runs `program` with the 1st, 2nd, ... request failing until a run asks for fewer, both with that
 * request alone failing and with all later ones; asserts each time that nothing leaks. `program`
 * must cope with failure everywhere. Returns the number of requests of a whole run. */
size_t fail_each_request(void (*program)(struct memory_counting *memory, void *context),
                         void *context);

/* --- a runtime --- */

enum { FIXTURE_DEVICES_MAX = 8 };

struct fixture {
    struct memory_counting memory;
    struct orr_device_spec specs[FIXTURE_DEVICES_MAX];
    struct orr_runtime_config config;
    struct orr_record_memory *store;
    struct orr_runtime *runtime;
    struct orr_error error;
};

/* 2 TB/s, 500 TFLOP/s in all dtypes, 5 us a launch, 500 ns an event call, 1 us a sync, 1 GiB. */
struct orr_device_spec spec_for_tests(void);

/* Fills specs and config (accesses traced); the test may change them before fixture_start. */
void fixture_prepare(struct fixture *f, orr_backend_open open, uint32_t device_count);
/* Creates the runtime. */
void fixture_start(struct fixture *f);
/* Both. */
void fixture_open(struct fixture *f, orr_backend_open open, uint32_t device_count);
/* Destroys everything and asserts that no memory is left. */
void fixture_close(struct fixture *f);

/* The text of the runtime's last failure. */
const char *fixture_error(const struct fixture *f);

/* Number of records of a kind so far. */
size_t record_count(const struct fixture *f, enum orr_record_kind kind);
/* The `index`-th record of a kind, from 0; fails the test if there are not so many. */
const void *record_at(const struct fixture *f, enum orr_record_kind kind, size_t index);
/* The record of a command; fails the test if it has not been written. */
const struct orr_record_command *command_record(const struct fixture *f, uint64_t id);
/* True if an edge of this kind from src to dst has been written. */
bool has_edge(const struct fixture *f, enum orr_edge_kind kind, uint64_t src, uint64_t dst);
/* The text of a name in a record. */
const char *name_text(const struct fixture *f, uint32_t name);

/* A kernel of 1 ns that reads and writes whole buffers, either of which may be NULL. */
struct orr_point launch(struct orr_stream *stream, const char *name, struct orr_buffer *reads,
                        struct orr_buffer *writes);

/* --- comparing --- */

/* |a - b| <= tolerance * max(1, |b|), and NaN is near NaN. */
bool near_f64(double a, double b, double tolerance);

/* --- random numbers: tests/random_numbers.h --- */

/* The seed of this process's random tests: ORR_TEST_SEED, or `usual`. Prints it. */
uint64_t random_seed(uint64_t usual);

#endif
