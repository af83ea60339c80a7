/* Peer of the CPU devices: StarPU with empty tasks.
 *
 *     starpu_tasks MODE COUNT
 *
 * MODE: independent: no data; chain: all write one value; pipe4: four values, task i writes i % 4
 * and reads the one before.
 *
 * Prints nanoseconds per task: submitting all while the workers are paused; from the first submit
 * to the end of the last task with the workers running; submitting in batches of a thousand, each
 * of which ends before the next one. The first tenth is a warm-up. */
#include <starpu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 4, BATCH = 1000 };

static starpu_data_handle_t handles[VALUES];
static int values[VALUES];

static double wall_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(int failed) {
    if (!failed)
        return;
    fprintf(stderr, "starpu_tasks: StarPU failed (%d)\n", failed);
    exit(1);
}

static void nothing(void *buffers[], void *argument) {
    (void)buffers, (void)argument;
}

static struct starpu_codelet alone = {.cpu_funcs = {nothing}, .nbuffers = 0, .name = "alone"};
static struct starpu_codelet writes = {
    .cpu_funcs = {nothing}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "writes"};
static struct starpu_codelet moves = {
    .cpu_funcs = {nothing}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "moves"};

static void submit(const char *mode, long i) {
    struct starpu_task *task = starpu_task_create();
    if (strcmp(mode, "independent") == 0) {
        task->cl = &alone;
    } else if (strcmp(mode, "chain") == 0) {
        task->cl = &writes;
        task->handles[0] = handles[0];
    } else {
        task->cl = &moves;
        task->handles[0] = handles[(i + VALUES - 1) % VALUES];
        task->handles[1] = handles[i % VALUES];
    }
    must(starpu_task_submit(task));
}

static double submit_all(const char *mode, long count) {
    double begin_s = wall_s();
    for (long i = 0; i < count; i++)
        submit(mode, i);
    return wall_s() - begin_s;
}

static double submit_paused(const char *mode, long count) {
    starpu_pause();
    double spent_s = submit_all(mode, count);
    starpu_resume();
    must(starpu_task_wait_for_all());
    return spent_s;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *mode = argv[1];
    long count = atol(argv[2]);
    must(starpu_init(NULL));
    for (int i = 0; i < VALUES; i++)
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)&values[i],
                                      sizeof values[i]);
    (void)submit_all(mode, count / 10);
    must(starpu_task_wait_for_all());
    double begin_s = wall_s();
    (void)submit_all(mode, count);
    must(starpu_task_wait_for_all());
    double end_to_end_s = wall_s() - begin_s;
    double submit_s = submit_paused(mode, count), batches_s = 0;
    long batches = count / BATCH > 0 ? count / BATCH : 1;
    for (long i = 0; i < batches; i++)
        batches_s += submit_paused(mode, BATCH);
    printf("%.2f\n%.2f\n%.2f\n", submit_s / (double)count * 1e9, end_to_end_s / (double)count * 1e9,
           batches_s / (double)(batches * BATCH) * 1e9);
    for (int i = 0; i < VALUES; i++)
        starpu_data_unregister(handles[i]);
    starpu_shutdown();
    return 0;
}
