#include "bench/bench.h"

#include <limits.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_s(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double bench_wall_s(void) {
    return clock_s(CLOCK_MONOTONIC);
}

double bench_thread_cpu_s(void) {
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_cpu_s(void) {
    return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

bool bench_quick(void) {
    const char *quick = getenv("BENCH_QUICK");
    return quick && *quick && strcmp(quick, "0") != 0;
}

int bench_rounds(void) {
    return bench_quick() ? 3 : 5;
}

void bench_keep_memory(void) {
    enum { PLENTY = 1 << 30 };
    mallopt(M_MMAP_THRESHOLD, PLENTY);
    mallopt(M_TRIM_THRESHOLD, PLENTY);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void bench_value(const char *name, double value, const char *unit) {
    printf("%s,%.6g,%s\n", name, value, unit);
    fflush(stdout);
}

void bench_valuef(double value, const char *unit, const char *format, ...) {
    char name[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    bench_value(name, value, unit);
}

void bench_must(bool condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void bench_check(enum orr_status status, const char *what) {
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, orr_status_text(status));
    exit(1);
}

/* Peers lie beside the benchmarks, in peers/. */
static void peer_path(const char *name, char *path, size_t size) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    bench_must(length > 0, "where am I?");
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    int written = snprintf(path, size, "%s/peers/%s", self, name);
    bench_must(written > 0 && (size_t)written < size, "the path of a peer is too long");
}

bool bench_peer_exists(const char *name) {
    char path[PATH_MAX + 64];
    peer_path(name, path, sizeof path);
    if (access(path, X_OK) == 0)
        return true;
    printf("skipped: peer %s (its library is not installed)\n", name);
    fflush(stdout);
    return false;
}

void bench_peer_run(const char *name, const char *arguments, double *out_values, int count) {
    char path[PATH_MAX + 64], command[2 * PATH_MAX];
    peer_path(name, path, sizeof path);
    snprintf(command, sizeof command, "'%s' %s 2>/dev/null", path, arguments);
    FILE *pipe = popen(command, "r");
    bench_must(pipe != NULL, "popen");
    for (int i = 0; i < count; i++)
        bench_must(fscanf(pipe, "%lf", &out_values[i]) == 1, "a peer printed no number");
    bench_must(pclose(pipe) == 0, "a peer failed");
}
