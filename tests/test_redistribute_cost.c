/* What plans say against what then happens, over meshes of several axes: bytes and hops of every
 * step, the communicators of its groups, and one redistribution for each of several hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"
#include "tests/redistribute_fixture.h"

enum { RANKS = 8, LATENCY_NS = 50, TRIALS = 1500 };

/* Links of one byte a nanosecond, and nothing else that takes time. */
static void open_links(struct fixture *f) {
    fixture_prepare(f, orr_sim_open, RANKS);
    for (int i = 0; i < RANKS; i++) {
        f->specs[i].peer_bandwidth = 1000000000;
        f->specs[i].peer_latency_ns = LATENCY_NS;
        f->specs[i].kernel_fixed_ns = 0;
    }
    fixture_start(f);
}

/* Up to four axes, up to eight devices from any one on. */
static struct orr_mesh *draw_mesh(struct fixture *f, uint64_t *random) {
    static const char *const names[] = {"pp", "dp", "cp", "tp"};
    int64_t dims[4];
    uint32_t devices[RANKS], first = (uint32_t)random_below(random, RANKS);
    int axes = 1 + (int)random_below(random, 4);
    uint64_t size = 1;
    for (int i = 0; i < axes; i++) {
        dims[i] = 1 + (int64_t)random_below(random, 4);
        while (size * (uint64_t)dims[i] > RANKS)
            dims[i]--;
        size *= (uint64_t)dims[i];
    }
    for (uint32_t i = 0; i < RANKS; i++)
        devices[i] = (first + i) % RANKS;
    struct orr_mesh *mesh;
    must_be_ok(f->runtime, orr_mesh_create(f->runtime, axes, dims, names, devices, &mesh));
    return mesh;
}

static void draw_trial(struct fixture *f, struct trial *t) {
    struct orr_mesh *from = draw_mesh(f, &t->random);
    struct orr_mesh *to = random_below(&t->random, 3) ? from : draw_mesh(f, &t->random);
    int64_t dims[3];
    int rank = 1 + (int)random_below(&t->random, 3);
    for (int i = 0; i < rank; i++)
        dims[i] = 1 + (int64_t)random_below(&t->random, 12);
    t->info = (struct orr_operand_info){ORR_DTYPE_F32, orr_shape_of(rank, dims)};
    t->from = orr_layout_replicated(from);
    t->to = orr_layout_replicated(to);
    for (int i = 0; i < from->axis_count; i++)
        t->from.axes[i] = draw_placement(t);
    for (int i = 0; i < to->axis_count; i++)
        t->to.axes[i] = draw_placement(t);
}

static const struct orr_record_member *member_record(const struct fixture *f, uint32_t communicator,
                                                     uint32_t rank) {
    for (size_t i = 0; i < record_count(f, ORR_RECORD_MEMBER); i++) {
        const struct orr_record_member *member = record_at(f, ORR_RECORD_MEMBER, i);
        if (member->communicator == communicator && member->rank == rank)
            return member;
    }
    fail_msg("communicator %u has no rank %u", (unsigned)communicator, (unsigned)rank);
    return NULL;
}

/* Time of a collective's transfer, from its last member's start. Its members run on the devices
 * that their ranks of the communicator are. */
static uint64_t transfer_ns(const struct fixture *f, const struct orr_record_collective *one,
                            uint64_t *out_op) {
    int64_t start_ns = 0, finish_ns = 0;
    for (size_t i = 0; i < record_count(f, ORR_RECORD_COLLECTIVE_MEMBER); i++) {
        const struct orr_record_collective_member *member =
            record_at(f, ORR_RECORD_COLLECTIVE_MEMBER, i);
        if (member->collective != one->id)
            continue;
        const struct orr_record_command *command = command_record(f, member->cmd);
        assert_int_equal(command->device,
                         member_record(f, one->communicator, member->rank)->device);
        start_ns = command->start_ns > start_ns ? command->start_ns : start_ns;
        finish_ns = command->finish_ns;
        *out_op = command->op;
    }
    return (uint64_t)(finish_ns - start_ns);
}

/* Longest transfer of the collectives of each operator with this parent, together. */
static uint64_t wire_ns(const struct fixture *f, uint64_t parent) {
    uint64_t total = 0;
    for (size_t i = 0; i < record_count(f, ORR_RECORD_OP); i++) {
        const struct orr_record_op *op = record_at(f, ORR_RECORD_OP, i);
        uint64_t longest = 0;
        for (size_t k = 0; op->parent == parent && k < record_count(f, ORR_RECORD_COLLECTIVE);
             k++) {
            uint64_t of = 0;
            uint64_t ns = transfer_ns(f, record_at(f, ORR_RECORD_COLLECTIVE, k), &of);
            longest = of == op->id && ns > longest ? ns : longest;
        }
        total += longest;
    }
    return total;
}

