#!/usr/bin/env python3
"""`orrery doctor TRACE`, from outside: exit codes, own runs that failed or were killed, traces of
other tools, archives of ranks, files that are none.

    ORRERY=build/release/orrery tests/test_doctor.py [PATTERN]

Prints TAP. Needs nothing but Python's standard library.
"""
import gzip
import io
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
OWN = ROOT / "tests/data/exact"


class Wrong(Exception):
    pass


def expect(is_so, words):
    if not is_so:
        raise Wrong(words)


def orrery(*words):
    return subprocess.run([ORRERY, *map(str, words)], cwd=ROOT, capture_output=True, text=True,
                          timeout=120, check=False)


def doctor(path, code=0):
    done = orrery("doctor", path, "--json")
    expect(done.returncode == code, f"exit {done.returncode}: {done.stderr.strip()[:300]}")
    return json.loads(done.stdout)


def kinds(document):
    return {check["kind"]: check for check in document["checks"]}


def run(folder, scenario, *words, code=0):
    path = folder / (pathlib.Path(scenario).stem + ".db")
    done = orrery("run", scenario, "-o", path, *words)
    expect(done.returncode == code, f"run: exit {done.returncode}: {done.stderr.strip()[:300]}")
    return path


def a_whole_run_is_healthy(folder):
    document = doctor(run(folder, "scenarios/streams/overlap.lua"))
    expect(document["checks"] == [], document["checks"])
    expect(document["status"] == "ok" and document["format"] == "orrery", document)
    expect(document["clock"] == "virtual" and document["residual_ns"] == 0, document)
    answers = {name: answer["answer"] for name, answer in document["answers"].items()}
    expect(answers["device_time"] == answers["split"] == answers["races"] == "yes", answers)


def a_failed_run_says_so(folder):
    path = run(folder, "scenarios/faults/device_error.lua", code=4)
    check = kinds(doctor(path))["run_not_ok"]
    expect("failed" in check["message"], check)
    text = orrery("analyze", path)
    expect(text.returncode == 0 and 'the run ended as "failed"' in text.stdout, text.stdout[-500:])
    checked = orrery("check", path)
    expect('its run ended as "failed"' in checked.stderr, checked.stderr)


def a_killed_run_says_so(folder):
    path = run(folder, "scenarios/streams/overlap.lua")
    base = sqlite3.connect(path)
    base.execute("update meta set value = 'running' where key = 'status'")
    base.commit()
    base.close()
    check = kinds(doctor(path))["run_not_ok"]
    expect("did not come to an end" in check["message"], check)
    text = orrery("analyze", path)
    expect("did not come to an end" in text.stdout, text.stdout[-500:])
    checked = orrery("check", path)
    expect("did not come to an end" in checked.stderr, checked.stderr)


def another_tools_trace_is_examined(folder):
    del folder
    document = doctor(OWN / "odd.json")
    found = kinds(document)
    for kind in ("bad_ops", "clock_violation", "unlinked_ops", "stream_overlap", "merged_calls",
                 "zero_length_ops", "subns_stamps", "profiler_overhead"):
        expect(kind in found, f"no {kind} among {sorted(found)}")
    expect(found["clock_violation"]["worst_ns"] == 500, found["clock_violation"])
    expect(found["clock_violation"]["first"]["name"] == "early", found["clock_violation"])
    expect(document["time_base_ns"] == 1700000000000000000, document["time_base_ns"])
    severities = [check["severity"] for check in document["checks"]]
    expect(severities == sorted(severities, key=["error", "warning", "note"].index), severities)
    for severity in ("error", "warning", "note"):
        expect(document[severity + "s"] == severities.count(severity), document)
    whole = json.loads(orrery("analyze", OWN / "odd.json", "--json").stdout)
    for key in ("checks", "answers", "errors", "warnings", "notes"):
        expect(whole["doctor"][key] == document[key], f"analyze says another {key}")
    text = orrery("doctor", OWN / "odd.json")
    expect(text.returncode == 0 and text.stderr == "", text.stderr)
    for words in ("warning: clock_violation: 1 of 6", "first: early on device 1", "what it can"):
        expect(words in text.stdout, f"no {words!r} in {text.stdout}")


