#!/usr/bin/env python3
"""Predictions against real runs of the changed scenario, and what-ifs of other tools' traces.

    ORRERY=build/release/orrery tests/test_whatif.py

Where the mechanism is exact, the prediction must be the re-run to the ns, op by op. Traces of other
tools, replayed unchanged, must give their own times; those of ../shared/traces are tried if they
are there. Prints TAP. Needs nothing but Python's standard library.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
TRACES = ROOT.parent / "shared/traces"

# (scenario and its options, settings): predictions that are the re-run, every start and end.
EXACT = [
    ("worked_example/launch_bound.lua --timing-only", ["launch_cost=0"]),
    ("worked_example/launch_bound.lua --timing-only", ["launch_cost=x0.5"]),
    ("worked_example/launch_bound.lua --timing-only", ["launch_cost=700"]),
    ("worked_example/launch_bound.lua --timing-only", ["host=x3"]),
    ("worked_example/launch_bound.lua --timing-only captured=true", ["launch_cost=0"]),
    ("worked_example/launch_bound.lua --timing-only captured=true", ["kernel:matmul=x3"]),
    ("worked_example/launch_bound.lua --timing-only captured=true", ["class:compute=x2"]),
    ("worked_example/launch_bound.lua --timing-only",
     ["launch_cost=0", "kernel:m*l=x2"]),
    ("demo/eight_gpus.lua --timing-only", ["launch_cost=0"]),
    ("streams/overlap.lua", ["launch_cost=0"]),
    ("streams/overlap.lua", ["class:compute=x2"]),
    ("streams/meshes.lua", ["launch_cost=0"]),
    ("streams/eight_devices.lua --timing-only", ["launch_cost=0"]),
    ("streams/eight_devices.lua --timing-only", ["class:compute=x1.25"]),
    ("pipeline/bubble.lua --timing-only", ["launch_cost=0"]),
    ("worked_example/launch_bound.lua --timing-only captured=true", ["bandwidth=x2"]),
    ("demo/eight_gpus.lua --timing-only", ["bandwidth=x2"]),
    ("streams/eight_devices.lua --timing-only", ["network=x2"]),
    ("demo/eight_gpus.lua --timing-only --perturb straggler=device:3,by:1.5",
     ["straggler=none"]),
    ("demo/eight_gpus.lua --timing-only --runner per-device", ["launch_cost=0"]),
    ("streams/eight_devices.lua --timing-only --perturb straggler=device:5,by:2",
     ["straggler=none"]),
]
# Predictions that are not: a re-run is made, and its error printed.
INEXACT = [
    ("worked_example/launch_bound.lua --timing-only", ["graph=on"],
     ["--rerun", "captured=true"]),
    ("demo/eight_gpus.lua --timing-only", ["network=x2"], []),
    ("demo/eight_gpus.lua --timing-only", ["kernel:forward=x2"], []),
]
WRONG = [
    (["x.db", "--set", "lunch_cost=0"], "did you mean 'launch_cost'"),
    (["x.db", "--set", "launch_cost"], "expected KEY=VALUE"),
    (["x.db"], "expected --set KEY=VALUE"),
    (["--set", "graph=on"], "expected a trace or a scenario"),
    (["x.db", "--set", "graph=on", "--no-rerun"], "are for scenarios"),
]

failed = count = 0


def tap(ok, name, why=""):
    global failed, count
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}")
    if why:
        print("# " + why.replace("\n", "\n# "))
    sys.stdout.flush()


def whatif(*arguments):
    done = subprocess.run([ORRERY, "whatif", *arguments, "--json"], cwd=ROOT, capture_output=True,
                          text=True, timeout=120, check=False)
    return done, json.loads(done.stdout) if done.stdout.strip() else None


def sets(settings):
    return [word for text in settings for word in ("--set", text)]


def scenario(line, settings, *more):
    words = line.split()
    return whatif("scenarios/" + words[0], *words[1:], *sets(settings), *more)


def check_exact(line, settings):
    done, answer = scenario(line, settings)
    rerun = answer["rerun"] if answer else {}
    ok = (done.returncode == 0 and answer["replay_error_ns"] == 0 and rerun["ran"] and
          rerun["error_ns"] == 0 and rerun["largest_op_error_ns"] == 0 and
          answer["predicted_ns"] == rerun["ns"])
    tap(ok, f"exact: {line} with {' '.join(settings)}",
        "" if ok else f"{done.returncode} {done.stderr} {rerun}")


def check_inexact(line, settings, more):
    done, answer = scenario(line, settings, *more)
    rerun = answer["rerun"] if answer else {}
    ok = (done.returncode == 0 and answer["replay_error_ns"] == 0 and rerun["ran"] and
          rerun["error_ns"] == answer["predicted_ns"] - rerun["ns"])
    tap(ok, f"with its error: {line} with {' '.join(settings)}",
        f"error {rerun.get('error_ns')} ns = {rerun.get('error_percent')} %" if ok
        else f"{done.returncode} {done.stderr} {rerun}")


def check_sums(path, name):
    """Of a trace: replayed unchanged it is itself, paths sum to windows, x1 changes nothing."""
    done, answer = whatif(str(path), "--set", "launch_cost=x1", "--set", "host=x1")
    if answer is None:
        tap(False, name, done.stderr)
        return
    ok = (answer["replay_error_ns"] == 0 and done.returncode == (0 if answer["answers"] else 1) and
          sum(answer["path"]["baseline"].values()) == answer["baseline_ns"])
    if answer["answers"]:
        ok = ok and answer["predicted_ns"] == answer["baseline_ns"] and \
            answer["path"]["predicted"] == answer["path"]["baseline"]
    else:
        ok = ok and answer["predicted_ns"] is None and answer["why"] != ""
    tap(ok, name, "" if ok else json.dumps(answer)[:400])


def check_wrong(arguments, message):
    done, answer = whatif(*arguments)
    ok = done.returncode == 2 and answer is None and message in done.stderr
    tap(ok, f"wrong usage: {' '.join(arguments)}", "" if ok else done.stderr)


def check_own_trace():
    """A trace says what its scenario said, without the machine: what was launch-bound is exact."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.db")
        subprocess.run([ORRERY, "run", "scenarios/demo/eight_gpus.lua", "-o", path], cwd=ROOT,
                       capture_output=True, timeout=120, check=True)
        _, of_trace = whatif(path, "--set", "launch_cost=0")
        _, of_run = scenario("demo/eight_gpus.lua --timing-only", ["launch_cost=0"], "--no-rerun")
        ok = of_trace["predicted_ns"] == of_run["predicted_ns"] and of_trace["rerun"] is None
        tap(ok, "a trace and its scenario have one answer")
        check_sums(path, "own trace: unchanged, it is itself")


def main():
    for line, settings in EXACT:
        check_exact(line, settings)
    for line, settings, more in INEXACT:
        check_inexact(line, settings, more)
    for arguments, message in WRONG:
        check_wrong(arguments, message)
    check_own_trace()
    traces = [path for path in sorted(TRACES.glob("*"))
              if path.name.endswith((".json", ".gz", ".sqlite"))] if TRACES.is_dir() else []
    for path in traces:
        check_sums(path, f"{path.name}: unchanged, it is itself")
    if not traces:
        tap(True, "other tools' traces # SKIP no folder shared/traces beside the tree")
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
