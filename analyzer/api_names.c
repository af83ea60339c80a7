#include "analyzer/api_names.h"

#include <stddef.h>
#include <string.h>

#include "analyzer/events.h"

enum place { BEGINS, CONTAINS };

/* A rule sets its flag when the word is where it says, and `unless` is nowhere in the name. A
 * blocking copy waits for its own end; its asynchronous form does not. Allocation without a stream
 * and loading of code synchronise or touch what a graph cannot hold. */
static const struct rule {
    enum place place;
    uint32_t flag;
    const char *word, *unless;
} rules[] = {
    {CONTAINS, ORR_CALL_WAITING, "Synchronize", NULL},
    {BEGINS, ORR_CALL_WAITING, "cudaMemcpy", "Async"},
    {BEGINS, ORR_CALL_WAITING, "cuMemcpy", "Async"},
    {BEGINS, ORR_CALL_WAITING, "hipMemcpy", "Async"},
    {CONTAINS, ORR_CALL_LAUNCH, "Launch", NULL},
    {CONTAINS, ORR_CALL_GRAPH, "GraphLaunch", NULL},
    {CONTAINS, ORR_CALL_BREAKING, "Malloc", "Async"},
    {CONTAINS, ORR_CALL_BREAKING, "Free", "Async"},
    {CONTAINS, ORR_CALL_BREAKING, "HostAlloc", "Async"},
    {CONTAINS, ORR_CALL_BREAKING, "HostRegister", "Async"},
    {CONTAINS, ORR_CALL_BREAKING, "ModuleLoad", "Async"},
    {CONTAINS, ORR_CALL_BREAKING, "StreamCreate", "Async"},
};

/* In small letters. */
static const char *const libraries[] = {"nccl",    "rccl",    "hccl", "deepep",
                                        "deep_ep", "nvshmem", "msccl"};

static bool applies(const struct rule *rule, const char *name) {
    bool found = rule->place == BEGINS ? strncmp(name, rule->word, strlen(rule->word)) == 0
                                       : strstr(name, rule->word) != NULL;
    return found && !(rule->unless && strstr(name, rule->unless));
}

uint32_t orr__api_flags(const char *name) {
    uint32_t flags = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (applies(&rules[i], name)) {
            flags |= rules[i].flag;
        }
    }
    return flags;
}

static char small(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool starts(const char *text, const char *word) {
    while (*word && small(*text) == *word) {
        text++;
        word++;
    }
    return *word == '\0';
}

bool orr__communication_kernel(const char *name) {
    for (; *name; name++) {
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
            if (starts(name, libraries[i])) {
                return true;
            }
        }
    }
    return false;
}
