/* Collectives of the CUDA backend over the fake devices: emulated on one GPU and on several, and by
 * NCCL, with streams that run on their own. Against runtime/collective.h. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/collective.h"
#include "runtime/cuda/cuda.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/cuda_collective_cases.h"
#include "tests/support.h"

enum { RANKS_MAX = 8 };

struct machine {
    struct memory_counting memory;
    struct orr_fake_cuda *fake;
    struct orr__cuda_api *api;
    struct orr__cuda_images images[RANKS_MAX];
    struct orr__cuda_queue queues[RANKS_MAX];
    uint32_t gpus[RANKS_MAX], count;
    struct orr__cuda_collectives *collectives;
};

struct setting {
    enum orr_fake_engine engine;
    uint32_t gpus;
    const char *algorithm; /* that AUTO comes to */
    const char *faults;
};

static const struct setting settings[] = {
    {ORR_FAKE_SIMULATED, 1, "emulated", NULL},     {ORR_FAKE_THREADS, 1, "emulated", NULL},
    {ORR_FAKE_SIMULATED, 2, "emulated", NULL},     {ORR_FAKE_THREADS, 2, "emulated", NULL},
    {ORR_FAKE_SIMULATED, RANKS_MAX, "nccl", NULL}, {ORR_FAKE_THREADS, RANKS_MAX, "nccl", NULL},
};

static void done(struct machine *m, cudaError_t code) {
    struct orr_error error = {0};
    if (orr__cuda_check(m->api, code, "test", &error) != ORR_OK)
        fail_msg("%s", error.text);
}

