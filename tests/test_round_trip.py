#!/usr/bin/env python3
"""Nothing is lost: a trace, its database, its Perfetto export, and back again.

    ORRERY=build/release/orrery tests/test_round_trip.py [PATTERN]

For each trace (runs of ours, small and random ones of other tools, the real ones where they are:
../shared/traces):

    trace --export--> a.json --export--> b.json         b is a, byte for byte
    trace --import--> a.db   --export--> c.json         c is a, byte for byte (imported traces)
    analyze trace = analyze a.db = analyze a.json       every figure

The export passes tests/check_perfetto.py, and its slices are exactly the commands, calls and
slices of the database. Broken exports are refused in one line. ORR_TEST_SEED is the first seed.
Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import test_exact  # noqa: E402

ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
REAL = ROOT.parent / "shared/traces"
RANDOM = 8

RUNS = [
    "streams/overlap.lua", "streams/exchange.lua", "streams/rank_programs.lua",
    "memory/roles.lua", "demo/eight_gpus.lua", "worked_example/launch_bound.lua",
    "pipeline/deadlock.lua", "training/mlp.lua steps=2",
    "serving/continuous_batching.lua requests=4",
]
BROKEN = {
    "cut in its first line": lambda text: text[:300],
    "without its timeline": lambda text: text.replace('"timeline":"', '"timelines":"'),
    "no base64": lambda text: text.replace('"timeline":"', '"timeline":"*'),
    "damaged": lambda text: text.replace('"timeline":"A', '"timeline":"B'),
    "a number for a text": lambda text: text.replace('"timeline":"', '"timeline":7,"other":"'),
}


class Wrong(Exception):
    pass


def orrery(*arguments, code=0):
    done = subprocess.run([ORRERY, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode != code:
        raise Wrong(f"{arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[:300]}")
    return done


def figures(path):
    """All that `analyze --json` says, but the name of the file."""
    document = json.loads(orrery("analyze", path, "--json").stdout)

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in ("file", "trace")}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(document)


def difference(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            if key not in a or key not in b:
                return f"{path}/{key} is in one of them only"
            found = difference(a[key], b[key], f"{path}/{key}")
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        found = (difference(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
        return next(filter(None, found), None)
    return None if a == b and type(a) is type(b) else f"{path}: {str(a)[:80]} and {str(b)[:80]}"


def same_bytes(a, b):
    if pathlib.Path(a).read_bytes() != pathlib.Path(b).read_bytes():
        raise Wrong(f"{pathlib.Path(a).name} and {pathlib.Path(b).name} differ")


def same_figures(a, b):
    found = difference(figures(a), figures(b))
    if found:
        raise Wrong(f"{pathlib.Path(b).name}: {found}")


def ns(text):
    whole, digits = text.split(".")
    return 1000 * int(whole) + int(digits)


def drawn(path):
    """(name, begin, length) of all slices of an export, t0 added, marks apart."""
    slices, marks = [], 0
    with open(path, encoding="utf-8") as file:
        document = json.load(file, parse_float=str)
    t0 = int(document["metadata"]["t0_ns"])
    for event in document["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "op":
            if ns(event["dur"]) > 0:
                slices.append((event["name"], ns(event["ts"]) + t0, ns(event["dur"])))
            else:
                marks += 1
    return sorted(slices), marks, document["metadata"]


def stored(path):
    """What should be drawn of an imported trace, from the views of its database."""
    good = "b BETWEEN -(1 << 61) AND 1 << 61 AND e BETWEEN b AND 1 << 61"
    sql = f"""
        SELECT CASE WHEN coalesce(name, '') IN ('', kind) THEN kind ELSE name END, b, e - b FROM
            (SELECT name, kind, start_ns AS b, finish_ns AS e FROM cmd)
        WHERE {good} AND (b <> 0 OR e <> 0)
        UNION ALL SELECT coalesce(name, 'call'), b, e - b FROM
            (SELECT name, begin_ns AS b, end_ns AS e FROM call) WHERE {good}
        UNION ALL SELECT coalesce(name, 'slice'), b, e - b FROM
            (SELECT name, begin_ns AS b, end_ns AS e FROM slice
             WHERE host IS NOT NULL OR stream IS NOT NULL) WHERE {good}
        UNION ALL SELECT 'sync ' || kind, begin_ns, max(0, end_ns - begin_ns) FROM sync
            WHERE host IS NOT NULL AND begin_ns IS NOT NULL AND end_ns IS NOT NULL"""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return sorted(row for row in database.execute(sql) if row[2] > 0)


def check_imported(trace, folder):
    a, database = f"{folder}/a.json", f"{folder}/a.db"
    slices, _, metadata = drawn(a)
    expected = stored(database)
    if slices != expected:
        odd = (set(slices) ^ set(expected)) or {"the same ones, but another number of times"}
        raise Wrong(f"slices and database differ: {sorted(map(str, odd))[:3]}")
    orrery("export", database, "-o", f"{folder}/c.json")
    same_bytes(a, f"{folder}/c.json")


def round_trip(trace, folder, imported):
    a = f"{folder}/a.json"
    orrery("export", trace, "-o", a)
    orrery("export", a, "-o", f"{folder}/b.json")
    same_bytes(a, f"{folder}/b.json")
    orrery("import", trace, "-o", f"{folder}/a.db")
    if imported:
        check_imported(trace, folder)
    several = str(trace).endswith(".tar.gz")
    same_figures(f"{folder}/a.db" if several else trace, a)
    same_figures(a, f"{folder}/a.db")
    done = subprocess.run([sys.executable, "-B", ROOT / "tests/check_perfetto.py", a],
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Wrong(done.stdout[:600])


def run(words, folder):
    trace = f"{folder}/run.db"
    subprocess.run([ORRERY, "run", f"scenarios/{words[0]}", *words[1:], "-o", trace], cwd=ROOT,
                   capture_output=True, timeout=300, check=False)
    round_trip(trace, folder, False)


def imported(path, folder):
    round_trip(path, folder, True)


def random_kineto(seed, folder):
    import random
    path = f"{folder}/random.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write(test_exact.dump(test_exact.kineto(random.Random(seed))))
    round_trip(path, folder, True)


def random_nsys(seed, folder):
    import random
    path = f"{folder}/random.sqlite"
    test_exact.nsys(random.Random(seed), path)
    round_trip(path, folder, True)


def broken(how, folder):
    subprocess.run([ORRERY, "run", "scenarios/streams/overlap.lua", "-o", f"{folder}/run.db"],
                   cwd=ROOT, capture_output=True, timeout=300, check=False)
    orrery("export", f"{folder}/run.db", "-o", f"{folder}/a.json")
    text = pathlib.Path(f"{folder}/a.json").read_text(encoding="utf-8")
    pathlib.Path(f"{folder}/b.json").write_text(BROKEN[how](text), encoding="utf-8")
    for verb in (["analyze", "--json"], ["import", "-o", f"{folder}/x.db"]):
        done = orrery(*verb, f"{folder}/b.json", code=3)
        if done.stdout or done.stderr.count("\n") != 1 or "b.json" not in done.stderr:
            raise Wrong(f"said: {done.stderr[:300]}")
    if os.path.exists(f"{folder}/x.db"):
        raise Wrong("something was left behind")


def cut_behind_its_first_line(folder):
    """The timeline stands there: nothing is lost with the events."""
    subprocess.run([ORRERY, "run", "scenarios/streams/overlap.lua", "-o", f"{folder}/run.db"],
                   cwd=ROOT, capture_output=True, timeout=300, check=False)
    orrery("export", f"{folder}/run.db", "-o", f"{folder}/a.json")
    text = pathlib.Path(f"{folder}/a.json").read_text(encoding="utf-8")
    pathlib.Path(f"{folder}/b.json").write_text(text[:text.index("\n") + 100], encoding="utf-8")
    same_figures(f"{folder}/run.db", f"{folder}/b.json")


def replaced(folder):
    """Only what Orrery wrote is replaced."""
    trace = ROOT / "tests/data/exact/odd.json"
    pathlib.Path(f"{folder}/letter.txt").write_text("Dear all\n", encoding="utf-8")
    orrery("import", trace, "-o", f"{folder}/letter.txt", code=4)
    if pathlib.Path(f"{folder}/letter.txt").read_text(encoding="utf-8") != "Dear all\n":
        raise Wrong("a letter was replaced")
    for _ in range(2):
        orrery("import", trace, "-o", f"{folder}/a.db")
    orrery("import", trace, "-o", f"{folder}/no/such/folder.db", code=4)
    orrery("import", trace, code=2)
    orrery("import", "-o", f"{folder}/b.db", code=2)
    orrery("import", f"{folder}/letter.txt", "-o", f"{folder}/b.db", code=3)
    if sorted(os.listdir(folder)) != ["a.db", "letter.txt"]:
        raise Wrong(f"left behind: {sorted(os.listdir(folder))}")


def cases():
    for line in RUNS:
        yield f"run {line}", lambda folder, line=line: run(line.split(), folder)
    for path in sorted((ROOT / "tests/data/exact").glob("*.json")):
        yield path.name, lambda folder, path=path: imported(path, folder)
    for seed in range(test_exact.SEED, test_exact.SEED + RANDOM):
        yield f"random JSON, seed {seed}", lambda folder, seed=seed: random_kineto(seed, folder)
        yield f"random nsys, seed {seed}", lambda folder, seed=seed: random_nsys(seed, folder)
    for how in BROKEN:
        yield f"export {how}", lambda folder, how=how: broken(how, folder)
    yield "export cut behind its first line", cut_behind_its_first_line
    yield "import replaces only our own", replaced
    for path in sorted(REAL.glob("*.*z")) + sorted(REAL.glob("*.sqlite")):
        yield path.name, lambda folder, path=path: imported(path, folder)
    if not REAL.is_dir():
        yield "real traces # SKIP ../shared/traces is not here", lambda folder: None


def judge(case):
    name, work = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            work(folder)
        except Wrong as wrong:
            return name, str(wrong)
    return name, None


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [case for case in cases() if pattern in case[0]]
    failed = 0
    print(f"1..{len(chosen)}")
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for number, (name, wrong) in enumerate(pool.map(judge, chosen), 1):
            failed += wrong is not None
            print(f"{'not ok' if wrong else 'ok'} {number} - {name}", flush=True)
            if wrong:
                print("# " + wrong.replace("\n", "\n# "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
