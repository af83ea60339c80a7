#include "hazards/explore/explore.h"

#include <assert.h>
#include <stdio.h>

#include "hazards/explore/strategy.h"

enum { FINDINGS_MAX = 1 << 20 };

struct orr_explore_options orr_explore_defaults(void) {
    return (struct orr_explore_options){.strategy = ORR_EXPLORE_DPOR,
                                        .budget = ORR_EXPLORE_BUDGET_DEFAULT,
                                        .seed = 1,
                                        .depth = 3,
                                        .threads = 1,
                                        .witnesses = ORR_EXPLORE_WITNESSES_DEFAULT};
}

struct orr_explore_finding *orr__exploration_add(struct orr_exploration *exploration,
                                                 enum orr_check_verdict_kind kind, uint32_t op_a,
                                                 uint32_t op_b) {
    if (orr_memory_grow(exploration->memory, &exploration->findings, &exploration->finding_capacity,
                        (size_t)exploration->finding_count + 1, sizeof *exploration->findings,
                        FINDINGS_MAX) != ORR_OK)
        return NULL;
    struct orr_explore_finding *finding = &exploration->findings[exploration->finding_count++];
    *finding = (struct orr_explore_finding){.kind = kind, .op_a = op_a, .op_b = op_b};
    return finding;
}

void orr_schedule_clear(struct orr_schedule *schedule, const struct orr_memory *memory) {
    orr_memory_free(memory, schedule->kept);
    orr_memory_free(memory, schedule->steps);
    *schedule = (struct orr_schedule){0};
}

void orr_exploration_destroy(struct orr_exploration **handle) {
    struct orr_exploration *exploration = *handle;
    if (!exploration)
        return;
    for (uint32_t i = 0; i < exploration->finding_count; i++) {
        orr_schedule_clear(&exploration->findings[i].schedule, exploration->memory);
        orr_memory_free(exploration->memory, exploration->findings[i].message);
    }
    orr_memory_free(exploration->memory, exploration->findings);
    orr_memory_free(exploration->memory, exploration);
    *handle = NULL;
}

enum orr_status orr_explore(const struct orr_stream_program *program,
                            const struct orr_explore_options *options,
                            struct orr_exploration **out_exploration, struct orr_error *error) {
    assert(options->budget >= 1 && options->depth >= 1 && options->depth <= ORR_STRATEGY_DEPTH_MAX);
    *out_exploration = NULL;
    if (program->oracle == ORR_ORACLE_CAPTURE)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "rules of stream capture don't depend on schedules: nothing to "
                             "explore (orrery check judges them)");
    struct orr_exploration *exploration = orr_memory_alloc(program->memory, sizeof *exploration);
    if (!exploration)
        return ORR_NO_MEMORY;
    exploration->memory = program->memory;
    enum orr_status status = program->oracle == ORR_ORACLE_HB
                                 ? orr__explore_order(program, options, exploration, error)
                                 : orr__explore_hangs(program, options, exploration, error);
    if (status != ORR_OK)
        orr_exploration_destroy(&exploration);
    *out_exploration = exploration;
    return status;
}
