#!/bin/sh
# Tests of the test tools: the driver (run.sh) counts what programs do, the transcripts' runner
# (golden/run.sh) sees each kind of difference, embedded files come back byte for byte, and the
# makefile rebuilds and installs what it should. Prints TAP.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number=0 failed=0

# check NAME CONDITION...: a case; the condition is a test(1) expression.
check() {
    number=$((number + 1))
    name=$1
    shift
    if [ "$@" ]; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        echo "# $*"
        failed=1
    fi
}

program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"
    chmod +x "$work/$1"
}

# The last line of the driver for one program, in a build folder of its own.
drive() {
    (
        unset RESULTS V
        BUILD_ROOT=$work/build TIMEOUT=2 tests/run.sh release "$work/$1"
    ) | tail -n 1
}

program passes 'echo 1..2; echo ok 1 - a; echo ok 2 - b'
check "the driver counts cases that passed" "$(drive passes)" = "2 passed, 0 failed"
program fails 'echo 1..2; echo ok 1 - a; echo not ok 2 - b; exit 1'
check "the driver counts cases that failed" "$(drive fails)" = "1 passed, 1 failed"
program skips 'echo 1..2; echo ok 1 - a; echo "not ok 2 # SKIP b"'
check "a skipped case is neither" "$(drive skips)" = "1 passed, 0 failed"
program crashes 'echo 1..2; echo ok 1 - a; kill -SEGV $$'
check "a crash is a failure" "$(drive crashes)" = "1 passed, 1 failed"
program hangs 'echo 1..2; echo ok 1 - a; sleep 60'
check "a timeout is a failure" "$(drive hangs)" = "1 passed, 1 failed"
program stops 'echo 1..3; echo ok 1 - a; echo ok 2 - b'
check "a plan that is not done is a failure" "$(drive stops)" = "2 passed, 1 failed"
program leaks 'echo 1..1; echo ok 1 - a; exit 23'
check "a bad exit status is a failure" "$(drive leaks)" = "1 passed, 1 failed"
program empty ':'
check "a program without cases is a failure" "$(drive empty)" = "0 passed, 1 failed"
check "a program that was not built is a failure" "$(drive missing)" = "0 passed, 1 failed"

# A command that prints what the scenario holds and writes run.db.
# shellcheck disable=SC2016 # it is the command that expands them
program orrery 'cat "$1"; cp "$1" run.db; case $2 in
    clock) date +%s%N ;; file) date +%s%N >run.db ;; leave) exit 3 ;; esac'
mkdir -p "$work/scenarios/a" "$work/transcripts/a"
echo 'return 1' >"$work/scenarios/a/one.lua"

# The verdicts of one transcript, "ok ok not": what was printed twice, the files, the transcript.
golden() {
    ORRERY=$work/orrery GOLDEN_SCENARIOS=$work/scenarios GOLDEN_TRANSCRIPTS=$work/transcripts \
        tests/golden/run.sh "$@" | awk '
            /^ok / { line = line " ok" }
            /^not ok / { line = line " not" }
            END { print substr(line, 2) }'
}

transcript() {
    cat >"$work/transcripts/a/one.golden"
}

check "a scenario without a transcript is a failure" "$(golden)" = "not"
transcript <<'EOF'
$ orrery scenarios/a/one.lua
return 1
$ orrery scenarios/a/one.lua leave
return 1
[3]
EOF
check "an equal transcript passes" "$(golden)" = "ok ok ok"
echo 'return 2' >"$work/scenarios/a/one.lua"
check "another output than the transcript's is seen" "$(golden)" = "ok ok not"
golden --update >/dev/null
check "an updated transcript passes" "$(golden)" = "ok ok ok"
check "an update keeps commands and statuses" "$(grep -c '^\$ \|^return 2$\|^\[3\]$' \
    "$work/transcripts/a/one.golden")" = 5
