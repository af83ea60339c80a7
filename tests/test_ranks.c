/* Ranks: what is matched and what is refused, clocks, who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/ranks_internal.h"
#include "tests/rank_fixture.h"
#include "tests/random_numbers.h"
#include "tests/support.h"

static struct memory_counting counting;

static void begin(struct rank_job *job, size_t count, uint64_t world_size) {
    memory_counting_init(&counting, 0);
    *job = (struct rank_job){0};
    job_begin(job, &counting.table, count, world_size);
}

static void finish(struct rank_job *job) {
    job_free(job);
    assert_int_equal(counting.live, 0);
}

static void compute(struct rank_job *job) {
    job_end(job);
    job_ranks(job);
}

/* An all-reduce: rank r arrives at starts[r], all leave at end. */
static void all_reduce(struct rank_job *job, const int64_t *starts, int64_t end) {
    for (size_t r = 0; r < job->count; r++)
        job_comm(job, r, ALL_REDUCE, starts[r], end);
}

static const struct orr_ranks_refusal *refusal(const struct rank_job *job, const char *words) {
    for (size_t i = 0; i < job->ranks.refusal_count; i++)
        if (strstr(job->ranks.refusals[i].why, words))
            return &job->ranks.refusals[i];
    return NULL;
}

/* ---------------------------------------------------------------------------------------------- */

static void kinds_are_read_from_names(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum orr__comm_kind kind;
    } cases[] = {
        {ALL_REDUCE, ORR__COMM_ALL_REDUCE},
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
         ORR__COMM_ALL_REDUCE},
        {"allreduce_coalesced", ORR__COMM_ALL_REDUCE},
        {"_allgather_base", ORR__COMM_ALL_GATHER},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", ORR__COMM_REDUCE_SCATTER},
        {"ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", ORR__COMM_REDUCE},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", ORR__COMM_SEND_RECEIVE},
        {"all_to_allv", ORR__COMM_ALL_TO_ALL},
        {"send", ORR__COMM_SEND},
        {"recv", ORR__COMM_RECEIVE},
        {"ncclDevKernel_Generic_4(ncclAllReduceArgs)", ORR__COMM_OTHER},
        {"", ORR__COMM_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(orr__comm_kind_text(orr__comm_kind_of(cases[i].text)),
                            orr__comm_kind_text(cases[i].kind));
}

static void clocks_and_waits_are_told_to_the_ns(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3, 3);
    job.shifts[1] = 5000;
    job.shifts[2] = -300000;
    all_reduce(&job, (const int64_t[]){1000, 1400, 1100}, 1500);
    all_reduce(&job, (const int64_t[]){2000, 2000, 2700}, 2800);
    all_reduce(&job, (const int64_t[]){3010, 3000, 3500}, 3600);
    compute(&job);
    const struct orr_ranks *r = &job.ranks;
    assert_true(r->aligned);
    assert_int_equal(r->collective_count, 3);
    assert_int_equal(r->judged, 3);
    assert_int_equal(r->parts[0].offset_ns, 0);
    assert_int_equal(r->parts[1].offset_ns, 5000);
    assert_int_equal(r->parts[2].offset_ns, -300000);
    assert_int_equal(r->parts[2].residual_max_ns, 0);
    assert_int_equal(r->parts[2].samples, 3);
    assert_int_equal(r->median_transfer_ns, 100);
    /* Rank 1 is last by 300, rank 2 by 700 and 490. */
    assert_int_equal(r->items[0].last, 0);
    assert_int_equal(r->items[1].last, 1);
    assert_int_equal(r->items[2].last, 2);
    assert_int_equal(r->items[1].wait_caused_ns, 300);
    assert_int_equal(r->items[2].wait_caused_ns, 1190);
    assert_int_equal(r->items[0].wait_suffered_ns, 400 + 700 + 490);
    assert_int_equal(r->items[1].wait_suffered_ns, 0 + 700 + 500);
    assert_int_equal(r->items[2].wait_suffered_ns, 300);
    assert_int_equal(r->items[2].comm_ns, 400 + 100 + 100);
    assert_int_equal(r->items[2].transfer_ns, 300);
    assert_ptr_equal(orr_ranks_straggler(r), &r->items[2]);
    finish(&job);
}

