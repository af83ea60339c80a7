/* Streams and events: the level at which everything is asynchronous and nothing is ordered unless
 * you say so.
 *
 * A stream is an in-order queue of one device. An event is a thin object over a point: recording
 * captures the stream's position at the call; re-recording doesn't disturb earlier waits; waiting
 * on a never-recorded event is a no-op that is reported as a finding (warning). See races.md rules
 * 1-15 for the semantics, which are CUDA's.
 *
 * Every enqueuing call returns at once. If the stream's launch queue is full the call blocks its
 * host until there is room. Costs and clocks: runtime/backend.h.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_STREAM_H
#define ORR_RUNTIME_STREAM_H

#include "runtime/cost.h"
#include "runtime/runtime.h"

/* A byte range of a buffer that a command reads or writes. */
struct orr_range {
    struct orr_buffer *buffer;
    uint64_t offset, bytes; /* within the buffer */
    enum orr_access_mode mode;
};

/* Computes a kernel: `work` is the kernel's, pointers come from the ranges' buffers. */
typedef enum orr_status (*orr_kernel_run)(void *work, struct orr_error *error);

/* Says what the kernel does, for machines whose memory host code can't reach. */
typedef void (*orr_kernel_describe)(const void *work, struct orr_task *out_task);

/* One kernel launch. */
struct orr_kernel {
    const char *name;     /* copied; not empty */
    enum orr_dtype dtype; /* of the arithmetic; ORR_DTYPE_NONE if it has none */
    struct orr_cost cost;
    const struct orr_range *accesses; /* borrowed for the call */
    uint32_t access_count;
    int64_t submit_ns,
        service_ns; /* -1: as the device spec and cost model say; else exactly this */
    uint64_t op;    /* logical operator it belongs to, 0 none */
    /* NULL: a synthetic kernel; what it writes then depends on every byte it reads and on its
     * name, so that a wrong order shows in the numbers. */
    orr_kernel_run run;
    orr_kernel_describe describe; /* NULL: there is host code only */
    void *work;                   /* owned by the command once the call succeeded */
    void (*release)(void *work);  /* called when the command has retired; may be NULL;
                                      must not call the runtime */
};

/* A host function in a stream (races.md rule 26). */
typedef void (*orr_host_function)(void *context);

/* Creates a further stream of a device. `name` is copied and unique within the device. Owned by the
 * caller, or freed with the runtime. */
enum orr_status orr_stream_create(struct orr_runtime *runtime, uint32_t device,
                                  enum orr_stream_kind kind, const char *name,
                                  struct orr_stream **out_stream) ORR_MUST_CHECK;
/* The same for a stream that does not ignore the device's legacy default stream (races.md rules
 * 2-4): `sync` ORR_STREAM_BL or ORR_STREAM_PTDS. Whatever is called in the legacy stream waits for
 * all that is in such streams of its device at the call, and their later commands wait for it;
 * whoever waits for the legacy stream waits for them, too. Streams made above are non-blocking,
 * as are the device's own. ORR_STREAM_LEGACY makes the device's legacy stream, which can be made
 * once. */
enum orr_status orr_stream_create_blocking(struct orr_runtime *runtime, uint32_t device,
                                           enum orr_stream_kind kind, enum orr_stream_sync sync,
                                           const char *name,
                                           struct orr_stream **out_stream) ORR_MUST_CHECK;
/* Work in it completes; destroys and nulls; accepts NULL. Not for a legacy stream. */
void orr_stream_destroy(struct orr_stream **stream);

/* The device's own stream of a kind, created on first use and named after it; NULL only when out of
 * memory or for an unknown device (the error says which). Owned by the runtime. */
struct orr_stream *orr_device_stream(struct orr_runtime *runtime, uint32_t device,
                                     enum orr_stream_kind kind);

/* The device's legacy default stream, "legacy", created on first use; NULL as above. Owned by the
 * runtime. Its commands can't be recorded (code 900). */
struct orr_stream *orr_device_legacy_stream(struct orr_runtime *runtime, uint32_t device);

/* The stream of an id; NULL if there is none. */
const struct orr_stream *orr_runtime_stream(const struct orr_runtime *runtime, uint32_t id);

/* Id as in the trace's table stream, device, name (borrowed until destroy) and runtime. */
uint32_t orr_stream_id(const struct orr_stream *stream);
uint32_t orr_stream_device(const struct orr_stream *stream);
const char *orr_stream_name(const struct orr_stream *stream);
struct orr_runtime *orr_stream_runtime(const struct orr_stream *stream);
enum orr_stream_sync orr_stream_blocking(const struct orr_stream *stream);

