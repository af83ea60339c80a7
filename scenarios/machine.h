/* Machines as data: a device, a node or a cluster of devices, described by a Lua table.
 *
 * A machine file returns one table. Each figure is {value, source = "where it is from"}; values are
 * in base units (byte, byte/s, FLOP/s, ns, count, share of 1). The file runs in a state without any
 * library. sim/fake_devices/ holds the built-in ones; another is given by its path.
 *
 *     return {
 *         base = "h100-sxm",                -- optional: start from another machine
 *         kind = "gpu",                     -- gpu, cpu
 *         devices = 8,                      -- of one such machine; default 1, or the base's
 *         memory_bytes = { 80e9, source = "vendor's data sheet" },
 *         bandwidth = { 3.35e12, source = "..." },
 *         peak = { vector = { f32 = { 67e12, source = "..." } }, matrix = { ... } },
 *         matrix_efficiency = { { 1e8, 0.02 }, { 1e12, 0.7 }, source = "..." },   -- by FLOPs
 *         ...                               -- the other fields of struct orr_device_spec
 *     }
 *
 * Needed are kind, memory_bytes, bandwidth, peak.vector.f32, peer_bandwidth and host_bandwidth, and
 * with devices_per_node also network_bandwidth: a link without a figure would be a free one.
 * Counts, bytes and times are whole numbers.
 *
 *     struct orr_machine *machine;
 *     if (orr_machine_load("dgx-h100", &memory, &machine, &error) != ORR_OK) ...
 *     for (i = 0; i < machine->devices; i++) specs[i] = machine->spec;
 *     orr_machine_destroy(&machine);
 *
 * Threads: pure functions on their own state; a machine is immutable once loaded. */
#ifndef ORR_SCENARIOS_MACHINE_H
#define ORR_SCENARIOS_MACHINE_H

#include <stddef.h>

#include "runtime/device_spec.h"
#include "runtime/error.h"
#include "runtime/memory.h"

enum { ORR_MACHINE_KEY_MAX = 48, ORR_MACHINE_VALUE_MAX = 160, ORR_MACHINE_SOURCE_MAX = 400 };

/* One figure as a person reads it. */
struct orr_machine_figure {
    char key[ORR_MACHINE_KEY_MAX];       /* "bandwidth", "peak.matrix.bf16" */
    char value[ORR_MACHINE_VALUE_MAX];   /* "3.35 TB/s" */
    char source[ORR_MACHINE_SOURCE_MAX]; /* never empty */
};

struct orr_machine {
    struct orr_device_spec spec;
    uint32_t devices;                  /* that one such machine has, 1 or more */
    char note[ORR_MACHINE_SOURCE_MAX]; /* a sentence about it; "" */
    struct orr_machine_figure *figures;
    size_t figure_count;
    const struct orr_memory *memory; /* borrowed until destroy */
};

/* Loads a built-in machine by name or alias ("h100"), or a file if `name` holds a '/' or ends in
 * ".lua". Owned by the caller. ORR_INVALID: no such machine (names the nearest), or what is wrong
 * in the file, with file and line where there is one; ORR_IO: the file can't be read;
 * ORR_NO_MEMORY. */
enum orr_status orr_machine_load(const char *name, const struct orr_memory *memory,
                                 struct orr_machine **out_machine,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* Parses the text of a machine file; `name` stands in messages and becomes the spec's name. */
enum orr_status orr_machine_parse(const char *name, const char *text, size_t length,
                                  const struct orr_memory *memory, struct orr_machine **out_machine,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* Frees and nulls; accepts NULL. */
void orr_machine_destroy(struct orr_machine **machine);

/* Names of the built-in machines, in alphabetical order; static storage, NULL past the end. */
const char *orr_machine_name(int index);
/* The other name of a built-in machine ("h100" for "h100-sxm"), or NULL. */
const char *orr_machine_alias(const char *name);

/* Reads a whole text file of at most 16 MiB; the text is owned by the caller (orr_memory_free) and
 * has a NUL behind it. ORR_IO with the reason; ORR_INVALID for a folder or too long a file. */
enum orr_status orr_text_file_read(const char *path, const struct orr_memory *memory,
                                   char **out_text, size_t *out_length,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
