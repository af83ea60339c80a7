#include <signal.h>

#include "cli/cli.h"
#include "runtime/operators/gemm.h"

int main(int argc, char **argv) {
    /* A file-size limit is answered like a full disk, by a failed write, not by the end of the
     * process. */
    signal(SIGXFSZ, SIG_IGN);
    orr_gemm_single_thread(); /* one BLAS thread per stream */
    struct orr_memory memory = orr_memory_system();
    struct orr_cli cli = {.memory = &memory, .out = stdout, .err = stderr};
    return orr_cli_main(&cli, argc, argv);
}