static void a_missing_rank_is_named_and_leaves_no_verdict(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3, 6);
    orr__builder_source(job.builders[2])->rank = 4;
    all_reduce(&job, (const int64_t[]){1000, 1400, 1100}, 1500);
    compute(&job);
    assert_int_equal(job.ranks.missing_count, 3);
    assert_int_equal(job.ranks.missing[0], 2);
    assert_int_equal(job.ranks.missing[1], 3);
    assert_int_equal(job.ranks.missing[2], 5);
    assert_int_equal(job.ranks.items[1].last, 1);
    assert_null(orr_ranks_straggler(&job.ranks));
    finish(&job);
}

static void the_order_of_traces_does_not_matter(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3, 3);
    static const uint64_t numbers[] = {2, 0, 1};
    for (size_t i = 0; i < 3; i++)
        orr__builder_source(job.builders[i])->rank = numbers[i];
    all_reduce(&job, (const int64_t[]){1000, 1400, 1100}, 1500);
    compute(&job);
    assert_int_equal(job.ranks.parts[0].input, 1);
    assert_int_equal(job.ranks.parts[1].input, 2);
    assert_int_equal(job.ranks.parts[2].input, 0);
    assert_int_equal(job.ranks.items[0].last, 1);
    assert_int_equal(job.ranks.items[2].wait_suffered_ns, 400);
    finish(&job);
}

static void a_rank_that_is_there_twice_is_no_set(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    orr__builder_source(job.builders[1])->rank = 0;
    all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
    compute(&job);
    assert_non_null(strstr(job.ranks.refused, "rank 0 is there twice"));
    assert_int_equal(job.ranks.collective_count, 0);
    assert_false(job.ranks.aligned);
    job_merge(&job); /* still one timeline */
    assert_int_equal(job.merged->device_count, 2);
    finish(&job);
}

static void traces_that_do_not_say_their_rank_are_numbered_and_noted(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, ORR_SOURCE_NONE);
    orr__builder_source(job.builders[1])->rank = ORR_SOURCE_NONE;
    all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
    compute(&job);
    assert_non_null(strstr(job.ranks.notes[0], "numbered in the order"));
    assert_int_equal(job.ranks.items[1].last, 1);
    assert_int_equal(job.ranks.world_size, 0);
    finish(&job);
}

/* ---------------------------------------------------------------------------------------------- */

static void counts_that_differ_are_refused_for_their_kind_alone(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
    job_comm(&job, 0, BROADCAST, 2000, 2100);
    job_comm(&job, 1, BROADCAST, 2000, 2100);
    job_comm(&job, 1, BROADCAST, 3000, 3100);
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 1);
    assert_string_equal(job.ranks.collectives[0].kind, "all_reduce");
    const struct orr_ranks_refusal *why = refusal(&job, "counts differ: 1 on rank 0, 2 on rank 1");
    assert_non_null(why);
    assert_string_equal(why->kind, "broadcast");
    assert_int_equal(why->ops, 3);
    assert_int_equal(job.ranks.matched_ops, 2);
    assert_int_equal(job.ranks.comm_ops, 5);
    finish(&job);
}

static void a_rank_without_any_is_a_count_that_differs(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3, 3);
    job_comm(&job, 0, ALL_REDUCE, 1000, 1500);
    job_comm(&job, 2, ALL_REDUCE, 1000, 1500);
    job_kernel(&job, 1, "gemm", 0, 500);
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 0);
    assert_non_null(refusal(&job, "1 on rank 0, 0 on rank 1"));
    finish(&job);
}

static const uint32_t world3[] = {0, 1, 2};

/* Rank r records seqs first[r] .. last[r]; seq s is from 1000 s. */
static void record_windows(struct rank_job *job, const uint64_t *first, const uint64_t *last) {
    for (size_t r = 0; r < job->count; r++) {
        uint32_t group = job_group(job, r, "0", world3, job->count);
        for (uint64_t s = first[r]; s <= last[r]; s++) {
            int64_t at = 1000 * (int64_t)s;
            uint64_t id = job_comm(job, r, ALL_REDUCE, at + 10 * (int64_t)r, at + 500);
            job_collective(job, r, id, group, "all_reduce", s, ORR_ID_NONE, ORR_ID_NONE);
        }
    }
}

