#include "runtime/mesh.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime_internal.h"

/* Needs more devices than there are: says the shape, as 2 x 4, the product and the run's count. */
static enum orr_status too_large(struct orr_runtime *runtime, int axis_count, const int64_t *dims) {
    char text[ORR_MESH_AXES_MAX * 24], product[32] = "more than 2^63";
    int used = 0;
    int64_t size = 1;
    bool fits = true;
    for (int i = 0; i < axis_count; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", i > 0 ? " x " : "",
                         (long long)dims[i]);
        fits = fits && !__builtin_mul_overflow(size, dims[i], &size);
    }
    if (fits)
        snprintf(product, sizeof product, "%lld", (long long)size);
    return orr__runtime_fail(runtime, ORR_INVALID,
                             "a mesh of %s needs %s devices, but the run has %u", text, product,
                             (unsigned)runtime->device_count);
}

static enum orr_status check_dims(struct orr_runtime *runtime, int axis_count, const int64_t *dims,
                                  uint64_t *out_size) {
    if (axis_count < 1 || axis_count > ORR_MESH_AXES_MAX) {
        return orr__runtime_fail(runtime, ORR_INVALID, "a mesh has 1 to %d axes, not %d",
                                 ORR_MESH_AXES_MAX, axis_count);
    }
    uint64_t size = 1;
    for (int i = 0; i < axis_count; i++) {
        if (dims[i] < 1) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "mesh axis %d has %lld devices, expected 1 or more", i,
                                     (long long)dims[i]);
        }
    }
    for (int i = 0; i < axis_count; i++) {
        if ((uint64_t)dims[i] > runtime->device_count / size) {
            return too_large(runtime, axis_count, dims);
        }
        size *= (uint64_t)dims[i];
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

/* Copies the names, or makes some. */
static enum orr_status take_names(struct orr_runtime *runtime, struct orr_mesh *mesh,
                                  const char *const *names) {
    for (int i = 0; i < mesh->axis_count; i++) {
        char *name = mesh->names[i];
        if (!names) {
            snprintf(name, ORR_MESH_NAME_MAX, mesh->axis_count > 1 ? "axis %d" : "all", i);
            continue;
        }
        size_t length = strlen(names[i]);
        if (length == 0 || length >= ORR_MESH_NAME_MAX) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "mesh axis %d is named '%s'; expected 1 to %d letters", i,
                                     names[i], ORR_MESH_NAME_MAX - 1);
        }
        if (orr_mesh_axis(mesh, names[i]) >= 0) {
            return orr__runtime_fail(runtime, ORR_INVALID, "two axes of a mesh are named '%s'",
                                     names[i]);
        }
        memcpy(name, names[i], length + 1);
    }
    return ORR_OK;
}

static bool is_equal(const struct orr_mesh *a, const struct orr_mesh *b) {
    for (int i = 0; i < a->axis_count && a->axis_count == b->axis_count; i++) {
        if (a->dims[i] != b->dims[i] || strcmp(a->names[i], b->names[i]) != 0) {
            return false;
        }
    }
    return a->axis_count == b->axis_count && a->size == b->size &&
           memcmp(a->devices, b->devices, a->size * sizeof *a->devices) == 0;
}

/* The mesh that is equal, which replaces the new one, or the new one, now the runtime's. */
static struct orr_mesh *enter(struct orr_runtime *runtime, struct orr_mesh *mesh) {
    for (struct orr_mesh *old = runtime->meshes; old; old = old->next) {
        if (is_equal(old, mesh)) {
            orr_memory_free(runtime->memory, mesh->devices);
            orr_memory_free(runtime->memory, mesh);
            return old;
        }
    }
    mesh->next = runtime->meshes;
    if (mesh->next) {
        mesh->next->previous = mesh;
    }
    runtime->meshes = mesh;
    return mesh;
}