/* The point of the last command enqueued so far (seq 0 if none). */
struct orr_point orr_stream_point(const struct orr_stream *stream);

/* Enqueues a kernel. `out_point` may be NULL. ORR_INVALID for a range outside its buffer, a freed
 * buffer, or a buffer of another device that is not host memory. */
enum orr_status orr_stream_kernel(struct orr_stream *stream, const struct orr_kernel *kernel,
                                  struct orr_point *out_point) ORR_MUST_CHECK;

/* Copies between buffers, any of which may be host memory or of another device. Between two of
 * host memory it blocks the host until the stream has finished; from pageable memory to a device
 * it reads its source as the run's `pageable` says (races.md rule 17). */
enum orr_status orr_stream_copy(struct orr_stream *stream, struct orr_buffer *to,
                                uint64_t to_offset, struct orr_buffer *from, uint64_t from_offset,
                                uint64_t bytes) ORR_MUST_CHECK;

/* Copy and fill in a device's legacy default stream, and what of it the host waits for (rules 16,
 * 18). A copy from or to host memory, and a fill of pinned memory: until it is done. A copy from
 * pageable memory to a device: first for the stream, then it reads its source; the transfer that
 * follows may be pending when it returns. All else, and a fill of pageable memory: not at all. */
enum orr_status orr_device_copy_sync(struct orr_runtime *runtime, uint32_t device,
                                     struct orr_buffer *to, uint64_t to_offset,
                                     struct orr_buffer *from, uint64_t from_offset,
                                     uint64_t bytes) ORR_MUST_CHECK;
enum orr_status orr_device_fill_sync(struct orr_runtime *runtime, uint32_t device,
                                     struct orr_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     uint8_t value) ORR_MUST_CHECK;

/* Sets every byte of a range to `value`. */
enum orr_status orr_stream_fill(struct orr_stream *stream, struct orr_buffer *buffer,
                                uint64_t offset, uint64_t bytes, uint8_t value) ORR_MUST_CHECK;

/* Runs `function(context)` in stream order. It may touch only the ranges declared, and must not
 * call the runtime. */
enum orr_status orr_stream_hostfn(struct orr_stream *stream, const char *name,
                                  orr_host_function function, void *context,
                                  const struct orr_range *accesses,
                                  uint32_t access_count) ORR_MUST_CHECK;

/* Makes later work of the stream wait for a point of any stream. */
enum orr_status orr_stream_wait_point(struct orr_stream *stream,
                                      struct orr_point point) ORR_MUST_CHECK;

/* Blocks the host until everything in the stream has finished. Reports the stream's failure. */
enum orr_status orr_stream_sync(struct orr_stream *stream) ORR_MUST_CHECK;
/* ORR_OK if everything in it has finished, ORR_NOT_READY if not. */
enum orr_status orr_stream_query(struct orr_stream *stream) ORR_MUST_CHECK;
/* Blocks until all streams of a device have finished (races.md rule 8: of this device only). */
enum orr_status orr_device_sync(struct orr_runtime *runtime, uint32_t device) ORR_MUST_CHECK;

/* --- events --- */

/* `name` is copied; NULL or "": "e1", "e2", ... in order of creation. */
enum orr_status orr_event_create(struct orr_runtime *runtime, const char *name,
                                 struct orr_event **out_event) ORR_MUST_CHECK;
/* Legal while work that waits for it is pending (rule 14). Nulls; accepts NULL. */
void orr_event_destroy(struct orr_event **event);
const char *orr_event_name(const struct orr_event *event);

/* Records the stream's position in the event; makes later work of a stream wait for what an event
 * has recorded by now; blocks the host until that has finished; asks whether it has (ORR_NOT_READY:
 * no). An event that was never recorded stands for no work: waits end at once. */
enum orr_status orr_event_record(struct orr_event *event, struct orr_stream *stream) ORR_MUST_CHECK;
enum orr_status orr_stream_wait(struct orr_stream *stream, struct orr_event *event) ORR_MUST_CHECK;
enum orr_status orr_event_sync(struct orr_event *event) ORR_MUST_CHECK;
enum orr_status orr_event_query(struct orr_event *event) ORR_MUST_CHECK;

#endif