static void sequence_numbers_match_windows_of_different_length(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 3, 3);
    job.shifts[2] = 77;
    record_windows(&job, (const uint64_t[]){5, 3, 4}, (const uint64_t[]){9, 8, 12});
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 4); /* 5 .. 8 */
    assert_int_equal(job.ranks.collectives[0].seq, 5);
    assert_int_equal(job.ranks.collectives[3].seq, 8);
    assert_int_equal(job.ranks.collectives[0].how, ORR_RANKS_SEQUENCE);
    assert_int_equal(job.ranks.items[2].last, 4);
    assert_int_equal(job.ranks.parts[2].offset_ns, 77);
    const struct orr_ranks_refusal *left = refusal(&job, "not in the traces of all 3 ranks");
    assert_non_null(left);
    assert_int_equal(left->ops, 5 + 6 + 9 - 12);
    finish(&job);
}

static void groups_of_one_name_are_told_apart_by_their_ranks(void **state) {
    (void)state;
    static const uint32_t low[] = {0, 1}, high[] = {2, 3};
    struct rank_job job;
    begin(&job, 4, 4);
    for (size_t r = 0; r < 4; r++) {
        uint32_t group = job_group(&job, r, "tp", r < 2 ? low : high, 2);
        uint64_t id = job_comm(&job, r, ALL_REDUCE, 1000 + 100 * (int64_t)r, 2000);
        job_collective(&job, r, id, group, "all_reduce", 1, ORR_ID_NONE, ORR_ID_NONE);
    }
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 2);
    assert_int_equal(job.ranks.collectives[0].count, 2);
    assert_int_equal(job.ranks.items[1].last, 1);
    assert_int_equal(job.ranks.items[3].last, 1);
    /* Nothing ties the two pairs' clocks together: each has its own reference. */
    assert_int_equal(job.ranks.parts[1].reference, 0);
    assert_int_equal(job.ranks.parts[3].reference, 2);
    finish(&job);
}

static void clocks_are_aligned_through_neighbours(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = {{0, 1}, {1, 2}, {2, 3}};
    struct rank_job job;
    begin(&job, 4, 4);
    job.shifts[1] = 100000;
    job.shifts[2] = -200000;
    job.shifts[3] = 4242;
    for (size_t p = 0; p < 3; p++)
        for (size_t side = 0; side < 2; side++) {
            size_t r = pairs[p][side];
            uint32_t group = job_group(&job, r, "pair", pairs[p], 2);
            int64_t at = 1000 * (int64_t)(p + 1);
            uint64_t id = job_comm(&job, r, ALL_REDUCE, at + 50 * (int64_t)side, at + 300);
            job_collective(&job, r, id, group, "all_reduce", 1, ORR_ID_NONE, ORR_ID_NONE);
        }
    compute(&job);
    assert_true(job.ranks.aligned);
    assert_int_equal(job.ranks.judged, 3);
    for (size_t p = 0; p < 4; p++) {
        assert_int_equal(job.ranks.parts[p].reference, 0);
        assert_int_equal(job.ranks.parts[p].offset_ns, job.shifts[p]);
    }
    assert_int_equal(job.ranks.items[0].wait_suffered_ns, 50);
    assert_int_equal(job.ranks.items[3].wait_caused_ns, 50);
    finish(&job);
}

/* A pipeline of 3 stages: 0 sends 4 times to 1, which sends 4 times to 2. */
static void pipeline(struct rank_job *job, bool both_sides) {
    for (size_t r = 0; r < job->count; r++) {
        uint32_t group = job_group(job, r, "pp", world3, 3);
        for (int64_t m = 0; m < 4; m++) {
            int64_t at = 1000 * (m + (int64_t)r);
            uint32_t rank = (uint32_t)r;
            if (r > 0) { /* waits from early on */
                uint64_t id = job_comm(job, r, SEND_RECV, at + 100 + 7 * (int64_t)r, at + 600);
                job_collective(job, r, id, group, "send_receive", 0, rank - 1,
                               both_sides ? rank : ORR_ID_NONE);
            }
            if (r < 2) {
                uint64_t id = job_comm(job, r, SEND_RECV, at + 1000 + 500, at + 1000 + 600);
                job_collective(job, r, id, group, "send_receive", 0,
                               both_sides ? rank : ORR_ID_NONE, rank + 1);
            }
        }
    }
}

