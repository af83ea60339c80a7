#include "tests/cuda_collective_cases.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/splitmix.h"

enum { GUARD = 16 };

uint64_t case_first_seed(void) {
    const char *text = getenv("ORR_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

uint64_t case_draw(uint64_t *state, uint64_t below) {
    return orr_splitmix_next(state) % below;
}

void case_draw_group(struct collective_case *g, uint64_t *state, enum orr_collective_kind kind,
                     enum orr_dtype dtype, uint32_t ranks, uint64_t count_max) {
    memset(g, 0, sizeof *g);
    g->shape = (struct orr_collective){.kind = kind,
                                       .dtype = dtype,
                                       .communicator = 3,
                                       .ranks = ranks,
                                       .root = (uint32_t)case_draw(state, ranks),
                                       .count = case_draw(state, count_max + 1),
                                       .reduction = (enum orr_reduction)case_draw(state, 4)};
    uint64_t length = orr_collective_counts_length(kind, ranks), elements = 0;
    g->uneven = length > 0 && case_draw(state, 2);
    g->in_place = kind != ORR_COLLECTIVE_ALL_TO_ALL && case_draw(state, 2);
    for (uint64_t i = 0; i < length; i++) {
        g->counts[i] = g->uneven ? case_draw(state, count_max + 1) : g->shape.count;
        elements += g->counts[i];
    }
    if (kind == ORR_COLLECTIVE_SEND_RECEIVE) {
        g->transfer_count = (uint32_t)case_draw(state, ranks) + 1;
        for (uint32_t i = 0; i < g->transfer_count; i++) {
            g->sources[i] = (uint32_t)case_draw(state, ranks);
            g->targets[i] = (uint32_t)case_draw(state, ranks);
            g->sizes[i] = case_draw(state, count_max + 1);
            elements += g->sizes[i];
        }
    }
    elements = elements > g->shape.count ? elements : g->shape.count;
    g->bytes = ((size_t)elements * orr_dtype_size(dtype) + GUARD + 7) / 8 * 8;
}

static unsigned char *area(const struct collective_case *g, const struct collective_world *w,
                           uint32_t rank, int out) {
    return w->memory[rank] + (size_t)out * g->bytes;
}

/* Where the rank's operands are, with their own piece in place if it is to be. */
static void place(const struct collective_case *g, struct collective_world *w,
                  struct orr_collective *m) {
    size_t size = orr_dtype_size(g->shape.dtype);
    unsigned char *in = area(g, w, m->rank, 0), *out = area(g, w, m->rank, 1);
    uint64_t piece, first = 0;
    switch (m->kind) {
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_GATHER:
        first = orr_collective_piece(m, m->rank, &piece);
        if (g->in_place && (m->kind == ORR_COLLECTIVE_ALL_GATHER || m->rank == m->root))
            in = out + first * size;
        break;
    case ORR_COLLECTIVE_REDUCE_SCATTER:
    case ORR_COLLECTIVE_SCATTER:
        first = orr_collective_piece(m, m->rank, &piece);
        if (g->in_place && (m->kind == ORR_COLLECTIVE_REDUCE_SCATTER || m->rank == m->root))
            out = in + first * size;
        break;
    default: out = g->in_place ? in : out; break;
    }
    m->in = in;
    m->out = out;
}

static bool takes_part(const struct collective_case *g, uint32_t rank) {
    bool part = g->shape.kind != ORR_COLLECTIVE_SEND_RECEIVE;
    for (uint32_t i = 0; i < g->transfer_count; i++)
        part = part || g->sources[i] == rank || g->targets[i] == rank;
    return part;
}

void case_world(const struct collective_case *g, struct collective_world *w,
                unsigned char *const *memory) {
    memset(w, 0, sizeof *w);
    memcpy(w->memory, memory, g->shape.ranks * sizeof *memory);
    size_t size = orr_dtype_size(g->shape.dtype), at = 0;
    for (uint32_t i = 0; i < g->transfer_count; i++) {
        w->transfers[i] = (struct orr_transfer){.source = g->sources[i],
                                                .target = g->targets[i],
                                                .count = g->sizes[i],
                                                .from = area(g, w, g->sources[i], 0),
                                                .to = area(g, w, g->targets[i], 1) + at};
        at += g->sizes[i] * size;
    }
    for (uint32_t rank = 0; rank < g->shape.ranks; rank++) {
        struct orr_collective *m = &w->members[w->count];
        if (!takes_part(g, rank))
            continue;
        *m = g->shape;
        m->rank = rank;
        m->counts = g->uneven ? g->counts : NULL;
        m->transfers = g->transfer_count ? w->transfers : NULL;
        m->transfer_count = g->transfer_count;
        if (m->kind != ORR_COLLECTIVE_SEND_RECEIVE && m->kind != ORR_COLLECTIVE_BARRIER)
            place(g, w, m);
        w->list[w->count++] = m;
    }
}

void case_draw_memory(const struct collective_case *g, uint64_t *state, unsigned char *memory,
                      size_t bytes) {
    size_t size = orr_dtype_size(g->shape.dtype);
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)case_draw(state, 256);
    for (size_t i = 0; i + size <= bytes && orr_dtype_is_float(g->shape.dtype); i += size) {
        static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
        uint64_t which = case_draw(state, 40);
        double x = which < 5 ? special[which] : ((double)case_draw(state, 2001) - 1000) / 64;
        orr_dtype_convert(g->shape.dtype, memory + i, ORR_DTYPE_F64, &x, 1);
    }
}

static bool same_element(enum orr_dtype dtype, const unsigned char *a, const unsigned char *b) {
    double x = 0, y = 0;
    size_t size = orr_dtype_size(dtype);
    if (memcmp(a, b, size) == 0 || !orr_dtype_is_float(dtype))
        return memcmp(a, b, size) == 0;
    unsigned char aligned[2][8];
    memcpy(aligned[0], a, size);
    memcpy(aligned[1], b, size);
    orr_dtype_convert(ORR_DTYPE_F64, &x, dtype, aligned[0], 1);
    orr_dtype_convert(ORR_DTYPE_F64, &y, dtype, aligned[1], 1);
    return isnan(x) && isnan(y); /* only their payloads differ */
}

void case_compare(const struct collective_case *g, uint32_t rank, const unsigned char *expected,
                  const unsigned char *got, uint64_t seed) {
    size_t size = orr_dtype_size(g->shape.dtype);
    for (size_t a = 0; a < 2; a++)
        for (size_t at = 0; at < g->bytes; at += size) {
            size_t i = a * g->bytes + at;
            if (!same_element(g->shape.dtype, expected + i, got + i))
                fail_msg("seed %" PRIu64 ": %s of %s over %u ranks, %s%s: rank %u, %s, element "
                         "%zu differs",
                         seed, orr_collective_kind_text(g->shape.kind),
                         orr_dtype_name(g->shape.dtype), g->shape.ranks,
                         g->uneven ? "uneven, " : "", g->in_place ? "in place" : "apart", rank,
                         a ? "out" : "in", at / size);
        }
}
