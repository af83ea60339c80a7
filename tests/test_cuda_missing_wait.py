#!/usr/bin/env python3
"""One wait removed, and everything that must notice, on fake CUDA devices.

    ORRERY=build/tsan/orrery tests/test_cuda_missing_wait.py

A producer, an event, and a consumer in another stream. As it is, the program is silent everywhere.
Without the wait ThreadSanitizer reports the data race in the kernels' own source, the check of
happens-before names the producer and the consumer, in a run and in its trace, and the explorer
shows a schedule in which the numbers are wrong.

Needs the command and the fakes as built for ThreadSanitizer; skips what that shows otherwise.

Prints TAP. Needs nothing but Python's standard library.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = pathlib.Path(os.environ.get("ORRERY", ROOT / "build/tsan/orrery")).resolve()
FAKE = ORRERY.parent / "fake"
RUNS = 5
RACE = 66  # exit status that ThreadSanitizer is told to end with

SCENARIO = """
local p = orrery.args{ wait = true }
local d = orrery.device(0)
local first, second = d:stream("compute"), d:stream("communicate")
local a, b, c = d:alloc(4096, "a"), d:alloc(4096, "b"), d:alloc(4096, "c")
first:fill{ to = a, value = 1 }
first:fill{ to = b, value = 0 }
d:sync()
first:kernel{ name = "produce", reads = {a}, writes = {b} }
local produced = first:record()
if p.wait then second:wait(produced) end
second:kernel{ name = "consume", reads = {b}, writes = {c} }
d:sync()
"""


def orrery(folder, *arguments):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LD_LIBRARY_PATH": str(FAKE),
                   "TSAN_OPTIONS": f"halt_on_error=1 exitcode={RACE}"}
    return subprocess.run([str(ORRERY), *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=120, check=False)


def run_on_fake(folder, wait):
    return orrery(folder, "run", "case.lua", f"wait={wait}", "--devices", "cuda:0", "-o",
                  f"{wait}.db")


def silent_with_the_wait(folder):
    for _ in range(RUNS):
        done = run_on_fake(folder, "true")
        if done.returncode != 0 or "ThreadSanitizer" in done.stderr:
            return f"exit code {done.returncode}: {done.stderr.strip()[-1500:]}"
    return None


def reported_without(folder):
    reported = 0
    for _ in range(RUNS):
        done = run_on_fake(folder, "false")
        if done.returncode == RACE and "data race" in done.stderr:
            reported += 1
            for kernel in ("synthetic_write", "synthetic_read"):
                if kernel not in done.stderr:
                    return f"no {kernel} in: {done.stderr.strip()[-1500:]}"
    return None if reported == RUNS else f"reported in {reported} of {RUNS} runs"


def pair_of(text):
    """Names of the two commands of the first finding."""
    found = json.loads(text)["findings"]
    return [name for name in ("produce", "consume") if name in found[0]["message"]] if found else []


def same_pair(folder):
    live = orrery(folder, "check", "case.lua", "wait=false", "--devices", "sim:h100", "--json")
    clean = orrery(folder, "check", "case.lua", "wait=true", "--devices", "sim:h100", "--json")
    if clean.returncode != 0 or live.returncode != 1:
        return f"exit codes {clean.returncode} and {live.returncode}, expected 0 and 1"
    if pair_of(live.stdout) != ["produce", "consume"]:
        return f"another pair: {live.stdout[:800]}"
    return None


def same_pair_on_cuda(folder):
    live = orrery(folder, "check", "case.lua", "wait=false", "--devices", "cuda:0", "--json")
    if live.returncode == RACE:  # the kernels race under our eyes
        return None
    if live.returncode != 1 or pair_of(live.stdout) != ["produce", "consume"]:
        return f"exit code {live.returncode}: {live.stdout[:500]}{live.stderr[-500:]}"
    return None


def explored(folder):
    done = orrery(folder, "explore", "case.lua", "wait=false", "--devices", "sim:h100", "--json")
    clean = orrery(folder, "explore", "case.lua", "wait=true", "--devices", "sim:h100", "--json")
    if done.returncode != 1 or clean.returncode != 0:
        return f"exit codes {done.returncode} and {clean.returncode}, expected 1 and 0"
    if '"wrong_numbers": true' not in done.stdout and '"wrong_numbers":true' not in done.stdout:
        return f"no wrong numbers: {done.stdout[:800]}"
    return None


# Name, case, what the build has to have for it.
CASES = [("ThreadSanitizer is silent with the wait", silent_with_the_wait, ("fake", "tsan")),
         ("ThreadSanitizer reports the kernels without it", reported_without, ("fake", "tsan")),
         ("the check names producer and consumer", same_pair, ()),
         ("and so it does of the run on CUDA devices", same_pair_on_cuda, ("fake",)),
         ("an explored schedule has wrong numbers", explored, ())]
LACKS = {"fake": "no CUDA toolkit", "tsan": "not built for ThreadSanitizer"}


def main():
    there = {"fake": (FAKE / "libcudart.so.13").exists(), "tsan": "tsan" in ORRERY.parts}
    print(f"1..{len(CASES)}")
    failed = 0
    for number, (name, case, needs) in enumerate(CASES, 1):
        lacks = [LACKS[what] for what in needs if not there[what]]
        if lacks:
            print(f"ok {number} - {name} # SKIP {lacks[0]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "case.lua").write_text(SCENARIO, encoding="utf-8")
            wrong = case(folder)
        failed += wrong is not None
        print(f"{'not ' if wrong else ''}ok {number} - {name}", flush=True)
        for line in (wrong or "").splitlines():
            print("#", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
