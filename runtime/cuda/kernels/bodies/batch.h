/* Loads of several elements of a row at once, for one type: a thread that waits for one load before
 * it asks for the next leaves most of a GPU's bandwidth idle, above all with elements of two bytes.
 * REAL is the type, NAME(x) is x with its suffix, LOAD reads an element. Included once for each. */

#ifndef ORR__BATCH
#define ORR__BATCH 4 /* 8 KiB of bf16 for each 1024 threads of an SM */
#endif

/* Elements i, i + step, ... of those from `first` on; `rest` in the place of what is past
 * `count`. */
DEVICE void NAME(load_batch)(const void *x, int dtype, int64_t first, int64_t i, int64_t step,
                             int64_t count, REAL rest, REAL *batch) {
    for (int k = 0; k < ORR__BATCH; k++) {
        int64_t at = i + k * step;
        batch[k] = at < count ? LOAD(x, dtype, first + at) : rest;
    }
}
