#!/bin/sh
# The test driver: runs programs that print TAP, JOBS at a time, and sums up.
#
#   tests/run.sh VARIANT PROGRAM...
#
# Each runs from the repository's root, in its own process, under a timeout (TIMEOUT seconds),
# with a TMPDIR of its own that is removed afterwards and ORRERY naming the command of the
# variant. Its output is kept in build/<variant>/log/<name>.tap; what is not "ok" in it is shown
# when something failed, and all of it with V=1. A program that crashes, times out, stops before
# its plan is done or runs no case counts as one failure more.
#
# The last line is "N passed, N failed"; the exit status is 1 when something failed. With
# RESULTS=FILE the counts are appended to FILE too.
set -u
LC_ALL=C
export LC_ALL

build=${BUILD_ROOT:-build}

# counts LOG STATUS: prints "passed failed skipped". cmocka 1.1.5 writes "not ok 3 # SKIP" for a
# skipped case.
counts() {
    awk -v status="$2" '
        /^(not )?ok [0-9]*.*# SKIP/ { skipped++; next }
        /^ok / { passed++ }
        /^not ok / { failed++ }
        /^1\.\.[0-9]+/ { split($1, plan, "[.][.]"); planned += plan[2] }
        END {
            done = passed + failed + skipped
            if ((status != 0 && !failed) || done == 0 || done < planned)
                failed++
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

# The sanitizers of gcc 12 and clang 14 can't map their shadow memory where the kernel randomizes
# addresses by more than 28 bits.
without_aslr() {
    case $1 in
    asan | tsan)
        if setarch "$(uname -m)" -R true 2>/dev/null; then
            printf 'setarch %s -R' "$(uname -m)"
        fi
        ;;
    esac
}

run_one() {
    variant=$1 program=$2
    name=$(basename "$program" .sh)
    [ "$name" != run ] || name=$(basename "$(dirname "$program")")
    log=$build/$variant/log/$name.tap
    count_file=$build/$variant/log/$name.count
    rm -f "$count_file"
    TMPDIR=$(mktemp -d) || exit 1
    CMOCKA_MESSAGE_OUTPUT=TAP
    ORRERY=$(pwd)/$build/$variant/orrery
    case $build in /*) ORRERY=$build/$variant/orrery ;; esac
    # One thread per matrix product: OpenBLAS' own threads are not what is tested.
    OPENBLAS_NUM_THREADS=1
    ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
    LSAN_OPTIONS=suppressions=$(pwd)/tests/lsan.supp:print_suppressions=0
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    TSAN_OPTIONS=suppressions=$(pwd)/tests/tsan.supp:halt_on_error=0:second_deadlock_stack=1
    export TMPDIR CMOCKA_MESSAGE_OUTPUT ORRERY OPENBLAS_NUM_THREADS
    export ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
    limit=${TIMEOUT:-300}
    if [ -x "$program" ]; then
        # shellcheck disable=SC2046 # words on purpose
        timeout -k 5 "$limit" $(without_aslr "$variant") "$program" </dev/null >"$log" 2>&1
        status=$?
    else
        echo "$program was not built" >"$log"
        status=127
    fi
    rm -rf "$TMPDIR"
    [ $status -ne 124 ] || echo "# timed out after $limit s" >>"$log"
    [ $status -le 128 ] || echo "# ended by signal $((status - 128))" >>"$log"
    read -r passed failed skipped <<EOF
$(counts "$log" "$status")
EOF
    report "$variant" "$name" "$log"
    echo "$passed $failed $skipped" >"$count_file"
}

# One line per program, and its log when wanted; in one write, because others print too.
report() {
    word=ok
    [ "$failed" = 0 ] || word=FAIL
    text=$(
        printf '%-5s %-32s %4d passed' "$word" "$1/$2" "$passed"
        [ "$failed" = 0 ] || printf ', %d failed (exit status %d)' "$failed" "$status"
        [ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
        printf '\n'
        if [ -n "${V:-}" ]; then
            sed 's/^/      | /' "$3"
        elif [ "$failed" != 0 ]; then
            grep -v '^ok ' "$3" | sed 's/^/      | /'
        elif [ "$skipped" != 0 ]; then
            grep -i 'skip' "$3" | sed 's/^/      | /'
        fi
    )
    printf '%s\n' "$text"
}

if [ "${1:-}" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi
if [ $# -lt 1 ]; then
    sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
fi

cd "$(dirname "$0")/.." || exit 1
variant=$1
shift
mkdir -p "$build/$variant/log"
for program in "$@"; do
    printf '%s\n' "$program"
done | xargs -P "${JOBS:-2}" -I '{}' "$0" --one "$variant" '{}'

passed=0 failed=0 skipped=0
for program in "$@"; do
    name=$(basename "$program" .sh)
    [ "$name" != run ] || name=$(basename "$(dirname "$program")")
    if read -r p f s 2>/dev/null <"$build/$variant/log/$name.count"; then
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    else
        failed=$((failed + 1))
    fi
done
[ -z "${RESULTS:-}" ] || echo "$passed $failed $skipped" >>"$RESULTS"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
