#!/usr/bin/env python3
"""The SQL views: docs/queries.md as it is printed, and against `orrery analyze --json`.

    ORRERY=build/release/orrery tests/test_queries.py [PATTERN]
    ORRERY=build/release/orrery tests/test_queries.py --update      writes the outputs of the page

Every query of the page gives the output that stands below it. On runs of ours, on small and random
traces of other tools, and on the real ones where they are (../shared/traces), the views' figures
are exactly those of the analyzer. ORR_TEST_SEED is the first seed. Prints TAP. Needs nothing but
Python's standard library.
"""
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
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
PAGE = ROOT / "docs/queries.md"
OF_IMPORTED = (3, 9, 10)
SECTION = re.compile(r"^## (\d+)\. .*?\n```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S | re.M)
RUNS = ["demo/eight_gpus.lua", "streams/overlap.lua", "memory/roles.lua",
        "worked_example/launch_bound.lua", "training/mlp.lua steps=2"]
RANDOM = 12


class Wrong(Exception):
    pass


def orrery(*arguments):
    done = subprocess.run([ORRERY, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, check=False)
    return done


def ask(path, sql):
    """Header and rows."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        cursor = database.execute(sql)
        return [column[0] for column in cursor.description], cursor.fetchall()


def rows(path, sql):
    names, found = ask(path, sql)
    return [dict(zip(names, row)) for row in found]


def printed(path, sql):
    """As the sqlite3 shell prints with -header."""
    names, found = ask(path, sql)
    lines = ["|".join(names)]
    lines += ["|".join("" if value is None else str(value) for value in row) for row in found]
    return "\n".join(lines) + "\n"


def databases(folder):
    own, imported = f"{folder}/own.db", f"{folder}/imported.db"
    orrery("run", "scenarios/demo/eight_gpus.lua", "-o", own)
    done = orrery("import", "tests/data/exact/odd.json", "-o", imported)
    if done.returncode != 0:
        raise Wrong(done.stderr)
    return own, imported


def update():
    with tempfile.TemporaryDirectory() as folder:
        own, imported = databases(folder)

        def fill(match):
            path = imported if int(match[1]) in OF_IMPORTED else own
            head = match[0][:match.end(2) - match.start()]
            return f"{head}```\n\n```text\n{printed(path, match[2])}```\n"

        PAGE.write_text(SECTION.sub(fill, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page(folder):
    own, imported = databases(folder)
    found = SECTION.findall(PAGE.read_text(encoding="utf-8"))
    if [int(number) for number, _, _ in found] != list(range(1, 11)):
        raise Wrong(f"not ten queries: {[number for number, _, _ in found]}")
    for number, sql, text in found:
        path = imported if int(number) in OF_IMPORTED else own
        if printed(path, sql) != text:
            raise Wrong(f"query {number} gives\n{printed(path, sql)}instead of\n{text}")
        if len(text.splitlines()) < 2:
            raise Wrong(f"query {number} shows nothing")
        for other in (own, imported):
            ask(other, sql)


def equal(what, found, expected):
    if found != expected:
        raise Wrong(f"{what}: {str(found)[:200]} instead of {str(expected)[:200]}")


def by_class(table):
    sums = collections.Counter()
    numbers = collections.Counter()
    for row in table:
        sums[row["class"]] += row["idle_ns"]
        numbers[row["class"]] += 1
    return sums, numbers


def check_device(path, device, expected):
    row = rows(path, f"SELECT * FROM v_device WHERE device = {device}")[0]
    for key in ("ops", "first_ns", "last_ns", "span_ns", "busy_ns", "idle_ns", "compute_ns",
                "comm_ns", "copy_ns", "comm_compute_overlap_ns"):
        equal(f"device {device}, {key}", row[key], expected[key])
    classes = expected["classes"]
    equal("exposed_comm", row["exposed_comm_ns"], classes.get("exposed_comm", 0))
    equal("exposed_copy", row["exposed_copy_ns"], classes.get("exposed_copy", 0))
    equal("the whole", row["compute_ns"] + row["exposed_comm_ns"] + row["exposed_copy_ns"] +
          row["idle_ns"], row["span_ns"])
    idle = rows(path, "SELECT sum(idle_ns) AS ns, count(*) AS n FROM v_idle "
                f"WHERE device = {device}")
    equal("sum of v_idle", idle[0]["ns"] or 0, expected["idle_ns"])
    equal("gaps", idle[0]["n"], expected["gaps"])
    launch = rows(path, f"SELECT * FROM v_launch WHERE device = {device}")
    equal("launches", launch[0]["calls"] if launch else 0, expected["launch"]["calls"])
    equal("launch time", launch[0]["sum_ns"] if launch else 0, expected["launch"]["sum_ns"] or 0)


def figures(trace, folder):
    done = orrery("analyze", trace, "--json")
    if done.returncode != 0:
        raise Wrong(done.stderr[:300])
    whole = json.loads(done.stdout)
    exact = whole["exact"]
    path = f"{folder}/a.db"
    done = orrery("import", trace, "-o", path)
    if done.returncode != 0:
        raise Wrong(done.stderr[:300])
    equal("devices", [row["device"] for row in rows(path, "SELECT device FROM v_device")],
          [device["device"] for device in exact["devices"]])
    for device in exact["devices"]:
        check_device(path, device["device"], device)
    top = rows(path, "SELECT name, sum(count) AS count, sum(sum_ns) AS sum_ns, min(min_ns) AS "
                     "min_ns, max(max_ns) AS max_ns FROM v_kernel GROUP BY name "
                     "ORDER BY sum_ns DESC, name LIMIT 3")
    equal("top kernels", [{**row, "name": row["name"] or ""} for row in top],
          [{key: kernel[key] for key in ("name", "count", "sum_ns", "min_ns", "max_ns")}
           for kernel in exact["top_kernels"]])
    sums, numbers = by_class(rows(path, "SELECT class, idle_ns FROM v_gap"))
    equal("idle by stream", {key: sums[key] for key in exact["idle_by_stream"]},
          exact["idle_by_stream"])
    equal("gaps by stream", {key: numbers[key] for key in exact["idle_by_stream_n"]},
          exact["idle_by_stream_n"])
    calls = rows(path, "SELECT sum(records) AS records, coalesce(sum(CASE WHEN ops > 0 THEN "
                       "call_ns END), 0) AS ns FROM v_call")[0]
    if exact["format"] != "orrery":
        equal("calls", calls["records"] or 0, exact["api_calls"])
    equal("calls with work", calls["ns"], exact["api_once_ns"])
    split = rows(path, "SELECT count(total_ns) AS ops, sum(submission_ns) AS submit, "
                       "sum(CASE WHEN total_ns IS NOT NULL THEN device_ns END) AS device, "
                       "sum(stream_wait_ns) AS stream_wait, sum(total_ns) AS total FROM v_timing")
    for key in ("ops", "submit", "stream_wait", "device", "total"):
        equal(f"split, {key}", split[0][key] or 0, exact["split"][key])
    for name in ("v_step", "v_collective", "v_memory", "v_op_timing", "cmd", "edge", "sync",
                 "counter", "call", "slice", "overhead", "stream_wait"):
        ask(path, f"SELECT * FROM {name} LIMIT 20")


def run(words, folder):
    subprocess.run([ORRERY, "run", f"scenarios/{words[0]}", *words[1:], "-o",
                    f"{folder}/run.db"], cwd=ROOT, capture_output=True, timeout=300, check=False)
    figures(f"{folder}/run.db", folder)


def random_kineto(seed, folder):
    path = f"{folder}/random.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write(test_exact.dump(test_exact.kineto(random.Random(seed))))
    figures(path, folder)


def random_nsys(seed, folder):
    test_exact.nsys(random.Random(seed), f"{folder}/random.sqlite")
    figures(f"{folder}/random.sqlite", folder)


def cases():
    yield "docs/queries.md", page
    for line in RUNS:
        yield f"run {line}", lambda folder, line=line: run(line.split(), folder)
    for seed in range(test_exact.SEED, test_exact.SEED + RANDOM):
        yield f"random JSON, seed {seed}", lambda folder, seed=seed: random_kineto(seed, folder)
        yield f"random nsys, seed {seed}", lambda folder, seed=seed: random_nsys(seed, folder)
    files = sorted((ROOT / "tests/data/exact").glob("*.json"))
    for pattern in ("*.json", "*.json.gz", "*.sqlite"):
        files += sorted(REAL.glob(pattern))
    for path in files:
        yield path.name, lambda folder, path=path: figures(path, folder)
    if not REAL.is_dir():
        yield "real traces # SKIP ../shared/traces is not here", lambda folder: None


def judge(case):
    name, work = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            work(folder)
        except (Wrong, sqlite3.Error) as wrong:
            return name, str(wrong)
    return name, None


def main():
    if sys.argv[1:] == ["--update"]:
        update()
        return 0
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
