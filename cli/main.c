#include "cli/cli.h"

int main(int argc, char **argv) {
    struct orr_memory memory = orr_memory_system();
    struct orr_cli cli = {.memory = &memory, .out = stdout, .err = stderr};
    return orr_cli_main(&cli, argc, argv);
}
