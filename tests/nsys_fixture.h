/* Small exports of Nsight Systems, made by SQL: what the importer's tests and its fuzzer share.
 *
 *     struct nsys_fixture f;
 *     nsys_fixture_open(&f, "name");
 *     nsys_fixture_make(&f, nsys_base_sql, "INSERT INTO ...");
 *     ... f.path ...
 *     nsys_fixture_close(&f);              // removes the folder
 *
 * Threads: one. */
#ifndef ORR_TESTS_NSYS_FIXTURE_H
#define ORR_TESTS_NSYS_FIXTURE_H

#include <stddef.h>

struct nsys_fixture {
    char folder[128], path[192];
};

/* The tables of an export as of schema 3.25, with the columns that the importer knows, and no
 * rows. */
extern const char nsys_base_sql[];

/* Two processes that use the same correlations, a device each; see test_nsys.c. */
extern const char nsys_two_processes_sql[];

/* A new folder with an empty name for a database in it. Aborts where there is no room. */
void nsys_fixture_open(struct nsys_fixture *f, const char *name);
/* Writes the database: both pieces of SQL in one transaction, either may be "". Replaces. */
void nsys_fixture_make(const struct nsys_fixture *f, const char *first, const char *second);
/* Writes bytes instead. */
void nsys_fixture_write(const struct nsys_fixture *f, const void *bytes, size_t size);
/* Removes what may lie in the folder, and the folder. */
void nsys_fixture_close(struct nsys_fixture *f);

/* globalPid and globalTid of the two processes. */
#define NSYS_PID_A "281474976710656" /* 1 << 48 */
#define NSYS_TID_A "281474976710659"
#define NSYS_PID_B "281474993487872" /* 1 << 48 | 1 << 24 */
#define NSYS_TID_B "281474993487875"

#endif