static void machine_open(struct machine *m, const struct setting *setting, uint32_t count) {
    memset(m, 0, sizeof *m);
    memory_counting_init(&m->memory, 0);
    struct orr_fake_cuda_options options = {.engine = setting->engine,
                                            .gpu_count = setting->gpus,
                                            .jitter_ns = 2000,
                                            .seed = 1,
                                            .faults = setting->faults};
    struct orr_error error = {0};
    if (orr_fake_cuda_open(&options, &m->memory.table, &m->fake, &error) != ORR_OK)
        fail_msg("%s", error.text);
    m->api = orr_fake_cuda_api(m->fake);
    m->count = count;
    for (uint32_t i = 0; i < count; i++) {
        m->gpus[i] = i % setting->gpus;
        done(m, m->api->rt.cudaSetDevice((int)m->gpus[i]));
        struct orr__cuda_images *images = &m->images[m->gpus[i]];
        if (i < setting->gpus &&
            orr__cuda_images_load(m->api, (int)m->gpus[i], images, &error) != ORR_OK)
            fail_msg("%s", error.text);
        struct orr__cuda_queue *queue = &m->queues[i];
        *queue = (struct orr__cuda_queue){
            .api = m->api, .code = &images->code, .memory = &m->memory.table, .sm_count = 3};
        done(m, m->api->rt.cudaStreamCreateWithPriority(&queue->stream, cudaStreamNonBlocking, 0));
    }
    struct orr_cuda_options asked = {.gpus = m->gpus};
    if (orr__cuda_collectives_open(m->api, &m->memory.table, &asked, count, &m->collectives,
                                   &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_string_equal(orr__cuda_collectives_algorithm(m->collectives), setting->algorithm);
}

static void machine_close(struct machine *m) {
    orr__cuda_collectives_close(&m->collectives);
    for (uint32_t i = 0; i < m->count; i++) {
        (void)m->api->rt.cudaSetDevice((int)m->gpus[i]);
        (void)m->api->rt.cudaStreamSynchronize(m->queues[i].stream);
        orr__cuda_queue_clear(&m->queues[i]);
        (void)m->api->rt.cudaStreamDestroy(m->queues[i].stream);
    }
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        orr__cuda_images_unload(m->api, &m->images[i]);
    struct orr_fake_cuda_census none = {0}, census = orr_fake_cuda_census(m->fake);
    assert_memory_equal(&census, &none, sizeof none);
    orr_fake_cuda_close(&m->fake);
    assert_int_equal(m->memory.live, 0);
}

static enum orr_status enqueue(struct machine *m, const struct collective_world *w,
                               struct orr_error *error) {
    struct orr__cuda_member members[RANKS_MAX];
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t rank = w->members[i].rank;
        members[i] = (struct orr__cuda_member){&m->queues[rank], rank, &w->members[i]};
    }
    return orr__cuda_collectives_enqueue(m->collectives, members, w->count, error);
}

/* Memory of all ranks, at the host and at the devices, and what is done with it. */
struct both {
    struct collective_case asked;
    struct collective_world world;
    unsigned char *expected[RANKS_MAX], *got[RANKS_MAX], *device[RANKS_MAX];
    size_t bytes;
};

/* NCCL's maxima of NaNs are another matter, and the fake's arithmetic is the CPU's. */
static void both_open(struct machine *m, struct both *b, enum orr_collective_kind kind,
                      enum orr_dtype dtype, uint64_t seed) {
    memset(b, 0, sizeof *b);
    uint64_t state = seed;
    case_draw_group(&b->asked, &state, kind, dtype, m->count, 40);
    b->bytes = 2 * b->asked.bytes;
    for (uint32_t i = 0; i < m->count; i++) {
        void *device;
        b->expected[i] = malloc(b->bytes);
        b->got[i] = malloc(b->bytes);
        assert_true(b->expected[i] && b->got[i]);
        done(m, m->api->rt.cudaSetDevice((int)m->gpus[i]));
        done(m, m->api->rt.cudaMalloc(&device, b->bytes));
        b->device[i] = device;
        case_draw_memory(&b->asked, &state, b->expected[i], b->bytes);
        memcpy(b->got[i], b->expected[i], b->bytes);
    }
    case_world(&b->asked, &b->world, b->device);
}

static void both_close(struct machine *m, struct both *b) {
    for (uint32_t i = 0; i < m->count; i++) {
        free(b->expected[i]);
        free(b->got[i]);
        (void)m->api->rt.cudaFree(b->device[i]);
    }
}

/* Uploads, the collective and downloads are ordered by the streams alone. */
static void check_group(struct machine *m, enum orr_collective_kind kind, enum orr_dtype dtype,
                        uint64_t seed) {
    struct both b;
    struct orr_error error = {0};
    both_open(m, &b, kind, dtype, seed);
    for (uint32_t i = 0; i < m->count; i++)
        done(m, m->api->rt.cudaMemcpyAsync(b.device[i], b.expected[i], b.bytes, cudaMemcpyDefault,
                                           m->queues[i].stream));
    if (enqueue(m, &b.world, &error) != ORR_OK ||
        orr__cuda_collectives_poll(m->collectives, &error) != ORR_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, error.text);
    struct collective_world host;
    case_world(&b.asked, &host, b.expected);
    if (orr_collective_run(host.list, host.count, &error) != ORR_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, error.text);
    for (uint32_t i = 0; i < m->count; i++)
        done(m, m->api->rt.cudaMemcpyAsync(b.got[i], b.device[i], b.bytes, cudaMemcpyDefault,
                                           m->queues[i].stream));
    for (uint32_t i = 0; i < m->count; i++) {
        done(m, m->api->rt.cudaStreamSynchronize(m->queues[i].stream));
        case_compare(&b.asked, i, b.expected[i], b.got[i], seed);
    }
    both_close(m, &b);
}

static void every_kind_is_the_cpus_by_every_way(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        uint64_t seed = case_first_seed();
        struct machine m;
        machine_open(&m, &settings[s], s < 2 ? 3 : settings[s].gpus == 2 ? 4 : RANKS_MAX);
        for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
            for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
                bool refused = orr_collective_reduces((enum orr_collective_kind)kind) &&
                               orr_dtype_is_storage((enum orr_dtype)dtype);
                for (int again = 0; again < 2 && !refused; again++)
                    check_group(&m, (enum orr_collective_kind)kind, (enum orr_dtype)dtype, seed++);
            }
        machine_close(&m);
    }
}

/* A wait that is left out: the nth call of cudaStreamWaitEvent does nothing. */
static struct {
    __typeof__(&cudaStreamWaitEvent) wait;
    uint64_t calls, dropped;
} waits;

static cudaError_t wait_or_not(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return ++waits.calls == waits.dropped ? cudaSuccess : waits.wait(stream, event, flags);
}