echo '$ orrery scenarios/a/one.lua clock' | transcript
check "output that differs between two runs is seen" "$(golden)" = "not ok not"
printf '$ orrery scenarios/a/one.lua file\nreturn 2\n' | transcript
check "a file that differs between two runs is seen" "$(golden)" = "ok not ok"

# Every byte but NUL, which no text file holds, through a compiler.
awk 'BEGIN { for (i = 1; i < 256; i++) printf "%c", i }' >"$work/bytes.sql"
(cd "$work" && "$root/scripts/embed" file bytes.sql >bytes.h)
cat >"$work/bytes.c" <<'EOF'
#include "bytes.h"
#include <stdio.h>
int main(void) { return fputs(orr_embed_bytes_sql, stdout) < 0; }
EOF
"${CC:-cc}" -Wall -Wextra -Werror "$work/bytes.c" -o "$work/bytes" && "$work/bytes" >"$work/back"
cmp -s "$work/bytes.sql" "$work/back"
check "an embedded file comes back byte for byte" $? = 0
"$root/scripts/setup" --check >"$work/setup"
check "the set-up finds everything where tests run" "$?$(cat "$work/setup")" = 0

# A tree of three sources with the real makefile; counts of what it compiled.
unset MAKEFLAGS BUILD_ROOT V
export CUDA=0 # whose sources are not among them
mkdir -p "$work/tree/runtime" "$work/tree/cli" "$work/tree/scenarios/a"
cp -r Makefile scripts "$work/tree"
echo 'return 1' >"$work/tree/scenarios/a/one.lua"
cd "$work/tree" || exit 1
echo 'int orr_one(void);' >runtime/one.h
printf '#include "runtime/one.h"\nint orr_one(void) { return 1; }\n' >runtime/one.c
printf 'int orr_two(void);\nint orr_two(void) { return 2; }\n' >runtime/two.c
printf '#include "runtime/one.h"\nint main(void) { return orr_one() - 1; }\n' >cli/main.c

compiled() {
    make "$@" | grep -c '^  CC '
}

check "make compiles everything" "$(compiled)" = 3
check "make again compiles nothing" "$(compiled)" = 0
touch runtime/one.h
check "a touched header rebuilds what includes it" "$(compiled)" = 2
check "other flags rebuild everything" "$(compiled CFLAGS=-DOTHER)" = 3
check "the same flags again rebuild nothing" "$(compiled CFLAGS=-DOTHER)" = 0
check "another variant is built beside it" "$(compiled VARIANT=debug)" = 3
rm runtime/two.c
make >/dev/null
check "a removed source leaves the library" "$(nm build/release/liborrery.a | grep -c orr_two)" = 0
printf 'int orr_bad(void);\nint orr_bad(void) { int unused; return 1; }\n' >runtime/bad.c
make -s WERROR=1 >/dev/null 2>&1
check "a warning stops the build" $? = 2
rm runtime/bad.c
make install DESTDIR="$work/dest" PREFIX=/opt/orrery >/dev/null
printf '#include "runtime/one.h"\nint main(void) { return orr_one() - 1; }\n' >"$work/user.c"
opt=$work/dest/opt/orrery
flags=$(PKG_CONFIG_PATH=$opt/lib/pkgconfig pkg-config --define-variable=prefix="$opt" \
    --cflags --libs orrery)
# shellcheck disable=SC2086 # words on purpose
(cd "$work" && "${CC:-cc}" user.c $flags -o user && LD_LIBRARY_PATH=$opt/lib ./user)
check "a program builds and runs against what was installed" $? = 0
check "the command and the scenarios are installed" -x "$opt/bin/orrery" -a \
    -e "$opt/share/orrery/scenarios/a/one.lua"
make uninstall DESTDIR="$work/dest" PREFIX=/opt/orrery
check "uninstall leaves no file" -z "$(find "$work/dest" ! -type d)"

echo "1..$number"
exit $failed
