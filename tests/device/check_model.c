/* Step 9: a machine file from half of the points, and what it predicts of the other half.
 *
 * The model is the simulator's: a fixed time and a rate, of bytes for copies and kernels, of FLOPs
 * for matrix products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/check.h"

enum { KINDS = POINT_KERNEL + 1 };

/* ns = fixed + per_unit * units, by least squares of relative errors; half of the points. */
struct line {
    double fixed_ns, per_unit;
    int points;
};

static double units(const struct check_point *point) {
    return point->kind == POINT_GEMM ? point->flops : point->bytes;
}

static bool is_fitted(const struct check_points *points, int index) {
    int before = 0;
    for (int i = 0; i < index; i++)
        before += points->items[i].kind == points->items[index].kind;
    return (before + before / 2) % 2 == 0; /* of two sizes of one kernel either */
}

/* Weights 1 / ns^2 make errors relative: small copies count as much as large ones. */
static struct line fit(const struct check_points *points, enum check_point_kind kind) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    struct line line = {0};
    for (int i = 0; i < points->count; i++) {
        const struct check_point *point = &points->items[i];
        if (point->kind != kind || !is_fitted(points, i) || point->ns <= 0)
            continue;
        double y = (double)point->ns, x = units(point), weight = 1 / (y * y);
        w += weight, wx += weight * x, wy += weight * y;
        wxx += weight * x * x, wxy += weight * x * y;
        line.points++;
    }
    double determinant = w * wxx - wx * wx;
    if (line.points >= 2 && determinant > 1e-9 * w * wxx) {
        line.per_unit = (w * wxy - wx * wy) / determinant;
        line.fixed_ns = (wy - line.per_unit * wx) / w;
    }
    return line;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void predict(struct check *check, enum check_point_kind kind, const struct line *line) {
    double errors[CHECK_POINTS_MAX];
    int count = 0;
    const char *text = check_point_kind_text(kind);
    for (int i = 0; i < check->points->count; i++) {
        const struct check_point *point = &check->points->items[i];
        if (point->kind != kind || is_fitted(check->points, i) || point->ns <= 0)
            continue;
        double ns = line->fixed_ns + line->per_unit * units(point);
        errors[count++] = fabs(ns - (double)point->ns) / (double)point->ns;
        check_say(check, text, CHECK_NOTE, "%s of %.3g %s: predicted %.1f us, measured %.1f us",
                  point->name, units(point), kind == POINT_GEMM ? "FLOP" : "bytes", ns / 1e3,
                  (double)point->ns / 1e3);
    }
    if (count == 0)
        return;
    qsort(errors, (size_t)count, sizeof *errors, by_value);
    check_say(check, text, CHECK_NOTE, "%d predicted: relative error %.1f %% median, %.1f %% most",
              count, 100 * errors[count / 2], 100 * errors[count - 1]);
}

static double rate(const struct line *line) {
    return line->per_unit > 0 ? 1e9 / line->per_unit : 0;
}

/* FP32 units of a multiprocessor: CUDA C++ Programming Guide, "Arithmetic Instructions". */
static double vector_peak(const struct orr_cuda_gpu *gpu) {
    int lanes = gpu->capability == 80 ? 64 : 128;
    return 2.0 * lanes * gpu->sm_count * gpu->clock_khz * 1e3;
}

/* What a machine can't do without (scenarios/machine.h) and wasn't found out, or NULL. */
static const char *missing(const struct orr_cuda_gpu *gpu, const struct line lines[KINDS]) {
    return gpu->memory_bytes == 0                ? "the GPU's memory"
           : vector_peak(gpu) < 1                ? "the GPU's clock"
           : rate(&lines[POINT_DEVICE_COPY]) < 1 ? "the rate of copies within the device"
           : rate(&lines[POINT_UPLOAD]) < 1      ? "the rate of uploads"
                                                 : NULL;
}

/* A figure of at least 1, else nothing: what wasn't measured is not there. */
static void write_figure(FILE *file, const char *key, double value, const char *of) {
    if (value >= 1)
        fprintf(file, "    %s = { %.0f, source = here .. \": %s\" },\n", key, value, of);
}

static void write_figures(FILE *file, const struct orr_cuda_gpu *gpu,
                          const struct line lines[KINDS]) {
    double matrix = rate(&lines[POINT_GEMM]), inside = rate(&lines[POINT_DEVICE_COPY]);
    fprintf(file,
            "-- %s, as orrery-device-check measured it.\n\n"
            "local here = \"measured by orrery-device-check on this machine\"\n\n"
            "return {\n"
            "    kind = \"gpu\",\n"
            "    memory_bytes = { %llu, source = \"its properties\" },\n"
            "    peak = {\n"
            "        vector = { f32 = { %.0f, source = \"its clock and FP32 units\" } },\n",
            gpu->name, (unsigned long long)gpu->memory_bytes, vector_peak(gpu));
    if (matrix >= 1)
        fprintf(file, "        matrix = { bf16 = { %.0f, source = here .. \": %s\" } },\n", matrix,
                "matrix products");
    fprintf(file, "    },\n");
    if (gpu->sm_count > 0)
        fprintf(file, "    sm_count = { %u, source = \"its attributes\" },\n", gpu->sm_count);
    write_figure(file, "bandwidth", inside, "copies within the device");
    write_figure(file, "peer_bandwidth", inside, "copies within the device, for want of a peer");
    write_figure(file, "host_bandwidth", rate(&lines[POINT_UPLOAD]), "uploads");
    write_figure(file, "host_latency_ns", lines[POINT_UPLOAD].fixed_ns, "uploads");
    write_figure(file, "kernel_fixed_ns", lines[POINT_KERNEL].fixed_ns, "kernels");
    fprintf(file, "}\n");
}

static void write_machine(struct check *check, const struct line lines[KINDS]) {
    const struct orr_cuda_gpu *gpu = &check->machine.gpus[0];
    const char *lacks = missing(gpu, lines);
    if (lacks) {
        check_say(check, "machine", CHECK_SKIP, "not written: %s was not measured", lacks);
        return;
    }
    FILE *file = fopen(check->machine_path, "w");
    if (!file) {
        check_say(check, "machine", CHECK_FAIL, "can't write '%s'", check->machine_path);
        return;
    }
    write_figures(file, gpu, lines);
    bool written = !ferror(file);
    written = fclose(file) == 0 && written;
    check_say(check, "machine", written ? CHECK_PASS : CHECK_FAIL, "%s", check->machine_path);
}

void check_model(struct check *check) {
    struct line lines[KINDS];
    if (check->points->count == 0) {
        check_say(check, "model", CHECK_SKIP, "no points were measured");
        return;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        lines[kind] = fit(check->points, (enum check_point_kind)kind);
        if (lines[kind].per_unit <= 0)
            continue;
        check_say(check, check_point_kind_text((enum check_point_kind)kind), CHECK_NOTE,
                  "fitted to %d points: %.2f us + %.4g per second", lines[kind].points,
                  lines[kind].fixed_ns / 1e3, rate(&lines[kind]));
        predict(check, (enum check_point_kind)kind, &lines[kind]);
    }
    if (check->machine_path && !check->fake)
        write_machine(check, lines);
    check_say(check, "model", check->fake ? CHECK_SKIP : CHECK_PASS, "%s",
              check->fake ? "a fake device's time means nothing" : "reported, without a threshold");
}
