/* Meshes: devices arranged in an n-dimensional grid with named axes.
 *
 *     int64_t dims[2] = {2, 4};
 *     const char *names[2] = {"dp", "tp"};
 *     orr_mesh_create(runtime, 2, dims, names, NULL, &mesh);     devices 0..7, row-major
 *
 *              tp 0  1  2  3
 *     dp 0        0  1  2  3        rank = row-major position; a device is in a mesh once
 *     dp 1        4  5  6  7
 *
 * Meshes with equal axes and devices are one mesh, so tensors on "both" can be combined. Views of a
 * mesh are meshes of their own:
 *
 *     orr_mesh_slice(mesh, (int64_t[]){1, ORR_MESH_WHOLE}, &row);     devices 4..7, axis tp
 *     orr_mesh_permute(mesh, (int[]){1, 0}, &turned);                 tp x dp: 0 4, 1 5, 2 6, 3 7
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_MESH_H
#define ORR_RUNTIME_MESH_H

#include "runtime/communicator.h"

enum {
    ORR_MESH_AXES_MAX = 4,
    ORR_MESH_NAME_MAX = 16,
    ORR_MESH_WHOLE = -1,
    ORR_MESH_TEXT_MAX = 112
};

struct orr_mesh {
    struct orr_runtime *runtime;
    int axis_count;
    int64_t dims[ORR_MESH_AXES_MAX];
    char names[ORR_MESH_AXES_MAX][ORR_MESH_NAME_MAX];
    uint32_t size;     /* product of dims */
    uint32_t *devices; /* of each rank; owned */
    /* Communicators along each axis, made on first use: size / dims[axis] of them. */
    struct orr_communicator **communicators[ORR_MESH_AXES_MAX];
    struct orr__mesh_bridge *bridges;          /* to other meshes, made on first use; owned */
    uint32_t bridge_counts[ORR_MESH_AXES_MAX]; /* between slices of this mesh along each axis */
    struct orr_mesh *parent; /* of a slice: the mesh that it was first made of, and where */
    int64_t at[ORR_MESH_AXES_MAX];
    struct orr_mesh *previous, *next; /* of the runtime */
};

/* Creates a mesh of `axis_count` axes (1 .. ORR_MESH_AXES_MAX), or finds the one that is there with
 * the same dims, names and devices. `names` (distinct; NULL: "all" for one axis, else "axis 0",
 * "axis 1", ...) are copied, and so are `devices` (size of them, by rank; NULL: 0, 1, 2, ...).
 * Owned by the runtime: it lives as long as that. ORR_INVALID for a mesh larger than the machine, a
 * device that is unknown or there twice, an empty axis, or a name that is empty, too long or there
 * twice. */
enum orr_status orr_mesh_create(struct orr_runtime *runtime, int axis_count, const int64_t *dims,
                                const char *const *names, const uint32_t *devices,
                                struct orr_mesh **out_mesh) ORR_MUST_CHECK;

/* The ranks at given coordinates, without those axes: `coordinates` has one entry for each axis,
 * from 0, or ORR_MESH_WHOLE for an axis that stays. With every axis given it is one device, on an
 * axis "all". ORR_INVALID for a coordinate outside its axis. */
enum orr_status orr_mesh_slice(struct orr_mesh *mesh, const int64_t *coordinates,
                               struct orr_mesh **out_mesh) ORR_MUST_CHECK;

/* The same devices with the axes in another order: new axis i is axes[i] of the old ones, each of
 * which is there once (ORR_INVALID else); ranks are row-major in the new order. */
enum orr_status orr_mesh_permute(struct orr_mesh *mesh, const int *axes,
                                 struct orr_mesh **out_mesh) ORR_MUST_CHECK;

/* All devices of the run in one axis "all"; made on first use, NULL without memory. */
struct orr_mesh *orr_mesh_default(struct orr_runtime *runtime);

/* Position of a rank along an axis, and the distance in ranks between neighbours along it. */
int64_t orr_mesh_coordinate(const struct orr_mesh *mesh, uint32_t rank, int axis);
uint32_t orr_mesh_stride(const struct orr_mesh *mesh, int axis);

/* The axis of a name, or -1. */
int orr_mesh_axis(const struct orr_mesh *mesh, const char *name);

/* The devices by rank, in short: "0-3", "1, 5, 0, 2", "0, 2, 4, 6, ..." for many. Returns `buffer`
 * (ORR_MESH_TEXT_MAX bytes). */
const char *orr_mesh_devices_text(const struct orr_mesh *mesh, char *buffer);

/* The axis of another mesh that an axis corresponds to, or -1: the same name and length; or, of
 * meshes with equal dims, that at the same place, if no names tell. */
int orr__matching_axis(const struct orr_mesh *from, int axis, const struct orr_mesh *to);

/* The communicator of the ranks that differ from `rank` only along `axis`, in order of their
 * coordinate. NULL without memory. Owned by the mesh. */
struct orr_communicator *orr_mesh_communicator(struct orr_mesh *mesh, uint32_t rank, int axis);

/* A communicator of the devices of two meshes: those of the one by rank, then those that only the
 * other one has. Between slices of one mesh that differ along one axis it is named as that axis'
 * communicators are, "pp 0", "pp 1", in order of first use; between others after their devices,
 * "0-3 and 4-7". */
struct orr__mesh_bridge {
    struct orr_mesh *other;
    struct orr_communicator *communicator; /* the runtime's */
    uint32_t *ranks;                       /* in the communicator, of the other's ranks; owned */
    struct orr_stream **streams; /* of the communicator's ranks, made on first use; owned */
    struct orr__mesh_bridge *next;
};

/* The bridge between two meshes: one for both directions. It is among those of *out_first, which is
 * one of the two. NULL without memory. Owned by the meshes. */
const struct orr__mesh_bridge *orr__mesh_bridge(struct orr_mesh *a, struct orr_mesh *b,
                                                struct orr_mesh **out_first);

/* The stream of kind communicate in which a rank of the bridge's communicator sends and receives.
 * It is the bridge's alone, as frameworks give each process group its own: in the device's one
 * communicate stream the collectives of a stage would wait behind a receive that its neighbour is
 * not ready for. NULL without memory. */
struct orr_stream *orr__bridge_stream(const struct orr__mesh_bridge *bridge, uint32_t rank);

/* Frees all meshes of a runtime; called by its destroy. */
void orr__meshes_destroy(struct orr_runtime *runtime);

#endif
