/* The fake as a library that takes the CUDA runtime's place: libcudart.so.13 on LD_LIBRARY_PATH. It
 * opens itself at the first call, by what ORRERY_FAKE_CUDA says:
 *
 *     ORRERY_FAKE_CUDA="gpus=2 engine=simulated memory=1073741824 seed=7 jitter=2000 \
 *                       faults=cudaMalloc:3:2 driver=none blocks=threads"
 *
 * Words may be left out; without any it has one GPU, run by threads. `driver` is none, stub, nogpu
 * or a version as 12040. With a word that is none, all calls fail and say which. It is never
 * closed: as with CUDA, that is the end of the process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { WORD_MAX = 512 };

/* What lives as long as the process. */
struct shim {
    struct orr_memory memory;
    struct orr_fake_cuda_options options;
    char faults[WORD_MAX];
    char refusal[ORR_ERROR_TEXT_MAX];
    uint32_t seen; /* a bit for each word that was there */
};

enum word { GPUS, ENGINE, MEMORY, DRIVER, FAULTS, SEED, JITTER, BLOCKS, DROPS, WORDS };

static const struct {
    const char *key, *expected;
} words[WORDS] = {
    [GPUS] = {"gpus", "a number from 1 to 64"},
    [ENGINE] = {"engine", "threads or simulated"},
    [MEMORY] = {"memory", "a number of bytes"},
    [DRIVER] = {"driver", "none, stub, nogpu or a version as 12040"},
    [FAULTS] = {"faults", "function:nth:code[!],..."},
    [SEED] = {"seed", "a number"},
    [JITTER] = {"jitter", "a number of nanoseconds"},
    [BLOCKS] = {"blocks", "threads"},
    [DROPS] = {"drops", "a number of records"},
};
_Static_assert(ORR__FAKE_GPUS_MAX == 64, "as the text says");

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *out_number) {
    char *end;
    errno = 0;
    *out_number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *out_number >= least &&
           *out_number <= most;
}

static bool driver(const char *value, struct orr_fake_cuda_options *options) {
    uint64_t n = 0;
    options->driver_version = strcmp(value, "none") == 0        ? ORR_FAKE_NO_DRIVER
                              : strcmp(value, "stub") == 0      ? ORR_FAKE_STUB_DRIVER
                              : strcmp(value, "nogpu") == 0     ? ORR_FAKE_NO_GPU
                              : number(value, 1, INT32_MAX, &n) ? (int)n
                                                                : 0;
    return options->driver_version != 0;
}

/* `faults` keeps the text of the plan. */
static bool take_value(enum word word, const char *value, struct orr_fake_cuda_options *options,
                       char *faults) {
    uint64_t n = 0;
    bool good = true;
    switch (word) {
    case GPUS:
        good = number(value, 1, ORR__FAKE_GPUS_MAX, &n);
        options->gpu_count = (uint32_t)n;
        return good;
    case ENGINE: {
        bool simulated = strcmp(value, "simulated") == 0;
        options->engine = simulated ? ORR_FAKE_SIMULATED : ORR_FAKE_THREADS;
        return simulated || strcmp(value, "threads") == 0;
    }
    case MEMORY: return number(value, 1, INT64_MAX, &options->memory_bytes);
    case DRIVER: return driver(value, options);
    case FAULTS:
        snprintf(faults, WORD_MAX, "%s", value);
        options->faults = faults;
        return true;
    case SEED: return number(value, 0, UINT64_MAX, &options->seed);
    case JITTER:
        good = number(value, 0, INT64_MAX, &n);
        options->jitter_ns = (int64_t)n;
        return good;
    case BLOCKS: return options->block_threads = strcmp(value, "threads") == 0;
    case DROPS: return number(value, 0, UINT64_MAX, &options->cupti_drops);
    case WORDS: break;
    }
    return false;
}

static enum word find(const char *text, size_t key_length) {
    int i = 0;
    while (i < WORDS &&
           !(strlen(words[i].key) == key_length && strncmp(words[i].key, text, key_length) == 0)) {
        i++;
    }
    return (enum word)i;
}

/* One word, "key=value"; false with the shim's refusal. */
static bool read_word(struct shim *shim, const char *text) {
    size_t key_length = strcspn(text, "=");
    enum word word = text[key_length] ? find(text, key_length) : WORDS;
    char *refusal = shim->refusal;
    size_t size = sizeof shim->refusal;
    if (word == WORDS) {
        int used = snprintf(refusal, size, "ORRERY_FAKE_CUDA: '%s': expected", text);
        for (int i = 0; i < WORDS && used > 0 && (size_t)used < size; i++) {
            used += snprintf(refusal + used, size - (size_t)used, "%s%s=",
                             i == 0           ? " "
                             : i == WORDS - 1 ? " or "
                                              : ", ",
                             words[i].key);
        }
        return false;
    }
    if (shim->seen & 1U << word) {
        snprintf(refusal, size, "ORRERY_FAKE_CUDA: '%s': %s= is there twice", text,
                 words[word].key);
        return false;
    }
    shim->seen |= 1U << word;
    if (!take_value(word, text + key_length + 1, &shim->options, shim->faults)) {
        snprintf(refusal, size, "ORRERY_FAKE_CUDA: '%s': expected %s", text, words[word].expected);
        return false;
    }
    return true;
}

static bool read_options(struct shim *shim, const char *text) {
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        char word[WORD_MAX];
        size_t length = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (length >= sizeof word) {
            snprintf(shim->refusal, sizeof shim->refusal,
                     "ORRERY_FAKE_CUDA: a word of %zu characters: expected at most %d", length,
                     WORD_MAX - 1);
            return false;
        }
        if (!read_word(shim, word)) {
            return false;
        }
        text += length;
    }
    return true;
}

struct orr_fake_cuda *orr__fake_shim_open(void) {
    const char *text = getenv("ORRERY_FAKE_CUDA");
    const struct orr_memory system = orr_memory_system();
    struct shim *shim = orr_memory_alloc(&system, sizeof *shim);
    struct orr_fake_cuda *fake = NULL;
    struct orr_error error = {0};
    if (!shim) {
        return NULL;
    }
    *shim = (struct shim){.memory = system, .options = {.engine = ORR_FAKE_THREADS}};
    if ((!text || read_options(shim, text)) &&
        orr_fake_cuda_open(&shim->options, &shim->memory, &fake, &error) == ORR_OK) {
        return fake;
    }
    if (!shim->refusal[0]) {
        snprintf(shim->refusal, sizeof shim->refusal, "ORRERY_FAKE_CUDA: %.*s",
                 ORR_ERROR_TEXT_MAX / 2, error.text);
    }
    shim->options = (struct orr_fake_cuda_options){.refusal = shim->refusal};
    if (orr_fake_cuda_open(&shim->options, &shim->memory, &fake, &error) != ORR_OK) {
        orr_memory_free(&system, shim);
    }
    return fake;
}
