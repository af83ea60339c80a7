#!/bin/sh
# Every header compiles alone, as TAP: one case a header. See the target headers of the makefile.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD_ROOT:-build}
make=${MAKE:-make}

messages=$($make --no-print-directory -s -k VARIANT=release WERROR=1 headers 2>&1 | sed 's/^/# /')
headers=$($make --no-print-directory -s print-HEADERS)
# shellcheck disable=SC2086 # words on purpose
set -- $headers
echo "1..$#"
count=0 failed=0
for header in "$@"; do
    count=$((count + 1))
    stamp=$build/release/headers/$header.ok
    if [ -e "$stamp" ] && [ -z "$(find "$header" -newer "$stamp")" ]; then
        echo "ok $count - $header compiles alone"
    else
        echo "not ok $count - $header compiles alone"
        failed=1
    fi
done
[ $failed = 0 ] || printf '%s\n' "$messages"
exit $failed