static void sends_and_receives_are_paired_by_source_and_destination(void **state) {
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct rank_job job;
        begin(&job, 3, 3);
        pipeline(&job, both != 0);
        compute(&job);
        assert_int_equal(job.ranks.refusal_count, 0);
        assert_int_equal(job.ranks.collective_count, 8);
        for (size_t i = 0; i < 8; i++) {
            const struct orr_ranks_collective *c = &job.ranks.collectives[i];
            assert_int_equal(c->how, ORR_RANKS_PAIR);
            assert_int_equal(c->count, 2);
            assert_int_equal(job.ranks.members[c->first + 1].rank,
                             job.ranks.members[c->first].rank + 1);
        }
        /* Pairs say nothing about clocks. */
        assert_false(job.ranks.aligned);
        assert_non_null(strstr(job.ranks.clock, "not known"));
        finish(&job);
    }
}

static void a_pair_whose_other_side_has_no_trace_is_refused(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 3);
    pipeline(&job, false);
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 4);
    const struct orr_ranks_refusal *why = refusal(&job, "rank 2, the other side of rank 1");
    assert_non_null(why);
    assert_int_equal(why->ops, 4);
    finish(&job);
}

static void peers_may_be_places_in_the_group(void **state) {
    (void)state;
    static const uint32_t group_ranks[] = {0, 3};
    struct rank_job job;
    begin(&job, 2, 4);
    orr__builder_source(job.builders[1])->rank = 3;
    for (size_t i = 0; i < 2; i++) {
        uint32_t group = job_group(&job, i, "pp", group_ranks, 2);
        uint64_t id = job_comm(&job, i, SEND_RECV, 1000, 1500);
        /* Rank 0 sends to place 1, which is rank 3; that receives from place 0. */
        job_collective(&job, i, id, group, "send_receive", 0, i == 0 ? ORR_ID_NONE : 0,
                       i == 0 ? 1 : ORR_ID_NONE);
    }
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 1);
    assert_int_equal(job.ranks.collectives[0].how, ORR_RANKS_PAIR);
    finish(&job);
}

