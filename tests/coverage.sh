#!/bin/sh
# Line coverage of what the tests ran, per file, from gcov: covered, lines, percent, file.
#
#   tests/coverage.sh build/coverage SOURCE...
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
for source in "$@"; do
    notes=$build/obj/${source%.c}.gcno
    [ -e "$notes" ] || continue
    # -n: no files. gcov prints "Lines executed:83.33% of 24" for the source and its headers.
    gcov -n -o "$(dirname "$notes")" "$build/obj/${source%.c}.o" 2>/dev/null |
        awk -v wanted="$source" '
            /^File / { file = $2; gsub("\047", "", file) }
            /^Lines executed/ && file == wanted {
                split($0, part, /[:% ]+/)
                covered = part[3] * part[5] / 100 + 0.5
                printf "%6d %6d  %5.1f%%  %s\n", covered, part[5], part[3], file
                exit
            }'
done | sort -k 3n | awk '
    { covered += $1; lines += $2; print }
    END { if (lines) printf "%6d %6d  %5.1f%%  all\n", covered, lines, 100 * covered / lines }'
