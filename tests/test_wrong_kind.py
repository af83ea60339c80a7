#!/usr/bin/env python3
"""Check, explore and replay take several kinds of files; given the wrong one, or an option of
another kind, they say in one line which it is; and what was asked for in vain is not passed over.

    ORRERY=build/release/orrery tests/test_wrong_kind.py

Prints TAP. Needs nothing but Python's standard library.
"""
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
RACE = """
local d = orrery.device(0)
local b = d:alloc(64, "b")
d:stream("compute"):fill{ to = b, value = 0 }
d:stream("copy"):fill{ to = b, value = 1 }
"""
STREAMS = '"streams": {"s": {"dev": 0, "kind": "nb"}, "t": {"dev": 0, "kind": "nb"}}'
PROGRAMS = ('{"id": "race", "program": {%s, "ops": [{"op": "kernel", "stream": "s", "writes": '
            '["a"]}, {"op": "kernel", "stream": "t", "writes": ["a"]}]}}\n'
            '{"id": "hang", "program": {"oracle": "hang", %s, "ops": [{"op": "await", "flag": '
            '"f"}]}}\n') % (STREAMS, STREAMS)

# Words of the command, exit code, what its standard error or output ends in.
CASES = [
    ("check p.jsonl --repair race.lua", 4, "race.lua: it exists, and is no file of stream programs"
                                           " that Orrery wrote; it is not replaced"),
    ("check p.jsonl --drop-wait 1", 2,
     "--drop-wait is for scenarios, files NAME.lua (orrery check --help)"),
    ("check p.jsonl steps=2", 2, "'steps=2': arguments are for scenarios (orrery check --help)"),
    ("check race.lua --repair=x", 2, "--repair is for stream programs (orrery check --help)"),
    ("check run.db --all", 2,
     "--all is for stream programs; run.db is a trace (orrery check --help)"),
    ("check p.schedule", 3, "p.schedule: a schedule; a file of stream programs was expected"),
    ("check race.schedule", 3, "race.schedule: a schedule; a file of stream programs was expected"),
    ("check .", 3, ".: a folder; `orrery test` checks the scenarios in it"),
    ("explore run.db", 3, "run.db: a trace; a file of stream programs was expected"),
    ("replay race.lua", 3, "race.lua: no JSON object; a schedule was expected"),
    ("replay run.db", 3, "run.db: a trace; a schedule was expected"),
    ("replay race.schedule p.jsonl", 3,
     "race.schedule: it is of a scenario, but p.jsonl holds stream programs"),
    ("replay p.schedule race.lua", 3,
     "p.schedule: it is of a stream program, but race.lua is a scenario"),
    ("replay p.schedule run.db", 3, "run.db: a trace; a file of stream programs was expected"),
    ("explore clean.lua --out race.schedule", 0,
     "orrery: nothing was found; race.schedule was not written"),
    ("check p.jsonl --repair fixed.jsonl", 1,
     "fixed.jsonl: 2 programs, 1 of 2 unsafe ones repaired; the others are not safe"),
    ("run race.lua -o x.db --perturb lose_rank=rank:7", 0,
     "warning: perturb lose_rank=rank:7: it concerned nothing in this run"),
    ("check race.lua --perturb delay=name:x,ns:5", 1,
     "warning: perturb delay=name:x,ns:5: it concerned nothing in this run"),
    ("check cut.db", 1, "cut.db: its run did not come to an end; what it did last may be missing"),
]


def orrery(folder, words):
    return subprocess.run([ORRERY, *words.split()], cwd=folder, capture_output=True, text=True,
                          timeout=60, check=False)


def prepare(folder):
    (folder / "race.lua").write_text(RACE)
    (folder / "clean.lua").write_text("local d = orrery.device(0)\n")
    (folder / "p.jsonl").write_text(PROGRAMS)
    orrery(folder, "run race.lua -o run.db")
    orrery(folder, "explore race.lua --out race.schedule")
    orrery(folder, "explore p.jsonl --out p.schedule")
    (folder / "cut.db").write_bytes((folder / "run.db").read_bytes())
    with sqlite3.connect(folder / "cut.db") as database:  # as a killed run leaves it
        database.execute("UPDATE meta SET value = 'running' WHERE key = 'status'")
    database.close()


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for number, (words, code, end) in enumerate(CASES, 1):
            run = orrery(folder, words)
            lines = run.stderr.splitlines() + run.stdout.splitlines()
            good = run.returncode == code and any(line.endswith(end) for line in lines)
            failed += not good
            print("%s %d - orrery %s" % ("ok" if good else "not ok", number, words))
            if not good:
                print("# exit code %d, expected %d and '%s':" % (run.returncode, code, end))
                print("\n".join("# " + line for line in lines))
    print("1..%d" % len(CASES))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
