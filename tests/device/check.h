/* The device check: what can only be seen on a GPU, step by step, in one run of a few minutes.
 *
 * Every step writes its lines to the results as soon as it ends, so that a run that is cut off
 * keeps what it found:
 *
 *     check,3,order,pass,with the wait 200 of 200 right; findings: 0
 *     figure,6,launch with event times,3.21,us/command
 *
 * Steps take a table of entry points, so that the same code runs over the fake devices in the
 * tests: what measures real time is skipped there, and says so.
 *
 * Neither cmocka nor any other test library is needed, since a machine with a GPU may have none.
 *
 * Threads: one. */
#ifndef ORR_TESTS_DEVICE_CHECK_H
#define ORR_TESTS_DEVICE_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/cuda/cuda.h"
#include "runtime/record_memory.h"
#include "runtime/stream.h"

enum check_verdict { CHECK_PASS, CHECK_FAIL, CHECK_SKIP, CHECK_NOTE };

struct check {
    struct orr__cuda_api *api;
    bool opened; /* the table is library.h's, so that its libraries can be listed */
    struct orr_memory memory;
    FILE *results;
    const char *machine_path; /* where the measured machine goes; NULL: nowhere */
    bool quick;               /* small sizes */
    int programs;             /* random ones of step 2; 0: as many as usual */
    bool fake;                /* no GPU behind the table: real time means nothing */
    uint64_t seed;
    int step; /* that runs */
    int passed, failed, skipped;
    struct orr_cuda_machine machine;
    struct check_points *points; /* measured by step 7, used by step 9 */
};

/* A line of results: "check,<step>,<name>,<verdict>,<text>", printed too. Names hold no commas; a
 * text with commas or quotes is in quotes, each of its own doubled. */
void check_say(struct check *check, const char *name, enum check_verdict verdict,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* "figure,<step>,<name>,<value>,<unit>". */
void check_figure(struct check *check, const char *name, double value, const char *unit);

/* --- a runtime over the table, with its records in memory --- */

struct check_run {
    struct orr_cuda_options options;
    struct orr_device_spec specs[8];
    struct orr_record_memory *store;
    struct orr_runtime *runtime;
    struct orr_error error;
    struct orr__cuda_api *api; /* NULL: on CPU threads */
};

/* Opens `devices` logical devices on GPU 0, or on CPU threads if `on_cpu`. False: it says why. */
bool check_run_open(struct check *check, struct check_run *run, uint32_t devices, bool on_cpu,
                    enum orr_cuda_timestamps timestamps, struct orr_observer *observer);
void check_run_close(struct check_run *run);

/* Fills `machine`, and sets `fake` if the GPU is one of sim/fake_devices/cuda. Whatever steps run,
 * this comes first; step 0 does it by itself. False: it says why. */
bool check_look(struct check *check);

/* --- the steps, each in a file of its own --- */

void check_probe(struct check *check);    /* 0: what is there */
void check_images(struct check *check);   /* 1: every kernel loads */
void check_numbers(struct check *check);  /* 2: operators against the CPU */
void check_order(struct check *check);    /* 3: a wait, and the same without it */
void check_overlap(struct check *check);  /* 4: streams that run side by side */
void check_clocks(struct check *check);   /* 5: timestamps against each other */
void check_launches(struct check *check); /* 6: what a launch costs */
void check_points(struct check *check);   /* 7: bandwidth and arithmetic */
void check_limits(struct check *check);   /* 8: out of memory, NCCL on one GPU */
void check_model(struct check *check);    /* 9: predicted against measured */

/* --- what step 7 measures --- */

enum { CHECK_POINTS_MAX = 128 };

enum check_point_kind { POINT_DEVICE_COPY, POINT_UPLOAD, POINT_DOWNLOAD, POINT_GEMM, POINT_KERNEL };

struct check_point {
    enum check_point_kind kind;
    char name[48];       /* "device copy", or the operator's */
    double bytes, flops; /* moved: read and written */
    int64_t ns;          /* the shortest of several */
};

struct check_points {
    struct check_point items[CHECK_POINTS_MAX];
    int count;
};

const char *check_point_kind_text(enum check_point_kind kind);

#endif
