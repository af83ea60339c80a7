/* The main() of every tests/fuzz_*.c: feeds mutated inputs to LLVMFuzzerTestOneInput.
 *
 * The targets have libFuzzer's entry point, so that a coverage-guided engine can be linked instead;
 * this one needs nothing but a C compiler. Input number i depends on the seed, i and the corpus
 * only, so a failure is repeated by its number alone:
 *
 *     build/asan/tests/fuzz_trace [-runs=N] [-seed=S] [-first=I] [-seconds=T] [FILE...]
 *
 * With FILEs it runs those once, unchanged, and stops. Else it mutates the files of the folder
 * tests/data/<name of the program>/, where there is one. Prints one TAP case. A crash prints the
 * command that repeats it and leaves the input in a file crash-<name>-<seed>-<number>. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "runtime/splitmix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { INPUT_BYTES_MAX = 1 << 16, CORPUS_MAX = 1024 };

struct input {
    uint8_t *data;
    size_t size;
};

/* One program, one thread; the handler of a crash has no argument, so this is global. */
static struct {
    const char *name;
    uint64_t seed, number, random;
    struct input corpus[CORPUS_MAX];
    size_t corpus_count;
    uint8_t buffer[INPUT_BYTES_MAX];
    size_t size;
} fuzz;

static uint64_t draw(void) {
    return orr_splitmix_next(&fuzz.random);
}

static size_t draw_below(size_t limit) {
    return limit == 0 ? 0 : (size_t)(draw() % limit);
}

static void remember_crash(void) {
    char path[512];
    snprintf(path, sizeof path, "crash-%s-%" PRIu64 "-%" PRIu64, fuzz.name, fuzz.seed, fuzz.number);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fwrite(fuzz.buffer, 1, fuzz.size, file);
        fclose(file);
    }
    printf("not ok 1 - %s: input %" PRIu64 " of seed %" PRIu64 "\n# repeat: -seed=%" PRIu64
           " -first=%" PRIu64 " -runs=1; the input is in %s\n",
           fuzz.name, fuzz.number, fuzz.seed, fuzz.seed, fuzz.number, path);
    fflush(stdout);
}

static void on_signal(int number) {
    remember_crash();
    signal(number, SIG_DFL);
    raise(number);
}

static bool read_file(const char *path, struct input *out_input) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    out_input->data = malloc(INPUT_BYTES_MAX);
    out_input->size = out_input->data ? fread(out_input->data, 1, INPUT_BYTES_MAX, file) : 0;
    fclose(file);
    return out_input->data != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Sorted by name, because the number of an input has to mean the same everywhere. */
static void read_corpus(void) {
    char path[1024];
    snprintf(path, sizeof path, "tests/data/%s", fuzz.name);
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.' && fuzz.corpus_count < CORPUS_MAX) {
            snprintf(path, sizeof path, "tests/data/%s/%s", fuzz.name, entries[i]->d_name);
            if (read_file(path, &fuzz.corpus[fuzz.corpus_count])) {
                fuzz.corpus_count++;
            }
        }
        free(entries[i]);
    }
    free(entries);
}

static void insert(size_t at, const uint8_t *data, size_t size) {
    if (size > INPUT_BYTES_MAX - fuzz.size) {
        size = INPUT_BYTES_MAX - fuzz.size;
    }
    memmove(fuzz.buffer + at + size, fuzz.buffer + at, fuzz.size - at);
    memmove(fuzz.buffer + at, data, size);
    fuzz.size += size;
}

static void erase(size_t at, size_t size) {
    memmove(fuzz.buffer + at, fuzz.buffer + at + size, fuzz.size - at - size);
    fuzz.size -= size;
}

/* A piece of some corpus file: what one file says in one place, said in another. */
static void splice(size_t at) {
    if (fuzz.corpus_count == 0) {
        return;
    }
    const struct input *other = &fuzz.corpus[draw_below(fuzz.corpus_count)];
    size_t from = draw_below(other->size);
    insert(at, other->data + from, draw_below(other->size - from + 1) % 256);
}

