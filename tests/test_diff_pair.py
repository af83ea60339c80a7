#!/usr/bin/env python3
"""`orrery diff` on real traces: the known pair, and every trace against itself.

    ORRERY=build/release/orrery tests/test_diff_pair.py [FOLDER]

The pair is two cuts of 300 ms of one program: kernels take as long as before, launches come slower.
What the tool says is held against sums over the databases in SQL. FOLDER holds the traces
(../shared/traces); without them the test is skipped. Prints TAP. Needs Python's standard library.
"""
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "../shared/traces")
BEFORE, AFTER = (FOLDER / f"nsys_mfu_2gpu_{name}.sqlite" for name in ("before", "after"))


def diff(before, after, *options):
    """(exit code, document) of a comparison."""
    done = subprocess.run([ORRERY, "diff", str(before), str(after), "--json", *options],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def query(path, sql):
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as db:
        return db.execute(sql).fetchall()


def period_ns(path):
    """Mean time from one start of the longest-running kernel's row to the next, on device 0."""
    starts = [row[0] for row in query(path, """
        WITH top AS (SELECT demangledName AS name, gridX AS grid FROM CUPTI_ACTIVITY_KIND_KERNEL
                     GROUP BY demangledName, gridX, gridY, gridZ
                     ORDER BY sum(end - start) DESC LIMIT 1)
        SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL, top
        WHERE demangledName = name AND gridX = grid AND deviceId = 0 ORDER BY start""")]
    return (starts[-1] - starts[0]) / (len(starts) - 1)


def launch_ns(path):
    """Lower median of cudaLaunchKernel."""
    values = [row[0] for row in query(path, """
        SELECT r.end - r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s
        ON s.id = r.nameId WHERE s.value LIKE 'cudaLaunchKernel%'""")]
    return statistics.median_low(values)


def near(value, expected, part):
    assert abs(value - expected) <= part * expected, (value, expected)


def names_the_main_change():
    code, document = diff(BEFORE, AFTER)
    assert code == 0 and document["outcome"] == "slower", document["verdict"]
    assert document["by"] == "iteration", document["by"]
    assert document["main_cause"] == "devices idle until their host launches"
    assert "cudaLaunchKernel" in document["verdict"], document["verdict"]
    changed = [row for row in document["rows"] if row["sort"] == "work"
               and row["status"] in ("changed", "appeared", "vanished")]
    assert changed == [], changed


def agrees_with_sql():
    _, document = diff(BEFORE, AFTER)
    for side, path in (("before_ns", BEFORE), ("after_ns", AFTER)):
        near(document["devices"][0]["unit"][side], period_ns(path), 0.02)
    row = next(row for row in document["rows"] if row["name"] == "cudaLaunchKernel")
    for side, path in (("before", BEFORE), ("after", AFTER)):
        near(row[side]["median_ns"], launch_ns(path), 0.02)


def is_a_regression():
    assert diff(BEFORE, AFTER, "--max-regression", "10")[0] == 1
    assert diff(BEFORE, AFTER, "--max-regression", "20")[0] == 0
    assert diff(AFTER, BEFORE, "--max-regression", "0")[0] == 0


def does_not_differ_from_itself():
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in (".gz", ".sqlite") or path.name.endswith("cases.json"):
            code, document = diff(path, path, "--max-regression", "0")
            assert (code, document["outcome"]) == (0, "unchanged"), path.name
            assert all(row["delta_ns"] == 0 for row in document["rows"]), path.name


def main():
    cases = [names_the_main_change, agrees_with_sql, is_a_regression, does_not_differ_from_itself]
    if not BEFORE.exists():
        print("1..1\nok 1 - diff of real traces # SKIP no real traces at ../shared/traces")
        return 0
    failed = 0
    print(f"1..{len(cases)}")
    for number, case in enumerate(cases, 1):
        name = case.__name__.replace("_", " ")
        try:
            case()
            print(f"ok {number} - {name}")
        except AssertionError as error:
            failed += 1
            print(f"not ok {number} - {name}\n# {str(error)[:500]}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