static void sends_and_receives_without_peers_are_an_all_to_all_and_flagged(void **state) {
    (void)state;
    for (int equal = 0; equal < 2; equal++) {
        struct rank_job job;
        begin(&job, 2, 2);
        job_comm(&job, 0, SEND_RECV, 1000, 2000);
        job_comm(&job, 1, SEND_RECV, 1900, 2000);
        if (!equal)
            job_comm(&job, 1, SEND_RECV, 2900, 3000);
        compute(&job);
        assert_int_equal(job.ranks.all_to_all, (uint64_t)equal);
        assert_int_equal(job.ranks.judged, (uint64_t)equal);
        assert_int_equal(job.ranks.refusal_count, (size_t)!equal);
        finish(&job);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void residuals_beyond_a_transfer_refuse_alignment(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    for (int64_t i = 0; i < 9; i++) {
        job_comm(&job, 0, ALL_REDUCE, 10000 * i, 10000 * i + 100);
        int64_t jitter = i % 3 == 0 ? 0 : i % 3 == 1 ? 5000 : -5000;
        job_comm(&job, 1, ALL_REDUCE, 10000 * i + jitter, 10000 * i + 100 + jitter);
    }
    compute(&job);
    assert_int_equal(job.ranks.collective_count, 9);
    assert_false(job.ranks.aligned);
    assert_non_null(strstr(job.ranks.clock, "more than the median transfer"));
    assert_int_equal(job.ranks.parts[1].residual_max_ns, 5000);
    assert_int_equal(job.ranks.parts[1].residual_p05_ns, -5000);
    assert_int_equal(job.ranks.parts[1].residual_p95_ns, 5000);
    assert_int_equal(job.ranks.items[0].wait_suffered_ns, 0);
    assert_null(orr_ranks_straggler(&job.ranks));
    assert_int_equal(orr_ranks_shift(&job.ranks, &job.ranks.parts[1]), 0);
    finish(&job);
}

static void members_that_do_not_overlap_are_flagged_and_left_out(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
    all_reduce(&job, (const int64_t[]){1600, 1700}, 1800);
    job_comm(&job, 0, BROADCAST, 2000, 2100); /* the root sent and went on */
    job_comm(&job, 1, BROADCAST, 5000, 5100);
    compute(&job);
    assert_int_equal(job.ranks.mismatched, 1);
    assert_int_equal(job.ranks.judged, 2);
    assert_true(job.ranks.collectives[2].mismatched);
    assert_int_equal(job.ranks.collectives[2].transfer_ns, 2100 - 5000);
    assert_int_equal(job.ranks.items[0].wait_suffered_ns, 400 + 100);
    finish(&job);
}

static void zeros_of_time_that_traces_name_are_no_offset(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    for (size_t r = 0; r < 2; r++) {
        struct orr_timeline_source *source = orr__builder_source(job.builders[r]);
        source->has_time_base = true;
        source->time_base_ns = r == 0 ? 1700000000000000000 : 1700000000000050000;
    }
    job.shifts[1] = -50000 + 3;
    all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
    compute(&job);
    assert_int_equal(job.ranks.parts[1].base_ns, 50000);
    assert_int_equal(job.ranks.parts[1].offset_ns, 3);
    assert_int_equal(orr_ranks_shift(&job.ranks, &job.ranks.parts[1]), 3 - 50000);
    struct orr_rank_set set;
    assert_int_equal(orr_rank_set_compute(job.inputs, &job.ranks, job.memory, &set), ORR_OK);
    assert_true(set.matched);
    assert_int_equal(set.offset_ns[1], 3);
    assert_int_equal(set.collectives[0].start_spread_ns, 403);
    orr_rank_set_free(job.memory, &set);
    finish(&job);
}

static void a_set_is_matched_by_plain_ordinal_only_if_all_are_alike(void **state) {
    (void)state;
    static const char *const seconds[] = {ALL_REDUCE, BROADCAST};
    for (size_t same = 0; same < 2; same++) {
        struct rank_job job;
        struct orr_rank_set set;
        begin(&job, 2, 2);
        all_reduce(&job, (const int64_t[]){1000, 1400}, 1500);
        job_comm(&job, 0, BROADCAST, 2000, 2500);
        job_comm(&job, 1, seconds[same], 2100, 2510);
        compute(&job);
        assert_int_equal(orr_rank_set_compute(job.inputs, &job.ranks, job.memory, &set), ORR_OK);
        assert_int_equal(set.matched, same);
        assert_int_equal(set.comm_ops[1], 2);
        if (same) {
            assert_int_equal(set.collectives[1].transfer_ns, 400);
            assert_int_equal(set.collectives[1].end_spread_ns, 10);
            assert_int_equal(set.last[1], 2);
            assert_int_equal(set.wait_ns[0], 500);
            assert_int_equal(set.offset_ns[1], 0);
            assert_int_equal(set.residual_max_ns[1], 10);
        }
        orr_rank_set_free(job.memory, &set);
        finish(&job);
    }
}

static void traces_without_communication_are_fine(void **state) {
    (void)state;
    struct rank_job job;
    begin(&job, 2, 2);
    job_kernel(&job, 0, "gemm", 100, 200);
    compute(&job);
    assert_int_equal(job.ranks.comm_ops, 0);
    assert_int_equal(job.ranks.count, 2);
    assert_false(job.ranks.aligned);
    finish(&job);
}

/* ---------------------------------------------------------------------------------------------- */

/* True starts and ends are drawn; what a trace has is off by its clock. */
static void random_job(struct rank_job *job, uint64_t *random, size_t count, size_t collectives,
                       int64_t (*starts)[JOB_RANKS_MAX]) {
    for (size_t r = 1; r < count; r++)
        job->shifts[r] = (int64_t)random_below(random, 2000000) - 1000000;
    int64_t now = 1000;
    for (size_t c = 0; c < collectives; c++) {
        int64_t arrival = now;
        for (size_t r = 0; r < count; r++) {
            starts[c][r] = now + (int64_t)random_below(random, 5000);
            arrival = starts[c][r] > arrival ? starts[c][r] : arrival;
        }
        now = arrival + 1 + (int64_t)random_below(random, 1000);
        for (size_t r = 0; r < count; r++)
            job_comm(job, r, ALL_REDUCE, starts[c][r], now);
        now += 100;
    }
}

static void random_jobs_come_out_as_drawn(void **state) {
    (void)state;
    enum { COLLECTIVES = 20 };
    static int64_t starts[COLLECTIVES][JOB_RANKS_MAX];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        uint64_t random = seed;
        struct rank_job job;
        size_t count = 2 + (size_t)random_below(&random, seed % 10 == 0 ? 62 : 8);
        begin(&job, count, count);
        random_job(&job, &random, count, COLLECTIVES, starts);
        compute(&job);
        int64_t suffered[JOB_RANKS_MAX] = {0};
        uint64_t last[JOB_RANKS_MAX] = {0};
        for (size_t c = 0; c < COLLECTIVES; c++) {
            size_t latest = 0;
            for (size_t r = 0; r < count; r++)
                latest = starts[c][r] > starts[c][latest] ? r : latest;
            last[latest]++;
            for (size_t r = 0; r < count; r++)
                suffered[r] += starts[c][latest] - starts[c][r];
        }
        for (size_t r = 0; r < count; r++) {
            if (job.ranks.parts[r].offset_ns != job.shifts[r] ||
                job.ranks.items[r].wait_suffered_ns != suffered[r] ||
                job.ranks.items[r].last != last[r])
                fail_msg("seed %llu, rank %zu", (unsigned long long)seed, r);
        }
        assert_int_equal(job.ranks.judged, COLLECTIVES);
        finish(&job);
    }
}

static void each_allocation_may_fail(struct memory_counting *memory, void *context) {
    (void)context;
    struct rank_job job = {.may_fail = true};
    job_begin(&job, &memory->table, 3, 3);
    if (!job.failed) {
        record_windows(&job, (const uint64_t[]){5, 3, 4}, (const uint64_t[]){9, 8, 12});
        job_comm(&job, 0, BROADCAST, 50000, 50100);
    }
    job_end(&job);
    job_ranks(&job);
    struct orr_rank_set set = {0};
    if (!job.failed && orr_rank_set_compute(job.inputs, &job.ranks, &memory->table, &set) == ORR_OK)
        orr_rank_set_free(&memory->table, &set);
    job_free(&job);
}

static void out_of_memory_is_clean(void **state) {
    (void)state;
    assert_true(fail_each_request(each_allocation_may_fail, NULL) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_read_from_names),
        cmocka_unit_test(clocks_and_waits_are_told_to_the_ns),
        cmocka_unit_test(a_missing_rank_is_named_and_leaves_no_verdict),
        cmocka_unit_test(the_order_of_traces_does_not_matter),
        cmocka_unit_test(a_rank_that_is_there_twice_is_no_set),
        cmocka_unit_test(traces_that_do_not_say_their_rank_are_numbered_and_noted),
        cmocka_unit_test(counts_that_differ_are_refused_for_their_kind_alone),
        cmocka_unit_test(a_rank_without_any_is_a_count_that_differs),
        cmocka_unit_test(sequence_numbers_match_windows_of_different_length),
        cmocka_unit_test(groups_of_one_name_are_told_apart_by_their_ranks),
        cmocka_unit_test(clocks_are_aligned_through_neighbours),
        cmocka_unit_test(sends_and_receives_are_paired_by_source_and_destination),
        cmocka_unit_test(a_pair_whose_other_side_has_no_trace_is_refused),
        cmocka_unit_test(peers_may_be_places_in_the_group),
        cmocka_unit_test(sends_and_receives_without_peers_are_an_all_to_all_and_flagged),
        cmocka_unit_test(residuals_beyond_a_transfer_refuse_alignment),
        cmocka_unit_test(members_that_do_not_overlap_are_flagged_and_left_out),
        cmocka_unit_test(zeros_of_time_that_traces_name_are_no_offset),
        cmocka_unit_test(a_set_is_matched_by_plain_ordinal_only_if_all_are_alike),
        cmocka_unit_test(traces_without_communication_are_fine),
        cmocka_unit_test(random_jobs_come_out_as_drawn),
        cmocka_unit_test(out_of_memory_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
