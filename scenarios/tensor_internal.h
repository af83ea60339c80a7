/* What the files of the tensor binding share: lua_mesh.c, lua_tensor.c, lua_redistribute.c,
 * lua_operator.c, lua_region.c, lua_autograd.c.
 *
 *     orrery.mesh{...}    orrery.randn{...}    x:matmul(w) + b    y:future():get()
 *
 * A tensor's handle owns one reference of it. It dies with t:free(), at <close>, at the end of the
 * orrery.scope it was made in, or with the run; never by the garbage collector, whose mood would
 * show in the memory of the devices. */
#ifndef ORR_SCENARIOS_TENSOR_INTERNAL_H
#define ORR_SCENARIOS_TENSOR_INTERNAL_H

#include "runtime/region.h"
#include "scenarios/scenario_internal.h"

#define ORR__MESH     "orrery.mesh"
#define ORR__TENSOR   "orrery.tensor"
#define ORR__FUTURE   "orrery.future"
#define ORR__COMPILED "orrery.function"

/* Each makes its classes and adds its functions to the table on top. */
void orr__open_meshes(lua_State *L);
void orr__open_tensors(lua_State *L);
void orr__open_regions(lua_State *L);
void orr__open_autograd(lua_State *L);
void orr__open_gradients(lua_State *L);
void orr__open_roles(lua_State *L);
void orr__open_recordings(lua_State *L);
/* Adds the table's operators: as functions to the table at `functions`, as methods to that at
 * `methods`. */
void orr__add_operators(lua_State *L, int functions, int methods);

/* The same for redistribution: functions, and methods of tensors. */
void orr__add_redistribute(lua_State *L, int functions, int methods);

/* The layout of a table's fields `mesh` and `place`; false if it has neither. */
bool orr__field_layout(lua_State *L, int index, const char *function, struct orr_layout *out);
/* The placements at `index`: a list of texts, one for each axis of the layout's mesh, the single
 * text for a mesh of one axis, or texts by names of axes, which leave other axes as they are. */
void orr__placements(lua_State *L, int index, const char *function, struct orr_layout *layout);
/* The list of whole numbers at `index`. */
struct orr_shape orr__shape(lua_State *L, int index, const char *what);

/* Pushes a mesh's handle, always the same one. */
void orr__push_mesh(lua_State *L, struct orr_mesh *mesh);
/* The axis of a mesh that the text at `index` names; raises with the nearest. */
int orr__mesh_axis(lua_State *L, int index, const char *function, const struct orr_mesh *mesh);
/* The mesh at `index`. */
struct orr_mesh *orr__mesh(lua_State *L, int index, const char *what);

/* A device's index or handle at `index`; `what` is for messages. */
uint32_t orr__device_argument(lua_State *L, int index, const char *what);

/* orrery.scope */
int orr__scope(lua_State *L);
/* A gradient failed: raises what its function in the scenario raised, or the runtime's error. */
int orr__raise_gradient(lua_State *L, enum orr_status status);

/* Pushes a handle that owns the reference, and enters it into the open scope. */
void orr__push_tensor(lua_State *L, struct orr_tensor *tensor);
/* A method of tensors, in lua_role.c. */
int orr__tensor_role(lua_State *L);
/* The live tensor at `index`. */
struct orr_tensor *orr__tensor(lua_State *L, int index, const char *what);

#endif