static void run_trial(uint64_t seed, uint64_t *crossed) {
    static const float zeros[ELEMENTS_MAX];
    static struct trial t;
    struct fixture f;
    struct orr_redistribute_plan plan;
    struct orr_tensor *source, *target;
    open_links(&f);
    t.random = seed * 0x9e3779b97f4a7c15u + 1;
    draw_trial(&f, &t);
    describe(&t, seed);
    must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &t.info, &t.from, zeros, &source));
    must_be_ok(f.runtime, orr_redistribute_plan(source, &t.to, &plan));
    must_be_ok(f.runtime, orr_tensor_redistribute(source, &t.to, &target));
    must_be_ok(f.runtime, orr_runtime_finish(f.runtime));
    uint64_t hops = plan.paths[0].hops, bytes = plan.paths[0].bytes;
    if (plan.crosses) {
        hops += plan.crossing.hops + plan.after.hops;
        bytes += plan.crossing.bytes + plan.after.bytes;
        (*crossed)++;
    }
    if (target != source) {
        char summary[ORR_REDISTRIBUTE_SUMMARY_MAX];
        const struct orr_record_op *op = record_at(&f, ORR_RECORD_OP, 0);
        assert_string_equal(name_text(&f, op->name),
                            orr_redistribute_summary(&plan, summary, sizeof summary));
        uint64_t ns = wire_ns(&f, op->id);
        if (ns != bytes + LATENCY_NS * hops)
            fail_msg("%s: %llu ns on the wire, expected %llu B and %llu hops", t.text,
                     (unsigned long long)ns, (unsigned long long)bytes, (unsigned long long)hops);
    }
    orr_tensor_destroy(&source);
    orr_tensor_destroy(&target);
    fixture_close(&f);
}

static void every_step_takes_what_its_plan_says(void **state) {
    (void)state;
    uint64_t first = random_seed(1), crossed = 0;
    for (uint64_t i = 0; i < TRIALS; i++)
        run_trial(first + i, &crossed);
    assert_true(crossed > TRIALS / 10 && crossed < TRIALS / 2);
}

/* Closed forms over three axes, S = 8 * 12 * 4 bytes: inner axes first, the outer ones on what the
 * inner ones left. */
static void axes_cost_what_is_left_for_them(void **state) {
    (void)state;
    static const struct {
        const char *from[3], *to[3];
        uint64_t bytes, hops;
    } table[] = {
        /* every pair halves: S/8 + S/4 + S/2 */
        {{"S(0)", "S(0)", "S(0)"}, {"R", "R", "R"}, 384 / 8 + 384 / 4 + 384 / 2, 3},
        /* scattered along each: S/2 + S/4 + S/8 */
        {{"P", "P", "P"}, {"S(0)", "S(0)", "S(0)"}, 384 / 2 + 384 / 4 + 384 / 8, 3},
        /* cut first, then reduced: 2 (n-1)/n of a fourth */
        {{"P", "R", "R"}, {"R", "S(0)", "S(1)"}, 384 / 4, 2},
        {{"R", "R", "R"}, {"S(0)", "S(1)", "S(0)"}, 0, 0},
    };
    struct fixture f;
    open_links(&f);
    struct orr_mesh *mesh;
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 3, (int64_t[]){2, 2, 2},
                                          (const char *[]){"a", "b", "c"}, NULL, &mesh));
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(2, (int64_t[]){8, 12})};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        static const float zeros[96];
        struct orr_layout from = orr_layout_replicated(mesh), to = from;
        struct orr_redistribute_plan plan;
        struct orr_tensor *tensor;
        struct orr_error error;
        for (int axis = 0; axis < 3; axis++) {
            assert_int_equal(orr_placement_parse(table[i].from[axis], &from.axes[axis], &error),
                             ORR_OK);
            assert_int_equal(orr_placement_parse(table[i].to[axis], &to.axes[axis], &error),
                             ORR_OK);
        }
        must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &info, &from, zeros, &tensor));
        must_be_ok(f.runtime, orr_redistribute_plan(tensor, &to, &plan));
        assert_int_equal(plan.paths[0].bytes, table[i].bytes);
        assert_int_equal(plan.paths[0].hops, table[i].hops);
        orr_tensor_destroy(&tensor);
    }
    fixture_close(&f);
}

