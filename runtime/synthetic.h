/* What a synthetic kernel computes: numbers that show a wrong order.
 *
 * A kernel without arithmetic of its own reads all bytes of its read ranges into a digest and fills
 * its written ranges from that digest, its name and the position. So a kernel that ran too early,
 * or in a wrong order, leaves other numbers behind. Written words are f32 values in [-1, 1), so
 * that scenarios can print and compare them. Not a cryptographic hash.
 *
 *     struct orr__synthetic synthetic;
 *     orr__synthetic_begin(&synthetic, "produce");
 *     orr__synthetic_read(&synthetic, input, input_bytes);
 *     orr__synthetic_write(&synthetic, output, output_bytes);
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_SYNTHETIC_H
#define ORR_RUNTIME_SYNTHETIC_H

#include <stddef.h>
#include <stdint.h>

struct orr__synthetic {
    uint64_t digest;
};

/* `name` is the kernel's. */
void orr__synthetic_begin(struct orr__synthetic *synthetic, const char *name);

/* Takes a range in; the order of ranges counts. All reads come before the first write. */
void orr__synthetic_read(struct orr__synthetic *synthetic, const void *from, size_t bytes);

/* Fills a range; each range of a kernel gets other numbers. */
void orr__synthetic_write(struct orr__synthetic *synthetic, void *to, size_t bytes);

#endif
