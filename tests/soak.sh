#!/bin/sh
# Long runs, for a night rather than for every commit: fuzzers and tests with new seeds.
#
#   tests/soak.sh MINUTES [SEED]
#
# Round after round, until the time is over: each fuzzer for a minute (seed SEED, SEED + 1, ...) and
# each test binary of the asan variant once with ORR_TEST_SEED in its environment, which tests that
# draw at random use as their seed. Stops at the first failure; what was printed names its seed.
set -u
cd "$(dirname "$0")/.." || exit 1
minutes=${1:?minutes}
seed=${2:-1}
end=$(($(date +%s) + minutes * 60))
rounds=0

value() {
    ${MAKE:-make} --no-print-directory -s VARIANT=asan "print-$1"
}

while [ "$(date +%s)" -lt $end ]; do
    for fuzzer in $(value FUZZERS); do
        [ "$(date +%s)" -lt $end ] || break
        "$fuzzer" -seed="$seed" -runs=1000000000 -seconds=60 || exit 1
    done
    # shellcheck disable=SC2046 # words on purpose
    ORR_TEST_SEED=$seed tests/run.sh asan $(value TESTS) || {
        echo "soak: failed with ORR_TEST_SEED=$seed"
        exit 1
    }
    seed=$((seed + 1))
    rounds=$((rounds + 1))
done
echo "soak: $rounds rounds, last seed $((seed - 1))"
