#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 1024 };

/* --- what is in which library --- */

struct entry {
    const char *name;
    size_t offset; /* in struct orr__cuda_api */
};

#define TEXT(function)          #function
#define RUNTIME_ENTRY(function) {TEXT(function), offsetof(struct orr__cuda_api, rt.function)},
#define BLAS_ENTRY(function)    {TEXT(function), offsetof(struct orr__cuda_api, blas.function)},
#define BLASLT_ENTRY(function)  {TEXT(function), offsetof(struct orr__cuda_api, lt.function)},
#define NCCL_ENTRY(function)    {TEXT(function), offsetof(struct orr__cuda_api, nccl.function)},
#define CUPTI_ENTRY(function)   {TEXT(function), offsetof(struct orr__cuda_api, cupti.function)},

static const struct entry runtime_entries[] = {ORR__CUDA_RUNTIME_LIST(RUNTIME_ENTRY){NULL, 0}};
static const struct entry blas_entries[] = {ORR__CUDA_BLAS_LIST(BLAS_ENTRY){NULL, 0}};
static const struct entry blaslt_entries[] = {ORR__CUDA_BLASLT_LIST(BLASLT_ENTRY){NULL, 0}};
static const struct entry nccl_entries[] = {ORR__CUDA_NCCL_LIST(NCCL_ENTRY){NULL, 0}};
static const struct entry cupti_entries[] = {ORR__CUDA_CUPTI_LIST(CUPTI_ENTRY){NULL, 0}};

static const struct library {
    const char *name;
    const char *stem;
    int major; /* of the soname */
    const struct entry *entries;
} libraries[ORR__CUDA_LIBRARIES] = {
    [ORR__CUDA_RUNTIME] = {"CUDA runtime", "libcudart", CUDART_VERSION / 1000, runtime_entries},
    [ORR__CUDA_BLAS] = {"cuBLAS", "libcublas", CUBLAS_VER_MAJOR, blas_entries},
    [ORR__CUDA_BLASLT] = {"cuBLASLt", "libcublasLt", CUBLAS_VER_MAJOR, blaslt_entries},
    [ORR__CUDA_NCCL] = {"NCCL", "libnccl", NCCL_MAJOR, nccl_entries},
    [ORR__CUDA_CUPTI] = {"CUPTI", "libcupti", CUDART_VERSION / 1000, cupti_entries},
};

/* The real libraries' table; the api is the first member. */
struct real {
    struct orr__cuda_api api;
    const struct orr_memory *memory;
    char *cudart; /* NULL: search */
    char paths[ORR__CUDA_LIBRARIES][PATH_MAX_BYTES];
};

/* One search: what is looked for, and what was wrong with each place so far. */
struct search {
    struct real *real;
    enum orr__cuda_library wanted;
    char file[64]; /* "libcudart.so.13" */
    char tried[ORR_ERROR_TEXT_MAX];
};

/* Is there a word about this very path? It may be in several lists of places. */
static bool is_noted(const struct search *search, const char *path) {
    size_t length = strlen(path);
    for (const char *at = search->tried; length > 0 && (at = strstr(at, path)) != NULL;
         at += length)
        if (at[length] == ':' && (at == search->tried || at[-1] == ' '))
            return true;
    return false;
}

static void note(struct search *search, const char *path, const char *text) {
    if (is_noted(search, path))
        return;
    size_t used = strlen(search->tried), length = strlen(path);
    bool named = strncmp(text, path, length) == 0; /* dlerror begins with the path, mostly */
    snprintf(search->tried + used, sizeof search->tried - used, "%s%s%s%s", used ? "; " : "",
             named ? "" : path, named ? "" : ": ", text);
}

/* --- one candidate --- */

/* dlsym of a data pointer's type, kept as the function pointer that it is. */
static bool fill(struct search *search, void *handle, const char *path) {
    const struct library *library = &libraries[search->wanted];
    for (const struct entry *entry = library->entries; entry->name; entry++) {
        void *address = dlsym(handle, entry->name);
        if (!address) {
            char text[256];
            snprintf(text, sizeof text, "has no %s, so it is no %s of version %d", entry->name,
                     library->name, library->major);
            note(search, path, text);
            return false;
        }
        memcpy((char *)&search->real->api + entry->offset, &address, sizeof address);
    }
    return true;
}

static bool is_right_version(struct search *search, const char *path) {
    int version = 0;
    if (search->wanted != ORR__CUDA_RUNTIME)
        return true;
    cudaError_t code = search->real->api.rt.cudaRuntimeGetVersion(&version);
    if (code == cudaSuccess && version / 1000 == CUDART_VERSION / 1000)
        return true;
    char text[128];
    snprintf(text, sizeof text, "is CUDA runtime %d.%d, but this build needs %d.x", version / 1000,
             version % 1000 / 10, CUDART_VERSION / 1000);
    note(search, path, text);
    return false;
}