/* Ones on three ranks, of which one is late; the sums that they get, without the nth wait. */
static void sums_without(uint64_t nth, uint32_t late, int32_t *out_sums) {
    enum { RANKS = 3, DELAY_BYTES = 4 << 20 }; /* 160 us of virtual time */
    struct machine m;
    struct orr_error error = {0};
    struct orr_collective of[RANKS];
    struct orr__cuda_member members[RANKS];
    int32_t *device[RANKS], *host;
    void *delay;
    machine_open(&m, &settings[0], RANKS);
    waits.wait = m.api->rt.cudaStreamWaitEvent;
    waits.calls = 0;
    waits.dropped = nth;
    m.api->rt.cudaStreamWaitEvent = wait_or_not;
    done(&m, m.api->rt.cudaMallocHost((void **)&host, DELAY_BYTES));
    done(&m, m.api->rt.cudaMalloc(&delay, DELAY_BYTES));
    memset(host, 0, DELAY_BYTES);
    host[0] = 1;
    for (uint32_t i = 0; i < RANKS; i++) {
        cudaStream_t stream = m.queues[i].stream;
        void *x;
        done(&m, m.api->rt.cudaMalloc(&x, sizeof *host));
        device[i] = x;
        if (i == late)
            done(&m,
                 m.api->rt.cudaMemcpyAsync(delay, host, DELAY_BYTES, cudaMemcpyDefault, stream));
        done(&m, m.api->rt.cudaMemcpyAsync(x, host, sizeof *host, cudaMemcpyDefault, stream));
        of[i] = (struct orr_collective){.kind = ORR_COLLECTIVE_ALL_REDUCE,
                                        .dtype = ORR_DTYPE_I32,
                                        .rank = i,
                                        .ranks = RANKS,
                                        .count = 1,
                                        .in = x,
                                        .out = x};
        members[i] = (struct orr__cuda_member){&m.queues[i], i, &of[i]};
    }
    if (orr__cuda_collectives_enqueue(m.collectives, members, RANKS, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(waits.calls, 4);
    for (uint32_t i = 0; i < RANKS; i++)
        done(&m, m.api->rt.cudaMemcpyAsync(&host[i + 1], device[i], sizeof *host, cudaMemcpyDefault,
                                           m.queues[i].stream));
    for (uint32_t i = 0; i < RANKS; i++) {
        done(&m, m.api->rt.cudaStreamSynchronize(m.queues[i].stream));
        out_sums[i] = host[i + 1];
    }
    for (uint32_t i = 0; i < RANKS; i++)
        done(&m, m.api->rt.cudaFree(device[i]));
    done(&m, m.api->rt.cudaFree(delay));
    done(&m, m.api->rt.cudaFreeHost(host));
    machine_close(&m);
}

/* Two waits of the leader for the others, two of the others for the leader. */
static void each_wait_of_a_meeting_is_needed(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        uint32_t late = nth <= 2 ? (uint32_t)nth : 0;
        int32_t with[3], without[3];
        sums_without(0, late, with);
        for (int i = 0; i < 3; i++)
            assert_int_equal(with[i], 3);
        sums_without(nth, late, without);
        assert_memory_not_equal(with, without, sizeof with);
    }
}

static const struct setting by_nccl = {ORR_FAKE_SIMULATED, 2, "nccl", NULL};

static void a_communicator_is_made_once(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, &by_nccl, 2);
    for (uint64_t seed = 1; seed < 5; seed++) {
        check_group(&m, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, seed);
        check_group(&m, ORR_COLLECTIVE_ALL_GATHER, ORR_DTYPE_F32, seed);
        check_group(&m, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_F32, seed);
    }
    assert_int_equal(orr_fake_cuda_calls(m.fake, "ncclCommInitAll"), 1);
    for (uint64_t seed = 1; seed < 5; seed++)
        check_group(&m, ORR_COLLECTIVE_SEND_RECEIVE, ORR_DTYPE_F32, seed);
    assert_int_equal(orr_fake_cuda_calls(m.fake, "ncclCommInitAll"), 2); /* of all devices */
    assert_int_equal(orr_fake_cuda_census(m.fake).communicators, 4);
    machine_close(&m);
}

static void without_nccl_collectives_between_gpus_are_emulated(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_fake_cuda *fake;
    struct orr_error error = {0};
    struct orr_fake_cuda_options options = {.gpu_count = 2, .no_nccl = true};
    assert_int_equal(orr_fake_cuda_open(&options, &memory.table, &fake, &error), ORR_OK);
    const uint32_t gpus[] = {0, 1};
    struct orr_cuda_options asked = {.gpus = gpus};
    struct orr__cuda_collectives *c;
    assert_int_equal(
        orr__cuda_collectives_open(orr_fake_cuda_api(fake), &memory.table, &asked, 2, &c, &error),
        ORR_OK);
    assert_string_equal(orr__cuda_collectives_algorithm(c), "emulated");
    orr__cuda_collectives_close(&c);
    asked.collectives = ORR_CUDA_COLLECTIVES_NCCL;
    assert_int_equal(
        orr__cuda_collectives_open(orr_fake_cuda_api(fake), &memory.table, &asked, 2, &c, &error),
        ORR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "NCCL"));
    orr_fake_cuda_close(&fake);
    assert_int_equal(memory.live, 0);
}

