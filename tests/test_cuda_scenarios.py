#!/usr/bin/env python3
"""Every scenario on logical CUDA devices of one GPU, over the fake devices, beside CPU devices.

    ORRERY=build/release/orrery tests/test_cuda_scenarios.py [PATTERN]

A run that a scenario asks for in its `-- test:` lines, on as many devices as it has, must end on
`cuda:0*N` as it ends on `cpu*N`: with the same exit code and the same lines, times apart. Scenarios
whose numbers are no race's are also compared operator by operator, by `--compare-devices`.

Over fake devices this proves the backend's host logic, and its kernels' source as compiled for a
CPU; it says nothing about a GPU.

Prints TAP. Skips all, and says why, where there is no plugin or no fake. Needs nothing but Python's
standard library.
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = pathlib.Path(os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))).resolve()
FAKE = ORRERY.parent / "fake"
JOBS = int(os.environ.get("JOBS", os.cpu_count() or 2))
SECONDS = 120
DEVICES_OF = {"dgx-h100": 8, "dgx-a100": 8, "dgx-b200": 8, "dgx-h200": 8, "superpod-h100": 256}

# Scenario, or scenario with arguments -> why it can't run on real devices.
UNSUPPORTED = {}
# Whose expectations are about times, which on a real clock are met or not: they may end with 1.
TIMED = ("scenarios/streams/meshes.lua", "scenarios/pipeline/bubble.lua")
# Folders whose programs race, on purpose or in some case.
RACY = ("races", "faults")
# Lines about time, and the expectations that say something about it.
TIME = re.compile(r"[-+]?\d[\d.]*\s*(ns|us|ms|s)\b|\d+ commands|^failed: |^expectations: ")
# What rounding leaves of a difference.
RESIDUE = re.compile(r"\d(\.\d+)?e-(0[5-9]|[1-9]\d)")
# What two runs may differ by, of a tensor's largest magnitude: in f32, and in the 16-bit floats.
TOLERANCE, TOLERANCE_16 = "1e-4", "1e-2"
# Sums that cancel leave nothing but rounding.
NOISE = 1e-6


def plays():
    """(scenario, devices, arguments) of every `-- test:` line."""
    for path in sorted((ROOT / "scenarios").rglob("*.lua")):
        if "library" in path.parts:
            continue
        count, tests = 1, []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("-- devices:"):
                machine, _, times = line.split(":", 2)[2].partition("*")
                count = DEVICES_OF.get(machine.strip(), 1) * int(times or 1)
            elif line.startswith("-- test:"):
                tests.append(shlex.split(line.split(":", 1)[1]))
        for arguments in tests or [[]]:
            yield path.relative_to(ROOT), count, arguments


def run(scenario, devices, *arguments):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(FAKE), "OPENBLAS_NUM_THREADS": "1"}
    command = [str(ORRERY), "run", str(scenario), *arguments, "--devices", devices]
    return subprocess.run([*command, "--trace", "off"], cwd=ROOT, env=environment,
                          capture_output=True, text=True, timeout=SECONDS, check=False)


def lines(text, devices):
    """What a run printed, without times and the devices' name."""
    kept = [line for line in text.replace(devices, "DEVICES").splitlines() if not TIME.search(line)]
    return [RESIDUE.sub("residue", line) for line in kept]


def parts(scenario, cuda, cpu, arguments):
    """Where the results of operators part between the two, or None."""
    for tolerance in (TOLERANCE, TOLERANCE_16):
        both = run(scenario, cuda, *arguments, "--compare-devices", cpu, "--tolerance", tolerance)
        if both.returncode == 0:
            return None
        differ = re.search(r"differ by up to ([-+.\de]+)", both.stdout)
        if differ and float(differ.group(1)) < NOISE:
            return None
        if not re.search(r"first: b?f16 ", both.stdout):
            break
    return both.stdout.strip()[-600:] + both.stderr.strip()


def problem(scenario, count, arguments):
    """What is wrong with a run on GPUs, or None; a word that begins with '#' skips."""
    name = " ".join([str(scenario), *arguments])
    reason = UNSUPPORTED.get(str(scenario)) or UNSUPPORTED.get(name)
    if reason:
        return "#" + reason
    if "--timing-only" in arguments:
        return "#a run that is timing only has nothing to run on a GPU"
    cpu, cuda = f"cpu*{count}", f"cuda:0*{count}"
    want = run(scenario, cpu, *arguments)
    got = run(scenario, cuda, *arguments)
    timed = str(scenario) in TIMED and {got.returncode, want.returncode} <= {0, 1}
    if got.returncode != want.returncode and not timed:
        return (f"exit code {got.returncode}, on {cpu} {want.returncode}: "
                f"{got.stderr.strip()[-500:]}")
    racy = scenario.parts[1] in RACY
    if not racy and lines(got.stdout, cuda) != lines(want.stdout, cpu):
        return f"prints {got.stdout.strip()[-400:]}, on {cpu} {want.stdout.strip()[-400:]}"
    return None if racy or got.returncode != 0 else parts(scenario, cuda, cpu, arguments)


def attempt(play):
    try:
        return problem(*play)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    if not (ORRERY.parent / "orrery-cuda.so").exists() or not (FAKE / "libcudart.so.13").exists():
        print("1..1\nok 1 - scenarios on CUDA devices # SKIP no CUDA toolkit")
        return 0
    todo = [play for play in plays() if pattern in " ".join([str(play[0]), *play[2]])]
    print(f"1..{len(todo)}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for number, (play, wrong) in enumerate(zip(todo, pool.map(attempt, todo)), 1):
            skipped = wrong and wrong.startswith("#")
            bad = bool(wrong) and not skipped
            failed += bad
            name = f"{play[0]} {' '.join(play[2])} on cuda:0*{play[1]}"
            print(f"{'not ' if bad else ''}ok {number} - {name}"
                  f"{' # SKIP ' + wrong[1:] if skipped else ''}", flush=True)
            for line in (wrong or "").splitlines() if bad else []:
                print("#", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
