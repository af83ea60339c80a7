#include "runtime/device_spec.h"

#include <assert.h>
#include <stddef.h>

uint64_t orr_device_spec_peak(const struct orr_device_spec *spec, enum orr_unit unit,
                              enum orr_dtype dtype) {
    assert(unit == ORR_UNIT_VECTOR || unit == ORR_UNIT_MATRIX);
    /* Commands that are not tensor work have no dtype; they are counted like f32. */
    size_t column = dtype < ORR_DTYPE_COUNT ? (size_t)dtype : (size_t)ORR_DTYPE_F32;
    if (spec->peak[unit][column] > 0)
        return spec->peak[unit][column];
    if (spec->peak[ORR_UNIT_VECTOR][column] > 0)
        return spec->peak[ORR_UNIT_VECTOR][column];
    return spec->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32];
}

uint32_t orr_curve_at(const struct orr_curve *curve, uint64_t x) {
    assert(curve->point_count >= 0 && curve->point_count <= ORR_CURVE_POINTS_MAX);
    if (curve->point_count == 0)
        return ORR_PPM;
    if (x <= curve->x[0])
        return curve->ppm[0];
    int32_t right = 1;
    while (right < curve->point_count && x > curve->x[right])
        right++;
    if (right == curve->point_count)
        return curve->ppm[right - 1];
    uint64_t x0 = curve->x[right - 1], x1 = curve->x[right];
    assert(x0 < x && x <= x1);
    /* Weighted mean of both ends, rounded down: 128 bits hold 2^64 * 10^6. The weights add up to
     * x1 - x0, so a falling curve is rounded the same way as a rising one. */
    unsigned __int128 sum = (unsigned __int128)curve->ppm[right - 1] * (x1 - x) +
                            (unsigned __int128)curve->ppm[right] * (x - x0);
    return (uint32_t)(sum / (x1 - x0));
}
