/* Steps 0 and 1: what is there, and whether the kernels' images load. */
#include <string.h>

#include "runtime/cuda/images.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/probe.h"
#include "tests/device/check.h"

bool check_look(struct check *check) {
    struct orr_error error = {0};
    if (orr__cuda_probe(check->api, &check->machine, &error) != ORR_OK) {
        check_say(check, "probe", CHECK_FAIL, "%s", error.text);
        return false;
    }
    if (strcmp(check->machine.gpus[0].name, "Fake CUDA device") == 0)
        check->fake = true;
    return true;
}

void check_probe(struct check *check) {
    struct orr_cuda_machine *machine = &check->machine;
    if (!check_look(check))
        return;
    check_say(check, "versions", CHECK_NOTE, "CUDA runtime %d, driver %d, code for %s",
              machine->runtime_version, machine->driver_version, orr__cuda_architectures());
    for (uint32_t i = 0; i < machine->gpu_count; i++) {
        const struct orr_cuda_gpu *gpu = &machine->gpus[i];
        check_say(check, "gpu", CHECK_NOTE,
                  "%u: %s, capability %d, %u multiprocessors, %.1f GB, %.0f GB/s by its attributes",
                  i, gpu->name, gpu->capability, gpu->sm_count, (double)gpu->memory_bytes / 1e9,
                  (double)gpu->bandwidth / 1e9);
    }
    if (check->opened)
        orr__cuda_probe_libraries(check->api, machine);
    for (uint32_t i = 0; i < machine->library_count; i++) {
        const struct orr_cuda_library *library = &machine->libraries[i];
        check_say(check, "library", CHECK_NOTE, "%s: %s%s%s", library->name,
                  library->path[0] ? library->version : library->missing,
                  library->version[0] ? " " : "", library->path);
    }
    check_say(check, "probe", CHECK_PASS, "%u GPU(s)", machine->gpu_count);
}

void check_images(struct check *check) {
    struct orr__cuda_images images;
    struct orr_error error = {0};
    if (orr__cuda_images_load(check->api, 0, &images, &error) != ORR_OK) {
        check_say(check, "images", CHECK_FAIL, "%s", error.text);
        return;
    }
    check_say(check, "images", CHECK_PASS, "%d kernels of %d images found", (int)ORR__K_COUNT,
              (int)ORR__FAMILY_COUNT);
    orr__cuda_images_unload(check->api, &images);
}
