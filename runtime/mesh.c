#include "runtime/mesh.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime_internal.h"

static enum orr_status check_dims(struct orr_runtime *runtime, int axis_count, const int64_t *dims,
                                  uint64_t *out_size) {
    if (axis_count < 1 || axis_count > ORR_MESH_AXES_MAX) {
        return orr__runtime_fail(runtime, ORR_INVALID, "a mesh has 1 to %d axes, not %d",
                                 ORR_MESH_AXES_MAX, axis_count);
    }
    uint64_t size = 1;
    for (int i = 0; i < axis_count; i++) {
        if (dims[i] < 1 || dims[i] > (int64_t)runtime->device_count) {
            return orr__runtime_fail(
                runtime, ORR_INVALID,
                "mesh axis %d has %lld devices; expected 1 to %u, the number of "
                "devices of the run",
                i, (long long)dims[i], runtime->device_count);
        }
        size *= (uint64_t)dims[i];
    }
    if (size > runtime->device_count) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "a mesh of %llu devices is larger than the machine, which has %u",
                                 (unsigned long long)size, runtime->device_count);
    }
    *out_size = size;
    return ORR_OK;
}

static enum orr_status check_devices(struct orr_runtime *runtime, const uint32_t *devices,
                                     uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        if (devices[i] >= runtime->device_count) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "a mesh names device %u; the run has devices 0 to %u",
                                     devices[i], runtime->device_count - 1);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (devices[k] == devices[i]) {
                return orr__runtime_fail(runtime, ORR_INVALID, "device %u is in a mesh twice",
                                         devices[i]);
            }
        }
    }
    return ORR_OK;
}

enum orr_status orr_mesh_create(struct orr_runtime *runtime, int axis_count, const int64_t *dims,
                                const char *const *names, const uint32_t *devices,
                                struct orr_mesh **out_mesh) {
    *out_mesh = NULL;
    uint64_t size = 0;
    enum orr_status status = check_dims(runtime, axis_count, dims, &size);
    if (status == ORR_OK && devices) {
        status = check_devices(runtime, devices, (uint32_t)size);
    }
    if (status != ORR_OK) {
        return status;
    }
    struct orr_mesh *mesh = orr_memory_alloc(runtime->memory, sizeof *mesh);
    uint32_t *copy = orr_memory_alloc(runtime->memory, size * sizeof *copy);
    if (!mesh || !copy) {
        orr_memory_free(runtime->memory, mesh);
        orr_memory_free(runtime->memory, copy);
        return orr__runtime_no_memory(runtime);
    }
    mesh->runtime = runtime;
    mesh->axis_count = axis_count;
    mesh->size = (uint32_t)size;
    mesh->devices = copy;
    for (uint32_t i = 0; i < size; i++) {
        copy[i] = devices ? devices[i] : i;
    }
    for (int i = 0; i < axis_count; i++) {
        mesh->dims[i] = dims[i];
        snprintf(mesh->names[i], sizeof mesh->names[i], "%s", names ? names[i] : "all");
    }
    mesh->next = runtime->meshes;
    if (mesh->next) {
        mesh->next->previous = mesh;
    }
    runtime->meshes = mesh;
    *out_mesh = mesh;
    return ORR_OK;
}

struct orr_mesh *orr_mesh_default(struct orr_runtime *runtime) {
    if (!runtime->default_mesh) {
        int64_t count = runtime->device_count;
        if (orr_mesh_create(runtime, 1, &count, NULL, NULL, &runtime->default_mesh) != ORR_OK) {
            return NULL;
        }
    }
    return runtime->default_mesh;
}

uint32_t orr_mesh_stride(const struct orr_mesh *mesh, int axis) {
    assert(axis >= 0 && axis < mesh->axis_count);
    uint32_t stride = 1;
    for (int i = axis + 1; i < mesh->axis_count; i++) {
        stride *= (uint32_t)mesh->dims[i];
    }
    return stride;
}

int64_t orr_mesh_coordinate(const struct orr_mesh *mesh, uint32_t rank, int axis) {
    assert(rank < mesh->size);
    return rank / orr_mesh_stride(mesh, axis) % mesh->dims[axis];
}

int orr_mesh_axis(const struct orr_mesh *mesh, const char *name) {
    for (int i = 0; i < mesh->axis_count; i++) {
        if (strcmp(mesh->names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Index of a rank's group along an axis: its position once that axis is taken out. */
static uint32_t group_of(const struct orr_mesh *mesh, uint32_t rank, int axis) {
    uint32_t stride = orr_mesh_stride(mesh, axis);
    uint32_t block = stride * (uint32_t)mesh->dims[axis];
    assert(mesh->size % block == 0);
    return rank / block * stride + rank % stride;
}

static struct orr_communicator *create_communicator(struct orr_mesh *mesh, uint32_t rank,
                                                    int axis) {
    struct orr_runtime *runtime = mesh->runtime;
    uint32_t count = (uint32_t)mesh->dims[axis], stride = orr_mesh_stride(mesh, axis);
    uint32_t first = rank - (uint32_t)orr_mesh_coordinate(mesh, rank, axis) * stride;
    uint32_t *devices = orr_memory_alloc(runtime->memory, count * sizeof *devices);
    if (!devices) {
        (void)orr__runtime_no_memory(runtime);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        devices[i] = mesh->devices[first + i * stride];
    }
    char name[ORR_MESH_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s %u", mesh->names[axis], group_of(mesh, rank, axis));
    struct orr_communicator *communicator = NULL;
    enum orr_status status = orr_communicator_create(runtime, name, devices, count, &communicator);
    orr_memory_free(runtime->memory, devices);
    return status == ORR_OK ? communicator : NULL;
}

struct orr_communicator *orr_mesh_communicator(struct orr_mesh *mesh, uint32_t rank, int axis) {
    assert(rank < mesh->size && axis >= 0 && axis < mesh->axis_count);
    uint32_t groups = mesh->size / (uint32_t)mesh->dims[axis];
    if (!mesh->communicators[axis]) {
        mesh->communicators[axis] =
            orr_memory_alloc(mesh->runtime->memory, groups * sizeof(struct orr_communicator *));
        if (!mesh->communicators[axis]) {
            (void)orr__runtime_no_memory(mesh->runtime);
            return NULL;
        }
    }
    struct orr_communicator **slot = &mesh->communicators[axis][group_of(mesh, rank, axis)];
    if (!*slot) {
        *slot = create_communicator(mesh, rank, axis);
    }
    return *slot;
}

void orr__meshes_destroy(struct orr_runtime *runtime) {
    while (runtime->meshes) {
        struct orr_mesh *mesh = runtime->meshes;
        runtime->meshes = mesh->next;
        for (int i = 0; i < mesh->axis_count; i++) {
            orr_memory_free(runtime->memory,
                            mesh->communicators[i]); /* the runtime frees those in it */
        }
        orr_memory_free(runtime->memory, mesh->devices);
        orr_memory_free(runtime->memory, mesh);
    }
    runtime->default_mesh = NULL;
}
