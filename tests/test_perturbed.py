#!/usr/bin/env python3
"""Whole scenarios under perturbations: same numbers, and faults that are named.

    ORRERY=build/release/orrery tests/test_perturbed.py [PATTERN]

Slower in whatever way: a scenario prints what it prints undisturbed, but for its times, meets its
expectations but for those about times, and leaves a trace without findings. So with the adversarial
allocator, which hands freed memory out at once. A check finds the same in a racy scenario whatever
its times. Faults: exit code 4 and one line that names the
cause; the trace says what was perturbed and is marked as failed.

ORR_TEST_SEED is the first seed. Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import functools
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
SEED = int(os.environ.get("ORR_TEST_SEED", "1"))

# (scenario, arguments): programs that wait for what they need.
CLEAN = [
    ("training/strategies.lua", "tp=2 pp=2 microbatches=2 steps=2"),
    ("training/strategies.lua", "dp=4 zero=3 steps=2"),
    ("training/strategies.lua", "dp=2 cp=2 microbatches=2 steps=2"),
    ("training/strategies.lua", "model=tiny_moe dp=2 ep=2 steps=2"),
    ("training/strategies.lua", "model=tiny_gpt pp=2 microbatches=2 schedule=zero_bubble steps=2"),
    ("pipeline/mlp.lua", "kind=1f1b dp=2"),
    ("training/mlp.lua", ""),
]

SLOWER = [
    "jitter=0.9",
    "host_jitter=0.9",
    "jitter=0.5 straggler=device:0,by:5",
    "straggler=device:1,by:0.2 slow_link=device:0,by:20",
    "stall_host=ns:20us jitter=0.3",
    "allocator=adversarial",
    "allocator=adversarial jitter=0.9 host_jitter=0.5",
]


def run(folder, scenario, arguments, *options):
    """The exit code, both outputs, and the trace's path."""
    trace = os.path.join(folder, "run.db")
    done = subprocess.run([ORRERY, "run", f"scenarios/{scenario}", *arguments.split(), *options,
                           "-o", trace], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          check=False)
    return done.returncode, done.stdout, done.stderr.strip(), trace


def timeless(text):
    """What is left of an output without figures of time and the lines about expectations."""
    text = re.sub(r"[0-9.]+ (ns|us|ms|s)\b", "TIME", text)
    text = re.sub(r"trace in .*", "trace", text)
    return [line for line in text.splitlines()
            if not line.startswith(("failed: ", "expectations: "))]


def other_failures(text):
    """Failed expectations that are not about times."""
    return [line for line in text.splitlines()
            if line.startswith("failed: ") and "expect.time_ns" not in line]


@functools.lru_cache(maxsize=None)
def undisturbed(scenario, arguments):
    with tempfile.TemporaryDirectory() as folder:
        return run(folder, scenario, arguments)[1]


def slower_case(scenario, arguments, rules):
    def check():
        plain = undisturbed(scenario, arguments)
        with tempfile.TemporaryDirectory() as folder:
            code, text, error, _ = run(folder, scenario, arguments, "--perturb",
                                       f"{rules} seed={SEED}")
        if code not in (0, 1):
            return f"exit code {code}: {error}"
        if other_failures(text):
            return other_failures(text)[0]
        for one, other in zip(timeless(plain), timeless(text)):
            if one != other:
                return f"'{one}' became '{other}'"
        return None
    return f"{scenario} {arguments}: the same numbers with {rules}", check


STRATEGY = ("training/strategies.lua", "dp=2 tp=2 steps=2")

FAULTS = [
    ("device_error=device:1,nth:40", "device 1 failed it (perturb device_error=device:1,nth:40)"),
    ("device_error=device:2,at:300us", "device 2 failed it (perturb device_error=device:2,at:"),
    ("lose_device=device:3,at:400us", "device 3 was lost at 400000 ns"),
    ("fail_link=device:0,peer:1,at:200us", "a link of device 0 failed at 200000 ns"),
    ("lose_link=device:0,at:200us", "a link of device 0 was lost at 200000 ns"),
    ("lose_rank=at:500us", "the program was lost at 500000 ns"),
    ("fail_alloc=device:1,nth:30", "an allocation found no memory"),
    ("memory=device:2,bytes:64KiB", "its capacity was lowered"),
]


