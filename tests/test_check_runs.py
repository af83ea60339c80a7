#!/usr/bin/env python3
"""The check of runs, from outside: a trace says what the run's check said, and time plays no part.

    ORRERY=build/release/orrery tests/test_check_runs.py [PATTERN]

For each run below: `orrery check SCENARIO -o FILE` finds exactly what `orrery check FILE` finds
afterwards, and it finds the same when every duration is drawn anew. Training runs lack a wait, so
that there is something to find. ORR_TEST_SEED is the first seed. Prints TAP. Needs nothing but
Python's standard library.
"""
import concurrent.futures
import contextlib
import json
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

# Scenarios with arguments; the folder races is added, broken and fixed.
RUNS = [
    "streams/overlap.lua", "streams/exchange.lua", "streams/meshes.lua",
    "streams/rank_programs.lua", "streams/redistribute.lua", "memory/roles.lua",
    "demo/eight_gpus.lua", "worked_example/launch_bound.lua", "pipeline/deadlock.lua",
    "training/context_parallel.lua", "serving/continuous_batching.lua requests=4",
]
# Run without some wait each: several draws.
DROPPED = [
    "training/mlp.lua steps=2", "training/strategies.lua dp=2 tp=2 steps=1",
    "training/strategies.lua pp=2 microbatches=2 steps=1",
]
DRAWS = 2
UNANSWERED = "a trace without accesses"


def cases():
    for path in sorted((ROOT / "scenarios/races").glob("*.lua")):
        name = f"races/{path.name}"
        yield name
        if re.search(r"^-- test:.*fixed=true", path.read_text(encoding="utf-8"), re.M):
            yield name + " fixed=true"
    yield UNANSWERED
    yield from RUNS
    for line in DROPPED:
        for draw in range(DRAWS):
            yield f"{line} --drop-wait random --seed {SEED + draw}"


def check(arguments):
    """(exit code, document or None, standard error) of a check."""
    done = subprocess.run([ORRERY, "check", *arguments, "--json"], cwd=ROOT, capture_output=True,
                          text=True, timeout=120, check=False)
    document = json.loads(done.stdout) if done.stdout.strip() else None
    for key in ("subject", "blurred_waits") if document else ():
        del document[key]
    for finding in document["findings"] if document else []:
        # The error that ends a run says where; the trace's finding is that of who noticed.
        finding["message"] = re.sub(r"^scenarios/\S+:\d+: (?=spmd: )", "", finding["message"])
    return done.returncode, document, done.stderr.strip()


def essence(document):
    """What does not depend on which of several equal calls came first: kinds and texts without
    numbers of commands and counts."""
    texts = set()
    for finding in document["findings"] if document else []:
        message = re.sub(r"(, )?command \d+|bytes \[\d+, \d+\)| \(\d+ times\)", "",
                         finding["message"])
        texts.add((finding["kind"], message))
    return texts


def problems(words, folder):
    trace = os.path.join(folder, "run.db")
    scenario = [f"scenarios/{words[0]}", *words[1:]]
    online, found, said = check([*scenario, "-o", trace])
    if online not in (0, 1, 4) or (online == 0) != (found is not None and not found["findings"]):
        yield f"exit code {online}: {said}"
        return
    if os.path.exists(trace):
        offline, again, said = check([trace])
        if found is not None and again != found:
            yield f"the run found {json.dumps(found)}, its trace says {json.dumps(again)}"
        if found is not None and offline != online and online != 4:
            yield f"exit code {online} of the run, {offline} of its trace: {said}"
    seed = [] if "--seed" in words else ["--seed", str(SEED)]
    perturb = "jitter=0.9 host_jitter=0.5"
    code, other, said = check([*scenario, *seed, "--perturb", perturb])
    if code != online or essence(other) != essence(found):
        yield (f"with {perturb}: exit code {code} instead of {online}, {sorted(essence(other))}"
               f" instead of {sorted(essence(found))}: {said}")


def unanswered(folder):
    """A trace that does not say what its commands touch is bad input; one that says that they
    touch nothing is clean."""
    trace = os.path.join(folder, "run.db")
    subprocess.run([ORRERY, "run", "scenarios/pipeline/draw.lua", "-o", trace], cwd=ROOT,
                   capture_output=True, check=False)
    code, found, said = check([trace])
    if code != 0 or found["findings"] or found["accesses"]:
        yield f"a run without accesses: exit code {code}, {found}: {said}"
    with contextlib.closing(sqlite3.connect(trace)) as database, database:
        database.execute("UPDATE meta SET value = 'false' WHERE key = 'accesses'")
    code, found, said = check([trace])
    if code != 3 or found or "accesses" not in said or said.count("\n"):
        yield f"a trace that has none: exit code {code}, {found}: {said}"


def judge(line):
    with tempfile.TemporaryDirectory() as folder:
        if line == UNANSWERED:
            return line, list(unanswered(folder))
        return line, list(problems(line.split(), folder))


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = [line for line in cases() if pattern in line]
    failed = 0
    print(f"1..{len(lines)}")
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for number, (line, texts) in enumerate(pool.map(judge, lines), 1):
            failed += bool(texts)
            print(f"{'not ok' if texts else 'ok'} {number} - {line}", flush=True)
            for text in texts:
                print("# " + text.replace("\n", " ")[:2000])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