/* Every entry point of NCCL that a collective uses fails once: the call is named, later ones fail
 * with the same words, nothing is left. */
static void a_failing_call_of_nccl_is_named_and_stays(void **state) {
    (void)state;
    static const struct {
        const char *faults, *call;
        enum orr_collective_kind kind;
        bool stays;
    } cases[] = {
        {"ncclCommInitAll:1:1", "ncclCommInitAll", ORR_COLLECTIVE_ALL_REDUCE, false},
        {"ncclGroupStart:1:3", "ncclGroupStart", ORR_COLLECTIVE_ALL_REDUCE, false},
        {"ncclGroupEnd:1:6", "ncclGroupEnd", ORR_COLLECTIVE_ALL_REDUCE, true},
        {"ncclAllReduce:2:2", "ncclAllReduce", ORR_COLLECTIVE_ALL_REDUCE, true},
        {"ncclReduce:1:2", "ncclReduce", ORR_COLLECTIVE_REDUCE, true},
        {"ncclBroadcast:2:2", "ncclBroadcast", ORR_COLLECTIVE_BROADCAST, true},
        {"ncclSend:1:2", "ncclSend", ORR_COLLECTIVE_ALL_TO_ALL, true},
        {"ncclRecv:2:2", "ncclRecv", ORR_COLLECTIVE_ALL_TO_ALL, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct setting setting = by_nccl;
        struct machine m;
        struct both b;
        struct orr_error first = {0}, second = {0}, polled = {0};
        setting.faults = cases[i].faults;
        machine_open(&m, &setting, 2);
        both_open(&m, &b, cases[i].kind, ORR_DTYPE_F32, 1);
        assert_int_not_equal(enqueue(&m, &b.world, &first), ORR_OK);
        if (!strstr(first.text, cases[i].call))
            fail_msg("%s: '%s'", cases[i].faults, first.text);
        if (cases[i].stays) {
            assert_int_equal(enqueue(&m, &b.world, &second), ORR_DEVICE_FAILED);
            assert_int_equal(orr__cuda_collectives_poll(m.collectives, &polled), ORR_DEVICE_FAILED);
            assert_string_equal(first.text, second.text);
            assert_string_equal(first.text, polled.text);
            assert_int_equal(orr_fake_cuda_calls(m.fake, "ncclCommAbort"), 2);
        } else {
            assert_int_equal(enqueue(&m, &b.world, &second), ORR_OK);
        }
        both_close(&m, &b);
        machine_close(&m);
    }
}

static void a_lost_peer_is_noticed_by_whoever_waits(void **state) {
    (void)state;
    struct setting setting = by_nccl;
    struct machine m;
    struct orr_error error = {0};
    setting.faults = "ncclCommGetAsyncError:3:6";
    machine_open(&m, &setting, 2);
    assert_int_equal(orr__cuda_collectives_poll(m.collectives, &error), ORR_OK);
    check_group(&m, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, 1); /* asks both ranks */
    assert_int_equal(orr__cuda_collectives_poll(m.collectives, &error), ORR_DEVICE_FAILED);
    assert_non_null(strstr(error.text, "ncclCommGetAsyncError"));
    assert_non_null(strstr(error.text, "remote process exited"));
    assert_int_equal(orr_fake_cuda_calls(m.fake, "ncclCommAbort"), 2);
    machine_close(&m);
}

static struct orr_fake_cuda *fake_of_runtime;

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    static const uint32_t gpus[] = {0, 1};
    static const struct orr_cuda_options own = {.gpus = gpus}, shared = {.gpus = NULL};
    struct orr_backend_config with_options = *config;
    with_options.options = config->seed == 1 ? &own : &shared;
    return orr__cuda_open(orr_fake_cuda_api(fake_of_runtime), &with_options, out_backend, error);
}

