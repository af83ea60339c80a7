/* The CPU backend against the conformance suite. */
#include "runtime/cpu/cpu.h"
#include "tests/conformance.h"

int main(void) {
    static const struct conformance_target target = {.name = "conformance of cpu",
                                                     .open = orr_cpu_open};
    return conformance_run(&target);
}
