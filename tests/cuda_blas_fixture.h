/* cuBLAS for tests/cuda_kernel_fixture.h: a table whose products run at once, on the CPU. There is
 * no cublasLt behind it, so that epilogues run as kernels.
 *
 *     blas_install(fixture);     // in place of the fixture's empty table
 *
 * Threads: one. */
#ifndef ORR_TESTS_CUDA_BLAS_FIXTURE_H
#define ORR_TESTS_CUDA_BLAS_FIXTURE_H

#include "tests/cuda_kernel_fixture.h"

void blas_install(struct kernel_fixture *fixture);

/* For cmocka: as kernel_setup, with cuBLAS. */
int blas_setup(void **state);

#endif