/* By host layer and backend: what the trace says of the collective. */
static void a_trace_says_how_and_what_links_would_take(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct memory_counting memory;
        struct orr_error error = {0};
        struct fixture f;
        struct orr_communicator *communicator;
        struct orr_fake_cuda_options machine = {.gpu_count = 2};
        const uint32_t devices[] = {0, 1};
        memory_counting_init(&memory, 0);
        assert_int_equal(orr_fake_cuda_open(&machine, &memory.table, &fake_of_runtime, &error),
                         ORR_OK);
        fixture_prepare(&f, open_over_fake, 2);
        f.config.seed = seed;
        for (int i = 0; i < 2; i++)
            f.specs[i].peer_bandwidth = 1000000000; /* one byte a nanosecond */
        fixture_start(&f);
        assert_int_equal(orr_communicator_create(f.runtime, "dp", devices, 2, &communicator),
                         ORR_OK);
        struct orr_stream *streams[2];
        struct orr_piece pieces[2] = {0};
        for (uint32_t i = 0; i < 2; i++) {
            streams[i] = orr_device_stream(f.runtime, i, ORR_STREAM_COMMUNICATE);
            assert_int_equal(orr_buffer_alloc(streams[i], 4000, "x", &pieces[i].buffer), ORR_OK);
            assert_int_equal(orr_stream_fill(streams[i], pieces[i].buffer, 0, 4000, 0), ORR_OK);
        }
        assert_int_equal(orr_collective_enqueue(communicator, ORR_COLLECTIVE_ALL_REDUCE,
                                                ORR_DTYPE_F32, 1000, 0, streams, pieces, pieces,
                                                NULL, 0, NULL),
                         ORR_OK);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(orr_stream_sync(streams[i]), ORR_OK);
        const struct orr_record_collective *record = record_at(&f, ORR_RECORD_COLLECTIVE, 0);
        assert_string_equal(name_text(&f, record->algorithm), seed == 1 ? "nccl" : "emulated");
        assert_int_equal(record->header.b, seed == 2);
        assert_int_equal(record->modelled_ns, 4000); /* 2 (n - 1) / n of the bytes */
        fixture_close(&f);
        orr_fake_cuda_close(&fake_of_runtime);
        assert_int_equal(memory.live, 0);
    }
}

/* What NCCL leaves hanging, the fake tells. */
static void the_fake_says_which_rank_is_missing(void **state) {
    (void)state;
    struct machine m;
    ncclComm_t ranks[2];
    const int gpus[] = {0, 1}, twice[] = {0, 0};
    machine_open(&m, &by_nccl, 2);
    const struct orr__cuda_nccl_table *nccl = &m.api->nccl;
    void *memory;
    done(&m, m.api->rt.cudaSetDevice(0));
    done(&m, m.api->rt.cudaMalloc(&memory, 64));
    assert_int_equal(nccl->ncclCommInitAll(ranks, 2, twice), ncclInvalidUsage);
    assert_int_equal(nccl->ncclCommInitAll(ranks, 2, gpus), ncclSuccess);
    assert_int_equal(nccl->ncclGroupStart(), ncclSuccess);
    assert_int_equal(
        nccl->ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, ranks[0], m.queues[0].stream),
        ncclSuccess);
    assert_int_equal(nccl->ncclGroupEnd(), ncclInvalidUsage);
    assert_non_null(strstr(nccl->ncclGetLastError(NULL), "rank 1 of 2 makes no such call"));
    assert_int_equal(nccl->ncclSend(memory, 4, ncclFloat32, 1, ranks[0], m.queues[0].stream),
                     ncclInvalidUsage);
    assert_non_null(strstr(nccl->ncclGetLastError(NULL), "rank 0 sends to rank 1, which receives"));
    assert_int_equal(nccl->ncclRecv(memory, 4, ncclFloat32, 1, ranks[0], m.queues[0].stream),
                     ncclInvalidUsage);
    assert_non_null(strstr(nccl->ncclGetLastError(NULL), "rank 0 expects something from rank 1"));
    assert_int_equal(
        nccl->ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, ranks[1], m.queues[1].stream),
        ncclInvalidArgument);
    assert_non_null(strstr(nccl->ncclGetLastError(NULL), "a buffer of rank 1 is not in memory"));
    for (int i = 0; i < 2; i++)
        assert_int_equal(nccl->ncclCommDestroy(ranks[i]), ncclSuccess);
    done(&m, m.api->rt.cudaFree(memory));
    machine_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_the_cpus_by_every_way),
        cmocka_unit_test(each_wait_of_a_meeting_is_needed),
        cmocka_unit_test(a_communicator_is_made_once),
        cmocka_unit_test(without_nccl_collectives_between_gpus_are_emulated),
        cmocka_unit_test(a_failing_call_of_nccl_is_named_and_stays),
        cmocka_unit_test(a_lost_peer_is_noticed_by_whoever_waits),
        cmocka_unit_test(a_trace_says_how_and_what_links_would_take),
        cmocka_unit_test(the_fake_says_which_rank_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
