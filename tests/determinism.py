#!/usr/bin/env python3
"""Same program, same seed: the same trace, byte for byte.

Every run that the scenarios ask for in their `-- test:` lines is made four times: twice by the
release command, once by the debug one, and once with --timing-only toggled. The first three must
leave byte-equal files, whose exports by both commands are byte-equal JSON; the last one must give
every command the same times (a run that reads values can't be timing-only, and says so).

    ORRERY=build/release/orrery ORRERY_DEBUG=build/debug/orrery tests/determinism.py [FOLDER]

Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import filecmp
import os
import pathlib
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))
JOBS = int(os.environ.get("JOBS", os.cpu_count() or 2))
DEBUG = os.environ.get("ORRERY_DEBUG", str(ROOT / "build/debug/orrery"))
TIMES = ("SELECT id, kind, name, host, device, stream, seq, enqueue_ns, enqueued_ns, ready_ns, "
         "start_ns, finish_ns, flops, bytes_read, bytes_written FROM cmd ORDER BY id")


def plays(folder):
    """(scenario, devices, arguments) of every `-- test:` line below a folder."""
    for path in sorted(pathlib.Path(folder).resolve().rglob("*.lua")):
        if "library" in path.parts:
            continue
        devices, tests = [], []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("-- devices:"):
                devices = ["--devices", line.split(":", 1)[1].strip()]
            elif line.startswith("-- test:"):
                tests.append(shlex.split(line.split(":", 1)[1]))
        for arguments in tests or [[]]:
            yield path.relative_to(ROOT), devices, arguments


def run(command, scenario, devices, arguments, trace):
    return subprocess.run([command, "run", str(scenario), *arguments, *devices, "-o", trace],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def dump(trace):
    with sqlite3.connect(f"file:{trace}?mode=ro", uri=True) as database:
        return list(database.iterdump())


def same_files(one, other):
    return filecmp.cmp(one, other, shallow=False)


def export(command, trace, target):
    subprocess.run([command, "export", trace, "-o", target], cwd=ROOT, capture_output=True,
                   timeout=300, check=True)


def times(trace):
    with sqlite3.connect(f"file:{trace}?mode=ro", uri=True) as database:
        return database.execute(TIMES).fetchall()


def first_difference(one, other):
    for a, b in zip(one, other):
        if a != b:
            return f"{a} | {b}"
    return f"{len(one)} and {len(other)} rows"


def same_traces(folder, scenario, devices, arguments):
    """None if all traces are equal, else what differs."""
    outputs, traces = [], []
    for name, command in (("one", RELEASE), ("two", RELEASE), ("debug", DEBUG)):
        trace = f"{folder}/{name}.db"
        # The output names the trace, so all runs write to one path.
        result = run(command, scenario, devices, arguments, f"{folder}/run.db")
        if not os.path.exists(f"{folder}/run.db"):
            return f"{name}: no trace, exit code {result.returncode}: {result.stderr.strip()}"
        os.rename(f"{folder}/run.db", trace)
        traces.append(trace)
        outputs.append(result.stdout)
    for i, name in ((1, "the second run"), (2, "the debug build")):
        if not same_files(traces[0], traces[i]):
            return f"{name}: the traces differ: " + first_difference(dump(traces[0]),
                                                                      dump(traces[i]))
        if outputs[0] != outputs[i]:
            return f"{name}: the outputs differ"
    export(RELEASE, traces[0], f"{folder}/one.json")
    export(DEBUG, traces[2], f"{folder}/debug.json")
    if not same_files(f"{folder}/one.json", f"{folder}/debug.json"):
        return "the debug build: the JSON exports differ"
    return None


def same_times(folder, scenario, devices, arguments):
    """None if numbers change no time, else what differs; 'skip ...' where values are read."""
    toggled = [a for a in arguments if a != "--timing-only"]
    if toggled == arguments:
        toggled = arguments + ["--timing-only"]
    else:
        return "skip real sizes are run timing-only"
    result = run(RELEASE, scenario, devices, toggled, f"{folder}/toggled.db")
    if result.returncode == 3 and re.search("timing[ -]only", result.stderr):
        return "skip it reads values: " + result.stderr.strip().splitlines()[-1]
    if not os.path.exists(f"{folder}/toggled.db"):
        return f"the other run: exit code {result.returncode}: {result.stderr.strip()}"
    one, other = times(f"{folder}/one.db"), times(f"{folder}/toggled.db")
    common = min(len(one), len(other))
    if one[:common] != other[:common] or common == 0:
        return "times differ: " + first_difference(one, other)
    return None


def decided_by_integers():
    """Objects that decide times: no call of libm, no floating-point arithmetic, so no fused one."""
    objects = sorted(pathlib.Path(RELEASE).resolve().parent.glob("obj/sim/*.o"))
    objects += sorted(pathlib.Path(RELEASE).resolve().parent.glob("obj/runtime/device_spec.o"))
    if len(objects) < 5 or not shutil.which("objdump"):
        return "skip no objects of a release build here, or no objdump"
    libm = re.compile(r"\b(exp|log|pow|sqrt|sin|cos|tan|fma|floor|ceil|round|trunc|fmod|l?lr\w+)"
                      r"(2|10|1p|m1)?[fl]?$")
    arithmetic = re.compile(r"\bv?(add|sub|mul|div|sqrt|fn?m(add|sub)\d*|cvt\w+2)[sp][sd]\b")
    for path in objects:
        code = subprocess.run(["objdump", "-d", "-r", str(path)], capture_output=True, text=True,
                              check=True).stdout
        for line in code.splitlines():
            symbol = line.split()[-1].split("-0x")[0] if "R_X86_64" in line else ""
            if libm.search(symbol) or arithmetic.search(line):
                return f"{path.name}: {' '.join(line.split()[-4:])}"
    return None


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else ROOT / "scenarios"
    number, failed = 0, False

    def report(name, problem):
        nonlocal number, failed
        number += 1
        if problem and problem.startswith("skip "):
            print(f"ok {number} - {name} # SKIP {problem[5:]}")
        elif problem:
            failed = True
            print(f"not ok {number} - {name}\n# {problem}")
        else:
            print(f"ok {number} - {name}")

    def judge(play):
        scenario, devices, arguments = play
        with tempfile.TemporaryDirectory() as scratch:
            problem = same_traces(scratch, scenario, devices, arguments)
            return problem, None if problem else same_times(scratch, scenario, devices, arguments)

    print("TAP version 13")
    work = list(plays(folder))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for (scenario, _, arguments), (traces, clocks) in zip(work, pool.map(judge, work)):
            name = " ".join([str(scenario), *arguments])
            report(f"{name}: two runs and the debug build leave one trace", traces)
            if not traces:
                report(f"{name}: numbers change no time", clocks)
    report("what decides times calls no libm and does no floating-point arithmetic",
           decided_by_integers())
    print(f"1..{number}")
    return 1 if failed or number == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