def fault_case(rules, named):
    def check():
        with tempfile.TemporaryDirectory() as folder:
            code, _, error, trace = run(folder, *STRATEGY, "--perturb", rules)
            database = sqlite3.connect(trace)
            meta = dict(database.execute("SELECT key, value FROM meta"))
            early = database.execute("SELECT count(*) FROM cmd WHERE start_ns < enqueue_ns OR"
                                     " finish_ns < start_ns").fetchone()[0]
            database.close()
        if code != 4 or named not in error or "\n" in error:
            return f"exit code {code}: {error}"
        if meta.get("status") != "failed" or not meta.get("perturb"):
            return f"meta: {meta.get('status')}, {meta.get('perturb')}"
        return f"{early} commands are out of order" if early else None
    return f"{rules} ends the run and is named", check


HANGS = [
    ("training/strategies.lua", "dp=2 tp=2 steps=2", "lose_device=device:3,at:400us"),
    ("training/strategies.lua", "dp=2 tp=2 steps=2", "lose_link=device:0,at:200us"),
    ("races/skipped_collective.lua", "fixed=true", "lose_device=device:1,at:30us"),
    ("races/skipped_collective.lua", "fixed=true", "lose_rank=rank:1,at:2us"),
]


def hang_case(scenario, arguments, rules):
    """What waits for something lost: the run fails, and the check has it as its finding."""
    def check():
        with tempfile.TemporaryDirectory() as folder:
            code, _, error, trace = run(folder, scenario, arguments, "--perturb", rules)
            answers = [subprocess.run([ORRERY, "check", *words], cwd=ROOT, capture_output=True,
                                      text=True, timeout=120, check=False)
                       for words in ([trace], [f"scenarios/{scenario}", *arguments.split(),
                                               "--perturb", rules])]
        if code != 4 or "hang: " not in error or " in a wait for a device" in error:
            return f"exit code {code}: {error}"
        for answer in answers:
            lines = answer.stdout.splitlines()
            wanted = "error: hang: " + error.removeprefix("orrery: ")
            told = wanted in lines and ": hang: 1 finding" in lines[-1]
            if answer.returncode != 1 or not told:
                return f"exit code {answer.returncode}: {answer.stdout}{answer.stderr}"
        return None
    return f"{scenario}, {rules}: a hang is a finding", check


def findings(scenario, *options):
    """What the check finds: kind and message, in order of texts."""
    with tempfile.TemporaryDirectory() as folder:
        code, _, error, trace = run(folder, scenario, "", "--check", *options)
        if code not in (0, 1):
            return f"exit code {code}: {error}"
        database = sqlite3.connect(trace)
        rows = database.execute("SELECT kind, message FROM finding WHERE severity != 'note'")
        found = sorted(map(str, rows))
        database.close()
    return found


def check_case(scenario):
    """What is found follows from the calls: other times, same findings."""
    def check():
        plain = findings(scenario)
        for rules in (f"jitter=0.9 host_jitter=0.9 seed={SEED}", "straggler=device:0,by:30",
                      "allocator=adversarial"):
            other = findings(scenario, "--perturb", rules)
            if other != plain:
                return f"with {rules}: {other}; without: {plain}"
        return None
    return f"{scenario}: the same findings at other times", check


def repeat_case(rules):
    """The same rules twice: the same trace, byte for byte."""
    def check():
        dumps = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                _, _, _, trace = run(folder, *STRATEGY, "--perturb", rules)
                dumps.append(pathlib.Path(trace).read_bytes())
        return None if dumps[0] == dumps[1] else "the traces differ"
    return f"{rules} can be repeated", check


def main():
    print(f"# seed {SEED}")
    # A third of all pairs, another third with the next seed.
    cases = [slower_case(*program, rules) for i, program in enumerate(CLEAN)
             for j, rules in enumerate(SLOWER) if (i + j + SEED) % 3 == 0]
    cases += [fault_case(rules, named) for rules, named in FAULTS]
    cases += [hang_case(*hang) for hang in HANGS]
    # Hangs end the run before anything could be found.
    cases += [check_case(f"races/{path.name}")
              for path in sorted((ROOT / "scenarios/races").glob("*.lua"))
              if "-- test: --check\n" in path.read_text(encoding="utf-8")]
    cases += [repeat_case(rules) for rules in
              ("jitter=0.7 host_jitter=0.7 seed=5", "lose_link=device:0,at:200us")]
    cases = [case for case in cases if len(sys.argv) < 2 or re.search(sys.argv[1], case[0])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for number, ((name, _), wrong) in enumerate(
                zip(cases, pool.map(lambda case: case[1](), cases)), 1):
            failed += wrong is not None
            print(f"{'not ' if wrong else ''}ok {number} - {name}")
            if wrong:
                print(f"# {wrong}")
    print(f"1..{len(cases)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
