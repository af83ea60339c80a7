#!/usr/bin/env python3
"""The stories of scenarios/races/: what the check says of each and what the explorer finds agree.

    ORRERY=build/release/orrery tests/test_races.py [PATTERN]

As it is told, a scenario has its mistake: `orrery check` finds it, live and in the trace that the
run leaves, on simulated devices and on CPU threads; `orrery explore` finds a schedule in which it
shows, and `orrery replay` of that schedule shows it again. With fixed=true nothing is found, by
neither.

Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
BUDGET = "400"

THREADS = ["--devices", "cpu*2"]
# Exit codes of (run, explore) where a mistake is no race: a hang ends the run; ranks that call
# different collectives are told so at once; a capture that is broken up computes the right numbers.
OTHERS = {"both_send_first": (4, 1), "collective_order": (4, 1), "skipped_collective": (4, 1),
          "different_sizes": (4, 1), "host_read_in_capture": (0, 0)}
# Arguments without which no schedule shows it.
SHOWN_BY = {"freed_too_early": ["allocator=adversarial"]}


def orrery(*words):
    done = subprocess.run([ORRERY, *words], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def finding(text):
    """The line that says what was found, without how often."""
    lines = [line for line in text.splitlines() if re.match(r"[a-z-]+: ", line)]
    return lines[0] if lines else text


def summary(text):
    """What the check found, in numbers: "race: 1 finding"."""
    found = re.search(r"(no-race|race|use-after-free|unordered-free): [0-9]+ findings?", text)
    return found.group() if found else text


def broken_case(name, scenario):
    def check():
        wanted, explored = OTHERS.get(name, (1, 1))
        with tempfile.TemporaryDirectory() as folder:
            trace, schedule = os.path.join(folder, "run.db"), os.path.join(folder, "schedule")
            code, text = orrery("run", scenario, "--check", "-o", trace)
            if code != wanted:
                return f"run --check: exit code {code}: {text}"
            if wanted == 1:
                checked, threads = orrery("check", trace), orrery("check", scenario, *THREADS)
                if checked[0] != 1 or threads[0] != 1 or summary(checked[1]) != summary(text) or \
                        summary(threads[1]) != summary(text):
                    return f"run --check: {text}; trace: {checked}; on threads: {threads}"
            code, found = orrery("explore", scenario, *SHOWN_BY.get(name, []), "--budget", BUDGET,
                                 "--out", schedule)
            if code != explored:
                return f"explore: exit code {code}: {found}"
            if explored == 1:
                code, text = orrery("replay", schedule)
                if code != 1 or finding(text) != finding(found):
                    return f"replay: exit code {code}: {text}; explored: {found}"
        return None
    return f"{name}: found by the check, shown by a schedule", check


def fixed_case(name, scenario):
    def check():
        for devices in ([], THREADS):
            code, text = orrery("check", scenario, "fixed=true", *devices)
            if code != 0:
                return f"check: exit code {code}: {text}"
        code, text = orrery("explore", scenario, "fixed=true", *SHOWN_BY.get(name, []), "--budget",
                            BUDGET)
        return f"explore: exit code {code}: {text}" if code != 0 else None
    return f"{name}: nothing is found once it is fixed", check


def main():
    cases = []
    for path in sorted((ROOT / "scenarios/races").glob("*.lua")):
        scenario = str(path.relative_to(ROOT))
        cases += [broken_case(path.stem, scenario), fixed_case(path.stem, scenario)]
    cases = [case for case in cases if len(sys.argv) < 2 or re.search(sys.argv[1], case[0])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for number, ((name, _), wrong) in enumerate(
                zip(cases, pool.map(lambda case: case[1](), cases)), 1):
            failed += wrong is not None
            print(f"{'not ' if wrong else ''}ok {number} - {name}")
            for line in (wrong or "").splitlines():
                print(f"# {line}")
    print(f"1..{len(cases)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
