/* The fake as a library that takes the CUDA runtime's place: libcudart.so.13 on LD_LIBRARY_PATH. It
 * opens itself at the first call, by what ORRERY_FAKE_CUDA says:
 *
 *     ORRERY_FAKE_CUDA="gpus=2 engine=simulated memory=1073741824 seed=7 jitter=2000 \
 *                       faults=cudaMalloc:3:2 driver=none blocks=threads"
 *
 * Words may be left out; without any it has one GPU, run by threads. `driver` is none, stub, nogpu
 * or a version as 12040. It is never closed: as with CUDA, that is the end of the process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { WORD_MAX = 512 };

static bool number(const char *text, uint64_t *out_number) {
    char *end;
    *out_number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

static bool driver(const char *value, struct orr_fake_cuda_options *options) {
    uint64_t n = 0;
    options->driver_version = strcmp(value, "none") == 0    ? ORR_FAKE_NO_DRIVER
                              : strcmp(value, "stub") == 0  ? ORR_FAKE_STUB_DRIVER
                              : strcmp(value, "nogpu") == 0 ? ORR_FAKE_NO_GPU
                              : number(value, &n)           ? (int)n
                                                            : 0;
    return options->driver_version != 0;
}

/* One word; `faults` keeps the text of the plan. */
static bool understand(const char *key, const char *value, struct orr_fake_cuda_options *options,
                       char *faults) {
    uint64_t n = 0;
    if (strcmp(key, "engine") == 0) {
        bool simulated = strcmp(value, "simulated") == 0;
        options->engine = simulated ? ORR_FAKE_SIMULATED : ORR_FAKE_THREADS;
        return simulated || strcmp(value, "threads") == 0;
    }
    if (strcmp(key, "faults") == 0) {
        snprintf(faults, WORD_MAX, "%s", value);
        options->faults = faults;
        return true;
    }
    if (strcmp(key, "driver") == 0) {
        return driver(value, options);
    }
    if (strcmp(key, "blocks") == 0) {
        options->block_threads = strcmp(value, "threads") == 0;
        return options->block_threads;
    }
    if (!number(value, &n)) {
        return false;
    }
    if (strcmp(key, "gpus") == 0) {
        options->gpu_count = (uint32_t)n;
    } else if (strcmp(key, "memory") == 0) {
        options->memory_bytes = n;
    } else if (strcmp(key, "seed") == 0) {
        options->seed = n;
    } else if (strcmp(key, "jitter") == 0) {
        options->jitter_ns = (int64_t)n;
    } else if (strcmp(key, "drops") == 0) {
        options->cupti_drops = n;
    } else {
        return false;
    }
    return true;
}

static bool read_options(const char *text, struct orr_fake_cuda_options *options, char *faults) {
    while (*text) {
        char word[WORD_MAX];
        text += strspn(text, " ");
        size_t length = strcspn(text, " ");
        if (length == 0) {
            break;
        }
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        text += length;
        char *value = strchr(word, '=');
        if (value) {
            *value++ = '\0';
        }
        if (!value || length >= sizeof word || !understand(word, value, options, faults)) {
            fprintf(stderr, "ORRERY_FAKE_CUDA: '%s' is no word of the fake CUDA devices\n", word);
            return false;
        }
    }
    return true;
}

struct orr_fake_cuda *orr__fake_shim_open(void) {
    struct orr_fake_cuda_options options = {.engine = ORR_FAKE_THREADS};
    const char *text = getenv("ORRERY_FAKE_CUDA");
    char faults[WORD_MAX];
    if (text && !read_options(text, &options, faults)) {
        return NULL;
    }
    /* Lives as long as the process. */
    const struct orr_memory system = orr_memory_system();
    struct orr_memory *memory = orr_memory_alloc(&system, sizeof *memory);
    struct orr_fake_cuda *fake = NULL;
    struct orr_error error = {0};
    if (!memory) {
        return NULL;
    }
    *memory = system;
    if (orr_fake_cuda_open(&options, memory, &fake, &error) != ORR_OK) {
        fprintf(stderr, "ORRERY_FAKE_CUDA: %s\n", error.text);
        orr_memory_free(&system, memory);
    }
    return fake;
}
