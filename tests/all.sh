#!/bin/sh
# What `make test` runs after the set-up. Builds with warnings as errors, runs every test in the
# release variant, then the test binaries under the sanitizers. A part that does not build is a
# failure, and the parts after it still run. The last line is "N passed, N failed"; the exit
# status is 1 when one failed.
#
# JOBS: processes at a time (default: processors). FUZZ_RUNS: inputs per fuzzer (default 2000).
set -u

cd "$(dirname "$0")/.." || exit 1
build=${BUILD_ROOT:-build}
make=${MAKE:-make}
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}
RESULTS=$build/results
export JOBS RESULTS
mkdir -p "$build"
: >"$RESULTS"

began=$(date +%s)
title() {
    printf '\n== %s  (%d s)\n' "$*" $(($(date +%s) - began))
}

jobs_flag=-j$JOBS
case ${MAKEFLAGS:-} in *jobserver*) jobs_flag= ;; esac

build() {
    variant=$1
    shift
    title "build $variant: $*"
    # -k: what else builds is still tested; what does not is missed by the driver.
    # shellcheck disable=SC2086 # no empty word
    $make --no-print-directory $jobs_flag -k VARIANT="$variant" WERROR=1 "$@" \
        >"$build/$variant.log" 2>&1
    status=$?
    # Warnings and errors, not the list of files; all of it with V=1.
    if [ -n "${V:-}" ] || [ $status -ne 0 ]; then
        cat "$build/$variant.log"
    else
        grep -v '^  [A-Z]' "$build/$variant.log"
    fi
    if [ $status -ne 0 ]; then
        echo "FAIL  build of the $variant variant"
        echo "0 1 0" >>"$RESULTS"
    fi
}

value() {
    $make --no-print-directory -s VARIANT="$1" "print-$2"
}

# shellcheck disable=SC2046
build release all cuda tests headers $(value release DEVICE_CHECK)
title "release"
# shellcheck disable=SC2046
TIMEOUT=120 tests/run.sh release $(value release TESTS)

title "scenarios, transcripts, rules of the house"
TIMEOUT=600 tests/run.sh release tests/golden/run.sh tests/scenarios.sh tests/headers.sh \
    tests/tidy/run.sh tests/selftest.sh tests/differential_sim.py tests/differential_check.py \
    tests/test_programs.py tests/test_wrong_kind.py tests/test_check_runs.py \
    tests/differential_malformed.py tests/test_explore_hosts.py tests/test_exact.py \
    tests/test_doctor.py tests/test_ranks.py tests/test_decode_graph.py \
    tests/test_round_trip.py tests/test_queries.py tests/test_diff_pair.py tests/test_whatif.py \
    tests/test_cuda_image.py tests/test_cuda_door.py tests/test_cuda_device_check.py
title "what browsers get"
TIMEOUT=300 tests/run.sh release tests/test_view.py tests/test_report_html.py
title "CUDA, over fake devices"
TIMEOUT=900 tests/run.sh release tests/test_cuda_scenarios.py

title "parallel strategies"
TIMEOUT=900 tests/run.sh release tests/test_strategies.py tests/test_dropped_waits.py
TIMEOUT=600 tests/run.sh release tests/test_perturbed.py tests/test_races.py

build debug all
title "determinism"
ORRERY_DEBUG=$build/debug/orrery TIMEOUT=600 tests/run.sh release tests/determinism.py

build asan all tests fuzzers
title "AddressSanitizer and UndefinedBehaviorSanitizer"
# shellcheck disable=SC2046
TIMEOUT=300 tests/run.sh asan $(value asan TESTS) $(value asan FUZZERS)
TIMEOUT=600 tests/run.sh asan tests/test_attack.py

# shellcheck disable=SC2046
build tsan all cuda $(value tsan TSAN_BINARIES)
title "ThreadSanitizer"
# shellcheck disable=SC2046
TIMEOUT=300 tests/run.sh tsan $(value tsan TSAN_BINARIES)
TIMEOUT=300 tests/run.sh tsan tests/test_cuda_missing_wait.py

title "all"
awk '{p += $1; f += $2; s += $3} END {
    if (s) print s " skipped"
    print p + 0 " passed, " f + 0 " failed"
    exit f > 0 || p == 0 }' "$RESULTS"
