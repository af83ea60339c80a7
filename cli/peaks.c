#include "cli/peaks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/machine.h"

/* Names as drivers report them: CUDA's and HIP's deviceProperties, nsys' TARGET_INFO_GPU. */
static const struct board {
    const char *name, *machine;
    int same_memory; /* 0: the machine's chip, but not its memory */
} boards[] = {
    {"NVIDIA A100-SXM4-80GB", "a100-sxm", 1},
    {"NVIDIA A100-SXM4-40GB", "a100-sxm", 0},
    {"A100-SXM4-80GB", "a100-sxm", 1},
    {"A100-SXM4-40GB", "a100-sxm", 0},
    {"NVIDIA H100 80GB HBM3", "h100-sxm", 1},
    {"NVIDIA H200", "h200", 1},
    {"NVIDIA B200", "b200", 1},
    {"NVIDIA L4", "l4", 1},
    {"AMD Instinct MI300X", "mi300x", 1},
};

/* In a timeline of several ranks, "rank 3 GPU 0: " stands before the name (trace/merge.h). */
static const struct board *board_of(const char *name) {
    const char *behind = strncmp(name, "rank ", 5) == 0 ? strstr(name, ": ") : NULL;
    name = behind ? behind + 2 : name;
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++)
        if (strcmp(boards[i].name, name) == 0)
            return &boards[i];
    return NULL;
}

/* Sizes are told with what firmware keeps for itself, in powers of 1000 or of 1024: a tenth apart
 * is the same. */
static int is_plausible(const struct orr_timeline_device *device, const struct board *board,
                        const struct orr_device_spec *spec) {
    uint64_t told = device->mem_bytes, known = spec->memory_bytes;
    if (device->multiprocessors && spec->sm_count && device->multiprocessors != spec->sm_count)
        return 0;
    if (!board->same_memory || !told || !known)
        return 1;
    return told / 10 * 9 <= known && known / 10 * 9 <= told;
}

static void fill(struct orr_timeline_device *device, const struct board *board,
                 const struct orr_device_spec *spec) {
    if (device->bandwidth == 0 && board->same_memory)
        device->bandwidth = spec->bandwidth;
    for (int unit = 0; unit < 2; unit++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
            if (device->peak[unit][dtype] == 0)
                device->peak[unit][dtype] = spec->peak[unit][dtype];
    device->profile = board->machine;
}

enum orr_status orr_cli_fill_peaks(const struct orr_cli *cli, struct orr_timeline *timeline,
                                   struct orr_error *error) {
    if (strcmp(timeline->source.format, "orrery") == 0)
        return ORR_OK;
    for (size_t i = 0; i < timeline->device_count; i++) {
        struct orr_timeline_device *device = &timeline->devices[i];
        const struct board *board = board_of(device->name);
        struct orr_machine *machine;
        if (!board)
            continue;
        enum orr_status status = orr_machine_load(board->machine, cli->memory, &machine, error);
        if (status != ORR_OK)
            return status;
        if (is_plausible(device, board, &machine->spec))
            fill(device, board, &machine->spec);
        orr_machine_destroy(&machine);
    }
    return ORR_OK;
}

/* A rate from 1 to 2^63, the whole text. */
static int read_rate(const char *text, size_t length, uint64_t *out_rate) {
    char word[64], *end;
    if (length == 0 || length >= sizeof word)
        return 0;
    memcpy(word, text, length);
    word[length] = '\0';
    errno = 0;
    double value = strtod(word, &end);
    if (errno != 0 || *end != '\0' || !(value >= 1) || value >= 9.2e18)
        return 0;
    *out_rate = (uint64_t)value;
    return 1;
}

const char *orr_cli_parse_peaks(const char *text, struct orr_analysis_peaks *out_peaks) {
    static const char *const units[] = {"vector.", "matrix."};
    static const char expected[] =
        "--peak takes UNIT.DTYPE=FLOP/s, as matrix.bf16=989e12, several joined by commas; units "
        "are vector and matrix";
    while (text) {
        int unit = strncmp(text, units[0], 7) == 0 ? 0 : strncmp(text, units[1], 7) == 0 ? 1 : -1;
        const char *equals = strchr(text, '='), *comma = strchr(text, ',');
        size_t length = comma ? (size_t)(comma - text) : strlen(text);
        char name[16];
        enum orr_dtype dtype;
        if (unit < 0 || !equals || equals > text + length ||
            (size_t)(equals - text) - 7 >= sizeof name)
            return expected;
        memcpy(name, text + 7, (size_t)(equals - text) - 7);
        name[equals - text - 7] = '\0';
        if (orr_dtype_parse(name, &dtype) != ORR_OK ||
            !read_rate(equals + 1, length - (size_t)(equals + 1 - text),
                       &out_peaks->flops[unit][dtype]))
            return expected;
        text = comma ? comma + 1 : NULL;
    }
    return NULL;
}

const char *orr_cli_parse_bandwidth(const char *text, struct orr_analysis_peaks *out_peaks) {
    if (text && !read_rate(text, strlen(text), &out_peaks->bandwidth))
        return "--bandwidth takes a rate in byte/s, as 3.35e12";
    return NULL;
}