static void mutate_once(void) {
    static const char *const tokens[] = {"0",     "-1",   "9223372036854775807",
                                         "1e999", "null", "true",
                                         "{",     "}",    "[",
                                         "]",     "\"",   "\\u0000",
                                         "\n",    ",",    ":",
                                         "=",     "*",    "18446744073709551616",
                                         "0x",    "\\",   "-",
                                         "nan",   "'",    "--"};
    static const uint8_t bytes[] = {0x00, 0xff, 0x7f, 0x80, '\n', '"', '0', ' '};
    size_t at = draw_below(fuzz.size + 1);
    size_t left = fuzz.size - at;
    const char *token = tokens[draw_below(sizeof tokens / sizeof tokens[0])];
    uint8_t copy[256];
    switch (draw_below(8)) {
    case 0:
        if (left > 0) {
            fuzz.buffer[at] ^= (uint8_t)(1u << draw_below(8));
        }
        break;
    case 1:
        if (left > 0) {
            fuzz.buffer[at] = bytes[draw_below(sizeof bytes)];
        }
        break;
    case 2:
        if (left > 0) {
            fuzz.buffer[at] = (uint8_t)draw();
        }
        break;
    case 3: erase(at, draw_below(left + 1) % 64); break;
    case 4:
        left = left % sizeof copy;
        memcpy(copy, fuzz.buffer + at, left);
        insert(draw_below(fuzz.size + 1), copy, left);
        break;
    case 5: insert(at, (const uint8_t *)token, strlen(token)); break;
    case 6: splice(at); break;
    default:
        if (draw_below(4) == 0) {
            fuzz.size = at; /* truncated */
        }
        break;
    }
}

static void make_input(uint64_t number) {
    fuzz.number = number;
    fuzz.random = fuzz.seed * 0x2545f4914f6cdd1du + number;
    fuzz.size = 0;
    if (fuzz.corpus_count > 0) {
        const struct input *base = &fuzz.corpus[draw_below(fuzz.corpus_count)];
        memcpy(fuzz.buffer, base->data, base->size);
        fuzz.size = base->size;
    } else {
        fuzz.size = draw_below(256);
        for (size_t i = 0; i < fuzz.size; i++) {
            fuzz.buffer[i] = (uint8_t)draw();
        }
    }
    for (size_t count = 1 + draw_below(8); count > 0; count--) {
        mutate_once();
    }
}

static int run_files(char **paths, int count) {
    for (int i = 0; i < count; i++) {
        struct input input;
        if (!read_file(paths[i], &input)) {
            fprintf(stderr, "%s: can't be read\n", paths[i]);
            return 2;
        }
        LLVMFuzzerTestOneInput(input.data, input.size);
        free(input.data);
    }
    printf("1..1\nok 1 - %s: %d files\n", fuzz.name, count);
    return 0;
}

static bool option(const char *argument, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    char *end;
    if (strncmp(argument, name, length) != 0) {
        return false;
    }
    *value = strtoull(argument + length, &end, 10);
    return end != argument + length && *end == '\0';
}

static void run_mutations(uint64_t first, uint64_t runs, uint64_t seconds) {
    time_t began = time(NULL);
    uint64_t number = first;
    for (; number - first < runs; number++) {
        if (seconds > 0 && (number & 63) == 0 && time(NULL) - began >= (time_t)seconds) {
            break;
        }
        make_input(number);
        /* An exact copy on the heap, so that the sanitizer sees a read past the end. */
        uint8_t *data = malloc(fuzz.size == 0 ? 1 : fuzz.size);
        if (data == NULL) {
            break;
        }
        memcpy(data, fuzz.buffer, fuzz.size);
        LLVMFuzzerTestOneInput(data, fuzz.size);
        free(data);
    }
    printf("ok 1 - %s: %" PRIu64 " inputs from %zu files, seed %" PRIu64 "\n", fuzz.name,
           number - first, fuzz.corpus_count, fuzz.seed);
}

int main(int argument_count, char **arguments) {
    const char *slash = strrchr(arguments[0], '/');
    fuzz.name = slash != NULL ? slash + 1 : arguments[0];
    fuzz.seed = 1;
    const char *wanted = getenv("FUZZ_RUNS");
    uint64_t runs = wanted != NULL ? strtoull(wanted, NULL, 10) : 2000, first = 0, seconds = 0;
    int i = 1;
    for (; i < argument_count && arguments[i][0] == '-'; i++) {
        if (!option(arguments[i], "-runs=", &runs) && !option(arguments[i], "-seed=", &fuzz.seed) &&
            !option(arguments[i], "-first=", &first) &&
            !option(arguments[i], "-seconds=", &seconds)) {
            fprintf(stderr, "%s: expected -runs=N -seed=S -first=I -seconds=T or files\n",
                    arguments[i]);
            return 2;
        }
    }
    if (i < argument_count) {
        return run_files(arguments + i, argument_count - i);
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(remember_crash);
    }
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback == NULL) {
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGFPE, on_signal);
    }
    read_corpus();
    printf("1..1\n");
    run_mutations(first, runs, seconds);
    for (size_t k = 0; k < fuzz.corpus_count; k++) {
        free(fuzz.corpus[k].data);
    }
    return 0;
}
