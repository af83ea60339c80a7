/* Running a program once more on the same runtime. What costs most of a new one stays: names, pools
 * of structs, arrays that have grown. */
#include <assert.h>
#include <string.h>

#include "runtime/recording_internal.h"
#include "runtime/runtime_internal.h"
#include "runtime/tensor_internal.h"

static void forget_objects(struct orr_runtime *runtime) {
    orr__compiled_destroy(runtime);
    orr__recordings_detach(runtime);
    orr__tapes_destroy(runtime);
    orr__futures_destroy(runtime);
    orr__tensors_destroy(runtime);
    orr__meshes_destroy(runtime);
    orr__programs_destroy(runtime);
    orr__buffers_rewind(runtime);
    orr__events_destroy(runtime);
    orr__communicators_destroy(runtime);
    if (runtime->stream_spare < runtime->stream_count)
        runtime->stream_spare = runtime->stream_count;
    runtime->stream_count = 0;
    runtime->region = NULL;
}

static void restart_counts(struct orr_runtime *runtime) {
    runtime->command_count = runtime->sync_count = runtime->buffer_count = 0;
    runtime->collective_count = runtime->finding_count = runtime->segment_count = 0;
    runtime->event_count = runtime->pending_count = runtime->program_count = 0;
    runtime->tensor_count = runtime->mark_count = runtime->op_count = 0;
    runtime->communicator_count = 0;
    runtime->wait_count = 0;
    runtime->idle_wait_count = 0;
    runtime->failure_count = 0;
    runtime->failure_site = runtime->failure_name = 0;
    orr_error_clear(&runtime->error);
    orr_error_clear(&runtime->scratch);
    orr_error_clear(&runtime->failure);
}

static void restart_calls(struct orr_runtime *runtime) {
    runtime->host = runtime->site = 0;
    runtime->site_text = "";
    runtime->submit_waits = NULL;
    runtime->submit_wait_count = 0;
    runtime->in_call = runtime->call_repeats = false;
    runtime->default_streams = false;
    runtime->operator_depth = 0;
    runtime->operator_charge_ns = 0;
    for (size_t i = 0; i < runtime->host_count; i++)
        orr_memory_free(runtime->memory, runtime->hosts[i].seen);
    runtime->host_count = 0;
    orr__runtime_add_first_hosts(runtime);
}

static void restart_device(struct orr_runtime *runtime, struct orr__device *device) {
    memset(device->streams, 0, sizeof device->streams);
    device->bucket = device->legacy = device->all = NULL;
    device->all_end = &device->all;
    memset(device->roles, 0, sizeof device->roles);
    device->reserved_told = 0;
    device->spec.memory_bytes = device->memory_bytes;
    assert(!device->buffers && !device->deferred);
    if (device->allocator->first || device->allocator->pools || runtime->perturb)
        orr__allocator_rewind(device->allocator, device->spec.memory_bytes);
}

enum orr_status orr_runtime_rewind(struct orr_runtime *runtime) {
    if (!runtime->verbs->rewind || runtime->sink || runtime->observer)
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "%s can't be run once more",
                                 runtime->verbs->rewind ? "a run that is traced or watched"
                                                        : runtime->verbs->name);
    runtime->verbs->rewind(runtime->backend);
    forget_objects(runtime);
    restart_counts(runtime);
    restart_calls(runtime);
    for (uint32_t i = 0; i < runtime->device_count; i++)
        restart_device(runtime, &runtime->devices[i]);
    orr_memory_free(runtime->memory, runtime->perturb);
    runtime->perturb = NULL;
    runtime->hung = false;
    return ORR_OK;
}
