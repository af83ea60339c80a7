/* Matrix multiplication's one process-wide switch.
 *
 * OpenBLAS keeps its number of threads in the process. Orrery wants one: numbers must not depend on
 * how many cores a machine has, and the CPU backend brings its own threads. Whoever owns the
 * process says so once, before the first operator runs:
 *
 *     int main(void) {
 *         orr_gemm_single_thread();
 *         ...
 *
 * Operators never touch the switch themselves: setting it on each call would race between threads,
 * and would surprise a program that uses OpenBLAS for its own work as well. A program that wants
 * OpenBLAS threaded leaves this call out; results may then differ in the last bit.
 *
 * Threads: call it before other threads use matrix multiplication. */
#ifndef ORR_RUNTIME_GEMM_H
#define ORR_RUNTIME_GEMM_H

/* Makes OpenBLAS run each multiplication in the calling thread. */
void orr_gemm_single_thread(void);

#endif