/* ---- several hosts ------------------------------------------------------------------------ */

/* What a host does, call by call; a call that is blocked comes again. */
struct host {
    struct orr_tensor *there, *shifted, *many[2];
    struct orr_future *futures[3];
    int calls, got;
};

/* The three calls. */
static enum orr_status redistribute(struct orr_tensor *x, const struct orr_layout *away,
                                    struct host *h) {
    struct orr_layout whole = orr_layout_replicated(x->layout.mesh), wholes[2] = {whole, whole};
    enum orr_status status = ORR_OK;
    if (!h->there)
        status = orr_tensor_redistribute(x, away, &h->there);
    if (status == ORR_OK && !h->shifted)
        status = orr_tensor_shift(x, 0, 1, &h->shifted);
    if (status == ORR_OK && !h->many[0])
        status =
            orr_tensor_redistribute_all((struct orr_tensor *[]){x, h->shifted}, wholes, 2, h->many);
    return status;
}

/* What came of them. */
static enum orr_status look(struct host *h) {
    struct orr_tensor *results[3] = {h->there, h->shifted, h->many[1]};
    enum orr_status status = ORR_OK;
    for (; status == ORR_OK && h->got < 3; h->got += status == ORR_OK) {
        float values[12];
        if (!h->futures[h->got])
            status = orr_tensor_future(results[h->got], &h->futures[h->got]);
        if (status == ORR_OK)
            status = orr_future_get(h->futures[h->got], values, sizeof values);
        for (int i = 0; status == ORR_OK && i < 12; i++)
            assert_true((int)values[i] == (h->got == 0 ? i + 1 : (i + 9) % 12 + 1));
    }
    return status;
}

static bool go_on(struct fixture *f, struct orr_tensor *x, const struct orr_layout *away,
                  struct host *h) {
    enum orr_status status = redistribute(x, away, h);
    h->calls++;
    if (status == ORR_OK)
        status = look(h);
    if (status == ORR_BLOCKED)
        return false;
    must_be_ok(f->runtime, status);
    for (int i = 0; i < 3; i++)
        orr_future_destroy(&h->futures[i]);
    orr_tensor_destroy(&h->there);
    orr_tensor_destroy(&h->shifted);
    orr_tensor_destroy(&h->many[0]);
    orr_tensor_destroy(&h->many[1]);
    return true;
}

static void what_several_hosts_call_happens_once(void **state) {
    (void)state;
    enum { HOSTS = 3 };
    static const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct fixture f;
    struct host hosts[HOSTS] = {0};
    struct orr_mesh *near, *far;
    int done = 0, calls = 0;
    open_links(&f);
    must_be_ok(f.runtime,
               orr_mesh_create(f.runtime, 1, (int64_t[]){4}, (const char *[]){"a"}, NULL, &near));
    must_be_ok(f.runtime, orr_mesh_create(f.runtime, 1, (int64_t[]){3}, (const char *[]){"b"},
                                          (uint32_t[]){3, 4, 5}, &far));
    struct orr_layout cut = orr_layout_replicated(near), away = orr_layout_replicated(far);
    cut.axes[0] = away.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    struct orr_operand_info info = {ORR_DTYPE_F32, orr_shape_of(1, (int64_t[]){12})};
    struct orr_tensor *x;
    must_be_ok(f.runtime, orr_tensor_from_host(f.runtime, &info, &cut, values, &x));
    for (uint32_t i = 1, host; i < HOSTS; i++)
        must_be_ok(f.runtime, orr_runtime_add_host(f.runtime, "other", &host));
    for (int turns = 0; done < HOSTS; turns++) {
        uint32_t host;
        assert_true(turns < 1000);
        must_be_ok(f.runtime, orr_runtime_next_host(f.runtime, &host));
        must_be_ok(f.runtime, orr_runtime_set_caller(f.runtime, host, NULL));
        if (go_on(&f, x, &away, &hosts[host])) {
            orr_runtime_host_done(f.runtime, host);
            calls += hosts[host].calls;
            done++;
        }
    }
    assert_true(calls > 3 * HOSTS); /* they were blocked now and then */
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), 3 * HOSTS);
    orr_tensor_destroy(&x);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_takes_what_its_plan_says),
        cmocka_unit_test(axes_cost_what_is_left_for_them),
        cmocka_unit_test(what_several_hosts_call_happens_once),
    };
    return cmocka_run_group_tests_name("redistribute_cost", tests, NULL, NULL);
}