static void keep_path(struct search *search, void *handle, const char *path) {
    struct link_map *map = NULL;
    bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
    snprintf(search->real->paths[search->wanted], PATH_MAX_BYTES, "%s", known ? map->l_name : path);
}

static bool try_path(struct search *search, const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *text = dlerror();
        note(search, path, text ? text : "can't be loaded");
        return false;
    }
    bool good = fill(search, handle, path) && is_right_version(search, path);
    if (good)
        keep_path(search, handle, path);
    dlclose(handle); /* it stays: RTLD_NODELETE */
    return good;
}

/* --- where to look --- */

static bool try_folder(struct search *search, const char *folder, const char *below) {
    char path[PATH_MAX_BYTES];
    int length = snprintf(path, sizeof path, "%s%s/%s", folder, below, search->file);
    return length > 0 && (size_t)length < sizeof path && try_path(search, path);
}

/* Folders that have the file, of a list as the loader takes it. One without is not worth a word. */
static bool try_list(struct search *search, const char *list) {
    for (const char *at = list ? list : ""; *at;) {
        size_t length = strcspn(at, ":;");
        char folder[PATH_MAX_BYTES], path[PATH_MAX_BYTES + sizeof search->file + 1];
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, at, length);
            folder[length] = '\0';
            snprintf(path, sizeof path, "%s/%s", folder, search->file);
            if (access(path, R_OK) == 0 && try_folder(search, folder, ""))
                return true;
        }
        at += length;
        at += *at != '\0';
    }
    return false;
}

static bool try_toolkit(struct search *search, const char *home) {
    if (!home || !home[0])
        return false;
    if (try_folder(search, home, "/lib64") || try_folder(search, home, "/lib"))
        return true;
    return search->wanted == ORR__CUDA_CUPTI && try_folder(search, home, "/extras/CUPTI/lib64");
}

/* In the folder of the CUDA runtime, or in its neighbour that CUPTI has in some toolkits. */
static bool try_beside_runtime(struct search *search) {
    const char *runtime = search->real->paths[ORR__CUDA_RUNTIME];
    const char *slash = strrchr(runtime, '/');
    if (search->wanted == ORR__CUDA_RUNTIME || !slash)
        return false;
    char folder[PATH_MAX_BYTES];
    memcpy(folder, runtime, (size_t)(slash - runtime));
    folder[slash - runtime] = '\0';
    return try_folder(search, folder, "") || (search->wanted == ORR__CUDA_CUPTI &&
                                              try_folder(search, folder, "/../extras/CUPTI/lib64"));
}

static bool look(struct search *search) {
    if (search->wanted == ORR__CUDA_RUNTIME && search->real->cudart)
        return try_path(search, search->real->cudart);
    return try_beside_runtime(search) || try_list(search, getenv("LD_LIBRARY_PATH")) ||
           try_toolkit(search, getenv("CUDA_HOME")) || try_toolkit(search, getenv("CUDA_PATH")) ||
           try_path(search, search->file);
}

static enum orr_status load(struct orr__cuda_api *api, enum orr__cuda_library library,
                            struct orr_error *error) {
    struct search search = {.wanted = library, .real = (struct real *)api};
    snprintf(search.file, sizeof search.file, "%s.so.%d", libraries[library].stem,
             libraries[library].major);
    if (look(&search))
        return ORR_OK;
    return orr_error_set(error, ORR_UNAVAILABLE, "no %s: %s", libraries[library].name,
                         search.tried);
}

/* --- the table --- */

static int64_t now(const struct orr__cuda_api *api) {
    struct timespec time;
    (void)api;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void rest(const struct orr__cuda_api *api, int64_t ns) {
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)api;
    (void)nanosleep(&time, NULL);
}

enum orr_status orr__cuda_library_open(const char *cudart, const struct orr_memory *memory,
                                       struct orr__cuda_api **out_api, struct orr_error *error) {
    *out_api = NULL;
    struct real *real = orr_memory_alloc(memory, sizeof *real);
    if (!real)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for the table of functions");
    struct orr__cuda_api *api = &real->api;
    real->memory = memory;
    api->load = load;
    api->now = now;
    api->rest = rest;
    enum orr_status status = ORR_OK;
    if (cudart && !(real->cudart = orr_memory_text(memory, cudart, strlen(cudart))))
        status = orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for a path");
    if (status == ORR_OK)
        status = orr__cuda_need(api, ORR__CUDA_RUNTIME, error);
    if (status == ORR_OK)
        *out_api = api;
    else
        orr__cuda_library_close(&api);
    return status;
}

void orr__cuda_library_close(struct orr__cuda_api **api) {
    struct real *real = (struct real *)*api;
    *api = NULL;
    if (!real)
        return;
    orr_memory_free(real->memory, real->cudart);
    orr_memory_free(real->memory, real);
}

const char *orr__cuda_library_path(const struct orr__cuda_api *api,
                                   enum orr__cuda_library library) {
    return ((const struct real *)api)->paths[library];
}

const char *orr__cuda_library_name(enum orr__cuda_library library) {
    return libraries[library].name;
}