def no_work_is_no_failure(folder):
    del folder
    document = doctor(OWN / "no_work.json")
    expect("no_ops" in kinds(document), document["checks"])
    expect(all(a["answer"] == "no" for a in document["answers"].values()), document["answers"])
    done = orrery("analyze", OWN / "no_work.json")
    expect(done.returncode == 0, done.stderr)
    whole = json.loads(orrery("analyze", OWN / "no_work.json", "--json").stdout)
    expect(whole["exact"]["gpu_ops"] == 0 and whole["window_ns"] == 0, whole["exact"])


def an_archive_is_examined_member_by_member(folder):
    path = folder / "ranks.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("odd.json", "no_work.json"):
            archive.add(OWN / name, f"job/{name}")
    document = doctor(path)
    names = [trace["file"] for trace in document["traces"]]
    expect(len(names) == 2 and all("ranks.tar.gz/job/" in name for name in names), names)
    expect(orrery("doctor", path).stdout.count("what it can answer") == 2, "two, as text")


def a_cut_file_is_flagged(folder):
    data = (OWN / "odd.json").read_bytes()
    cut = folder / "cut.json.gz"
    cut.write_bytes(gzip.compress(data)[:-300])
    document = doctor(cut)
    flags = [check for check in document["checks"] if check["kind"].startswith("import_")]
    expect(flags, document["checks"])
    done = orrery("analyze", cut, "--strict")
    expect(done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr)


def what_is_no_trace_is_refused(folder):
    other = folder / "other.sqlite"
    base = sqlite3.connect(other)
    base.execute("create table songs (id integer, name text)")
    base.commit()
    base.close()
    (folder / "empty.json").write_bytes(b"")
    (folder / "page.json").write_text("<!DOCTYPE html><html><body>404</body></html>")
    (folder / "words.txt").write_text("just words")
    (folder / "header.sqlite").write_bytes(b"SQLite format 3\0" + bytes(20))
    packed = io.BytesIO()
    with gzip.open(packed, "wb") as file:
        file.write(b"<html>")
    (folder / "page.json.gz").write_bytes(packed.getvalue())
    for path in [other, folder, folder / "absent.json", *folder.glob("*.*")]:
        for verb in ("doctor", "analyze"):
            done = orrery(verb, path)
            expect(done.returncode == 3, f"{verb} {path.name}: exit {done.returncode}")
            lines = done.stderr.splitlines()
            expect(len(lines) == 1 and path.name in lines[0] and done.stdout == "",
                   f"{verb} {path.name}: {done.stderr!r} {done.stdout[:100]!r}")


def the_machine_is_still_described(folder):
    del folder
    done = orrery("doctor", "--json")
    expect(done.returncode == 0 and "cuda" in json.loads(done.stdout), done.stderr)
    done = orrery("doctor", OWN / "odd.json", "--cudart", "x")
    expect(done.returncode == 2, f"exit {done.returncode}")


TESTS = [a_whole_run_is_healthy, a_failed_run_says_so, a_killed_run_says_so,
         another_tools_trace_is_examined, no_work_is_no_failure,
         an_archive_is_examined_member_by_member, a_cut_file_is_flagged,
         what_is_no_trace_is_refused, the_machine_is_still_described]


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [test for test in TESTS if pattern in test.__name__]
    print(f"1..{len(chosen)}")
    failed = False
    for number, test in enumerate(chosen, 1):
        folder = pathlib.Path(tempfile.mkdtemp())
        try:
            test(folder)
            print(f"ok {number} - {test.__name__}", flush=True)
        except Wrong as wrong:
            failed = True
            print(f"not ok {number} - {test.__name__}\n# {wrong}", flush=True)
        finally:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
