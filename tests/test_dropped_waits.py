#!/usr/bin/env python3
"""Every parallel strategy without one of its waits: the check of runs must notice.

    ORRERY=build/release/orrery tests/test_dropped_waits.py [COUNT [SEED]]

A training step of scenarios/training/llama.lua is run under the check for each strategy of the list
below, as it is (clean), and COUNT times (2) with one wait left out that the seed draws (flagged).
What is drawn is never a wait that another one makes superfluous right away (orrery run
--drop-wait random); that any other can be missing without a finding is a failure, which prints the
command that repeats it.

Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
STRATEGIES = ("dp=2", "dp=2 zero=1 microbatches=2", "dp=4 zero=3", "tp=2", "tp=4 sequence=false",
              "pp=2 microbatches=4 schedule=1f1b", "pp=2 microbatches=4 schedule=zero_bubble",
              "cp=2", "cp=2 context=all_to_all", "dp=2 tp=2 pp=2 microbatches=2",
              "model=tiny_moe ep=2")


def run(arguments, options):
    words = [ORRERY, "run", "scenarios/training/llama.lua", "model=tiny", *arguments.split(),
             "--timing-only", "--check", "--trace", "off", *options]
    if "model=" in arguments:
        words.remove("model=tiny")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.returncode, " ".join(words), done.stdout + done.stderr


def check(case):
    arguments, seed = case
    options = [] if seed is None else ["--drop-wait", "random", "--seed", str(seed)]
    code, command, text = run(arguments, options)
    return code == (seed is not None), f"{command}: exit code {code}\n{text}"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(os.environ.get("ORR_TEST_SEED", "1"))
    print(f"# ORR_TEST_SEED={first}")
    seeds = [None] + [first + i for i in range(count)]
    cases = [(arguments, seed) for arguments in STRATEGIES for seed in seeds]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, (case, (good, text)) in enumerate(zip(cases, pool.map(check, cases))):
            arguments, seed = case
            what = "clean" if seed is None else f"a wait less, drawn by seed {seed}"
            print(f"{'ok' if good else 'not ok'} {i + 1} - {arguments}: {what}")
            if not good:
                failed += 1
                print("".join(f"# {line}\n" for line in text.splitlines()), end="")
    print(f"1..{len(cases)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
