#!/bin/sh
# Transcripts: each scenario's commands and their exact output in virtual time, run twice. Prints
# TAP.
#
#   tests/golden/run.sh [--update] [NAME...]     NAME: a path below tests/golden without .golden
#
# tests/golden/<folder>/<name>.golden belongs to scenarios/<folder>/<name>.lua (a scenario may
# have more: <name>.<variant>.golden). A line "$ command" is run by sh in an empty folder where
# `orrery` is the command and `scenarios` the scenarios; what it prints (both outputs) follows,
# and "[N]" when its exit status N is not 0:
#
#     $ orrery run scenarios/races/missing_wait.lua -o run.db
#     $ orrery check run.db
#     race: ...
#     [1]
#
# Three cases each: the second run prints what the first printed; the files that both wrote are
# equal, byte for byte; the output equals the transcript. A scenario without a transcript is a
# failure that names the command to make one. --update rewrites transcripts; do so only in the
# commit that explains the change.
set -u
LC_ALL=C
OPENBLAS_NUM_THREADS=1
export LC_ALL OPENBLAS_NUM_THREADS

here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
# Where the scenarios and the transcripts are; tests/selftest.sh sets them.
scenarios=${GOLDEN_SCENARIOS:-$root/scenarios}
transcripts=${GOLDEN_TRANSCRIPTS:-$here}
case ${BUILD_ROOT:-build} in
/*) orrery=${ORRERY:-$BUILD_ROOT/release/orrery} ;;
*) orrery=${ORRERY:-$root/${BUILD_ROOT:-build}/release/orrery} ;;
esac
limit=${GOLDEN_TIMEOUT:-60}

# play TRANSCRIPT FOLDER: runs the commands there, prints the transcript they make.
play() {
    mkdir -p "$2/bin" "$2/files"
    ln -s "$orrery" "$2/bin/orrery"
    ln -s "$scenarios" "$2/files/scenarios"
    grep '^\$ ' "$1" | while IFS= read -r line; do
        printf '%s\n' "$line"
        (cd "$2/files" && PATH="$2/bin:$PATH" timeout -k 5 "$limit" sh -c "${line#\$ }") \
            </dev/null >"$2/out" 2>&1
        status=$?
        # A last line without an end gets one, so that "[N]" and the next command start a line.
        awk 1 "$2/out"
        [ $status -eq 0 ] || echo "[$status]"
    done
    rm -f "$2/files/scenarios"
}

# judge NAME: the three cases of one transcript, as lines "ok - ..." without numbers.
judge() {
    golden=$transcripts/$1.golden
    work=$(mktemp -d) || exit 1
    play "$golden" "$work/1" >"$work/first"
    play "$golden" "$work/2" >"$work/second"
    if [ "$update" = 1 ]; then
        cp "$work/first" "$golden"
    fi
    verdict "$1: the second run prints what the first printed" \
        diff -u --label "first run" --label "second run" "$work/first" "$work/second"
    verdict "$1: both runs write the same files" diff -r "$work/1/files" "$work/2/files"
    verdict "$1: the output equals the transcript" \
        diff -u --label "expected: $1.golden" --label "got" "$golden" "$work/first"
    rm -rf "$work"
}

verdict() {
    what=$1
    shift
    if difference=$("$@" 2>&1); then
        echo "ok - $what"
    else
        echo "not ok - $what"
        printf '%s\n' "$difference" | head -n 60 | sed 's/^/# /'
    fi
}

update=0
case ${1:-} in
--update)
    update=1
    shift
    ;;
--judge)
    # Called by xargs below: one transcript, its output in one file, so that parallel runs don't
    # mix.
    update=$2
    judge "$4" >"$3/$(printf '%s' "$4" | tr '/' '+')"
    exit 0
    ;;
esac

names() {
    (cd "$transcripts" && find . -name '*.golden' | sed 's|^\./||; s|\.golden$||' | sort)
}

# Scenarios, library modules aside, that have no transcript of their own.
uncovered() {
    (cd "$scenarios" && find . -name '*.lua' ! -path './library/*' |
        sed 's|^\./||; s|\.lua$||' | sort) |
        while IFS= read -r name; do
            set -- "$transcripts/$name.golden" "$transcripts/$name".*.golden
            [ -e "$1" ] || [ -e "${2:-}" ] || echo "$name"
        done
}

all=1
if [ $# -gt 0 ]; then
    all=0
    wanted=$(printf '%s\n' "$@")
else
    wanted=$(names)
fi
if [ "$update" = 1 ]; then
    # A scenario without a transcript gets one with the plain command.
    for name in $([ $all = 1 ] && uncovered || printf '%s\n' "$wanted"); do
        [ ! -e "$transcripts/$name.golden" ] || continue
        mkdir -p "$(dirname "$transcripts/$name")"
        echo "\$ orrery run scenarios/$name.lua -o run.db" >"$transcripts/$name.golden"
    done
    [ $all = 0 ] || wanted=$(names)
fi

results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
[ -z "$wanted" ] || printf '%s\n' "$wanted" |
    xargs -P "${JOBS:-2}" -I '{}' "$here/run.sh" --judge "$update" "$results" '{}'
if [ $all = 1 ]; then
    uncovered | while IFS= read -r name; do
        echo "not ok - $name: the scenario has a transcript"
        echo "# make one: tests/golden/run.sh --update $name"
    done >"$results/~uncovered"
fi
# Numbers and the plan; the exit status says whether a case failed.
cat "$results"/* 2>/dev/null | awk '
    /^ok - / { sub(/^ok/, "ok " ++n) }
    /^not ok - / { sub(/^not ok/, "not ok " ++n); bad = 1 }
    { print }
    END { print "1.." n + 0; exit bad || n == 0 }'