enum orr_status orr_mesh_create(struct orr_runtime *runtime, int axis_count, const int64_t *dims,
                                const char *const *names, const uint32_t *devices,
                                struct orr_mesh **out_mesh) {
    *out_mesh = NULL;
    uint64_t size = 0;
    struct orr_mesh draft = {.runtime = runtime};
    enum orr_status status = check_dims(runtime, axis_count, dims, &size);
    if (status == ORR_OK && devices) {
        status = check_devices(runtime, devices, (uint32_t)size);
    }
    for (int i = 0; status == ORR_OK && i < axis_count; i++) {
        draft.dims[draft.axis_count++] = dims[i];
    }
    if (status == ORR_OK) {
        status = take_names(runtime, &draft, names);
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
    for (uint32_t i = 0; i < size; i++) {
        copy[i] = devices ? devices[i] : i;
    }
    *mesh = draft;
    mesh->size = (uint32_t)size;
    mesh->devices = copy;
    *out_mesh = enter(runtime, mesh);
    return ORR_OK;
}

/* The mesh of some axes of another one, whose rank at coordinate 0 of all of them is `first`. */
static enum orr_status view(struct orr_mesh *mesh, int axis_count, const int *axes, uint32_t first,
                            struct orr_mesh **out_mesh) {
    struct orr_runtime *runtime = mesh->runtime;
    int64_t dims[ORR_MESH_AXES_MAX] = {1};
    const char *names[ORR_MESH_AXES_MAX] = {"all"};
    uint32_t size = 1;
    for (int i = 0; i < axis_count; i++) {
        dims[i] = mesh->dims[axes[i]];
        names[i] = mesh->names[axes[i]];
        size *= (uint32_t)dims[i];
    }
    uint32_t *devices = orr_memory_alloc(runtime->memory, size * sizeof *devices);
    if (!devices) {
        return orr__runtime_no_memory(runtime);
    }
    for (uint32_t i = 0; i < size; i++) {
        uint32_t rank = first, rest = i;
        for (int k = axis_count - 1; k >= 0; k--) {
            rank += rest % (uint32_t)dims[k] * orr_mesh_stride(mesh, axes[k]);
            rest /= (uint32_t)dims[k];
        }
        devices[i] = mesh->devices[rank];
    }
    enum orr_status status =
        orr_mesh_create(runtime, axis_count > 0 ? axis_count : 1, dims, names, devices, out_mesh);
    orr_memory_free(runtime->memory, devices);
    return status;
}

enum orr_status orr_mesh_slice(struct orr_mesh *mesh, const int64_t *coordinates,
                               struct orr_mesh **out_mesh) {
    int axes[ORR_MESH_AXES_MAX], count = 0;
    uint32_t first = 0;
    *out_mesh = NULL;
    orr_error_clear(&mesh->runtime->error);
    for (int i = 0; i < mesh->axis_count; i++) {
        if (coordinates[i] == ORR_MESH_WHOLE) {
            axes[count++] = i;
        } else if (coordinates[i] < 0 || coordinates[i] >= mesh->dims[i]) {
            return orr__runtime_fail(
                mesh->runtime, ORR_INVALID, "mesh axis '%s' has coordinates 0 to %lld, not %lld",
                mesh->names[i], (long long)mesh->dims[i] - 1, (long long)coordinates[i]);
        } else {
            first += (uint32_t)coordinates[i] * orr_mesh_stride(mesh, i);
        }
    }
    enum orr_status status = view(mesh, count, axes, first, out_mesh);
    if (status == ORR_OK && *out_mesh != mesh && !(*out_mesh)->parent) {
        (*out_mesh)->parent = mesh;
        memcpy((*out_mesh)->at, coordinates, (size_t)mesh->axis_count * sizeof *coordinates);
    }
    return status;
}

enum orr_status orr_mesh_permute(struct orr_mesh *mesh, const int *axes,
                                 struct orr_mesh **out_mesh) {
    unsigned seen = 0;
    *out_mesh = NULL;
    orr_error_clear(&mesh->runtime->error);
    for (int i = 0; i < mesh->axis_count; i++) {
        seen |= axes[i] >= 0 && axes[i] < mesh->axis_count ? 1u << axes[i] : 0;
    }
    if (seen != (1u << mesh->axis_count) - 1) {
        return orr__runtime_fail(mesh->runtime, ORR_INVALID,
                                 "a permutation of a mesh has each of its %d axes once",
                                 mesh->axis_count);
    }
    return view(mesh, mesh->axis_count, axes, 0, out_mesh);
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

const char *orr_mesh_devices_text(const struct orr_mesh *mesh, char *buffer) {
    enum { RUNS_MAX = 4 };
    size_t at = 0;
    uint32_t i = 0;
    buffer[0] = '\0';
    for (int runs = 0; i < mesh->size && runs < RUNS_MAX; runs++) {
        uint32_t first = mesh->devices[i++], last = first;
        while (i < mesh->size && mesh->devices[i] == last + 1) {
            last = mesh->devices[i++];
        }
        at += (size_t)snprintf(buffer + at, ORR_MESH_TEXT_MAX - at, "%s%u", runs > 0 ? ", " : "",
                               (unsigned)first);
        if (last > first) { /* four runs of ten digits each and what is between them fit */
            at += (size_t)snprintf(buffer + at, ORR_MESH_TEXT_MAX - at, "%s%u",
                                   last > first + 1 ? "-" : ", ", (unsigned)last);
        }
    }
    snprintf(buffer + at, ORR_MESH_TEXT_MAX - at, "%s", i < mesh->size ? ", ..." : "");
    return buffer;
}

int orr__matching_axis(const struct orr_mesh *from, int axis, const struct orr_mesh *to) {
    if (from == to) {
        return axis;
    }
    int same = orr_mesh_axis(to, from->names[axis]);
    if (same >= 0) {
        return to->dims[same] == from->dims[axis] ? same : -1;
    }
    if (from->axis_count != to->axis_count ||
        memcmp(from->dims, to->dims, sizeof from->dims) != 0 ||
        orr_mesh_axis(from, to->names[axis]) >= 0) {
        return -1;
    }
    return axis;
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

/* --- bridges --- */

static const struct orr__mesh_bridge *find_bridge(const struct orr_mesh *a,
                                                  const struct orr_mesh *b) {
    const struct orr__mesh_bridge *bridge = a->bridges;
    while (bridge && bridge->other != b) {
        bridge = bridge->next;
    }
    return bridge;
}

/* Numbers the devices of two meshes; returns how many there are. */
static uint32_t number_devices(const struct orr_mesh *a, const struct orr_mesh *b,
                               uint32_t *numbers, uint32_t *ranks, uint32_t *devices) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->runtime->device_count; i++) {
        numbers[i] = UINT32_MAX;
    }
    for (; count < a->size; count++) {
        devices[count] = a->devices[count];
        numbers[a->devices[count]] = count;
    }
    for (uint32_t i = 0; i < b->size; i++) {
        if (numbers[b->devices[i]] == UINT32_MAX) {
            devices[count] = b->devices[i];
            numbers[b->devices[i]] = count++;
        }
        ranks[i] = numbers[b->devices[i]];
    }
    return count;
}

/* Gives the bridge its name and number. */
static void name_bridge(const struct orr_mesh *a, const struct orr_mesh *b, char *name,
                        size_t size) {
    struct orr_mesh *parent = a->parent;
    int axis = -1, differ = 0;
    for (int i = 0; parent && parent == b->parent && i < parent->axis_count; i++) {
        if (a->at[i] != b->at[i]) {
            differ++;
            axis = i;
        }
    }
    if (differ == 1) {
        snprintf(name, size, "%s %u", parent->names[axis], (unsigned)parent->bridge_counts[axis]++);
    } else {
        char here[ORR_MESH_TEXT_MAX], there[ORR_MESH_TEXT_MAX];
        snprintf(name, size, "%s and %s", orr_mesh_devices_text(a, here),
                 orr_mesh_devices_text(b, there));
    }
}

/* Fills in the bridge; false without memory. */
static bool make_bridge(struct orr_mesh *a, struct orr_mesh *b, struct orr__mesh_bridge *bridge) {
    const struct orr_memory *memory = a->runtime->memory;
    uint32_t *numbers = orr_memory_alloc(memory, a->runtime->device_count * sizeof *numbers);
    uint32_t *devices = orr_memory_alloc(memory, (a->size + b->size) * sizeof *devices);
    bridge->other = b;
    bridge->ranks = orr_memory_alloc(memory, b->size * sizeof *bridge->ranks);
    enum orr_status status = ORR_NO_MEMORY;
    if (numbers && devices && bridge->ranks) {
        char name[2 * ORR_MESH_TEXT_MAX + 8];
        name_bridge(a, b, name, sizeof name);
        uint32_t count = number_devices(a, b, numbers, bridge->ranks, devices);
        status = orr_communicator_create(a->runtime, name, devices, count, &bridge->communicator);
        bridge->streams = orr_memory_alloc(memory, count * sizeof(struct orr_stream *));
        status = bridge->streams ? status : orr__runtime_no_memory(a->runtime);
    } else {
        (void)orr__runtime_no_memory(a->runtime);
    }
    orr_memory_free(memory, numbers);
    orr_memory_free(memory, devices);
    return status == ORR_OK;
}

/* The runtime frees communicator and streams. */
static void free_bridge(const struct orr_memory *memory, struct orr__mesh_bridge *bridge) {
    orr_memory_free(memory, bridge->ranks);
    orr_memory_free(memory, bridge->streams);
    orr_memory_free(memory, bridge);
}

struct orr_stream *orr__bridge_stream(const struct orr__mesh_bridge *bridge, uint32_t rank) {
    const struct orr_communicator *communicator = bridge->communicator;
    if (!bridge->streams[rank]) {
        char name[2 * ORR_MESH_TEXT_MAX + 32]; /* meshes of other shapes have the same devices */
        snprintf(name, sizeof name, "%s (%u)", orr_communicator_name(communicator),
                 (unsigned)communicator->id);
        enum orr_status status =
            orr_stream_create(bridge->other->runtime, communicator->devices[rank],
                              ORR_STREAM_COMMUNICATE, name, &bridge->streams[rank]);
        assert((status == ORR_OK) == (bridge->streams[rank] != NULL));
        (void)status;
    }
    return bridge->streams[rank];
}

const struct orr__mesh_bridge *orr__mesh_bridge(struct orr_mesh *a, struct orr_mesh *b,
                                                struct orr_mesh **out_first) {
    const struct orr_memory *memory = a->runtime->memory;
    const struct orr__mesh_bridge *there = find_bridge(b, a);
    *out_first = there ? b : a;
    there = there ? there : find_bridge(a, b);
    if (there) {
        return there;
    }
    struct orr__mesh_bridge *bridge = orr_memory_alloc(memory, sizeof *bridge);
    if (!bridge) {
        (void)orr__runtime_no_memory(a->runtime);
        return NULL;
    }
    if (!make_bridge(a, b, bridge)) {
        free_bridge(memory, bridge);
        return NULL;
    }
    bridge->next = a->bridges;
    a->bridges = bridge;
    return bridge;
}

static void free_bridges(const struct orr_memory *memory, struct orr_mesh *mesh) {
    while (mesh->bridges) {
        struct orr__mesh_bridge *bridge = mesh->bridges;
        mesh->bridges = bridge->next;
        free_bridge(memory, bridge);
    }
}

void orr__meshes_destroy(struct orr_runtime *runtime) {
    while (runtime->meshes) {
        struct orr_mesh *mesh = runtime->meshes;
        runtime->meshes = mesh->next;
        for (int i = 0; i < mesh->axis_count; i++) {
            orr_memory_free(runtime->memory,
                            mesh->communicators[i]); /* the runtime frees those in it */
        }
        free_bridges(runtime->memory, mesh);
        orr_memory_free(runtime->memory, mesh->devices);
        orr_memory_free(runtime->memory, mesh);
    }
    runtime->default_mesh = NULL;
}
