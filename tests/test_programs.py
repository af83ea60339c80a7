#!/usr/bin/env python3
"""Stream programs with known verdicts: `orrery check --json` gives exactly those.

    tests/test_programs.py

tests/data/programs.jsonl holds ours, a positive and a negative program for every rule, with the
fields id, rule, verdict, first_conflict_ops and program. ../shared/cases/stream-programs.jsonl is
read too where it is there. The examples of docs/stream_programs.md are programs like these. ORRERY
names the command. Prints TAP. Needs nothing but Python's standard library.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))
SHARED = ROOT.parent / "shared/cases/stream-programs.jsonl"
UNSAFE = {"race", "use-after-free", "use-before-alloc", "mismatch", "hang", "error"}


def exit_code(verdicts):
    if "invalid" in verdicts:
        return 3
    if UNSAFE & set(verdicts):
        return 1
    return 4 if "unknown" in verdicts else 0


def problems(lines):
    """What is wrong with the answers to these lines: texts."""
    run = subprocess.run([ORRERY, "check", "-", "--json"], input="\n".join(lines),
                         capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    cases = [json.loads(line) for line in lines]
    if len(answers) != len(cases):
        yield "%d answers to %d lines: %s" % (len(answers), len(cases), run.stderr.strip())
        return
    for case, answer in zip(cases, answers):
        for key in ("id", "verdict", "first_conflict_ops"):
            if answer[key] != case.get(key):
                yield "%s: %s is %s; %s was expected (%s)" % (
                    case["id"], key, json.dumps(answer[key]), json.dumps(case.get(key)),
                    answer["message"])
        if answer["verdict"] in UNSAFE and not (answer["message"] and answer["fix"]):
            yield "%s: unsafe, but without a message or a fix" % case["id"]
        if answer["verdict"] not in UNSAFE | {"invalid", "unknown"} and answer["message"]:
            yield "%s: safe, but with a message" % case["id"]
    expected = exit_code([case["verdict"] for case in cases])
    if run.returncode != expected:
        yield "exit code %d; %d was expected" % (run.returncode, expected)


def is_order(case):
    program = case.get("program")
    return isinstance(program, dict) and program.get("oracle", "hb") == "hb"


def repair_problems(lines):
    """--repair makes every well-formed program of the happens-before question safe."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "repaired.jsonl")
        subprocess.run([ORRERY, "check", "-", "--repair", path], input="\n".join(lines),
                       capture_output=True, text=True, check=False)
        run = subprocess.run([ORRERY, "check", path, "--json"], capture_output=True, text=True,
                             check=False)
    answers = {}
    for answer in map(json.loads, run.stdout.splitlines()):
        answers.setdefault(answer["id"], []).append(answer["verdict"])
    for case in map(json.loads, lines):
        if is_order(case) and case["verdict"] != "invalid":
            # Malformed behind a finding: nobody gets that far before the repair.
            if not answers.get(case["id"]) or not set(answers[case["id"]]) <= {"no-race",
                                                                             "invalid"}:
                yield "%s: repaired, it is %s" % (case["id"], answers.get(case["id"]))


def more_problems(lines):
    """--all begins with the finding of the verdict; without an operation that --redundant lists a
    program stays safe, and without any other wait or sync it does not."""
    kinds = {"record", "wait", "sync_event", "query_ok", "sync_stream", "stream_query_ok",
             "sync_device", "notify", "await", "record_stream"}
    cases = [case for case in map(json.loads, lines) if is_order(case)]
    run = subprocess.run([ORRERY, "check", "-", "--json", "--all", "--redundant"],
                         input="\n".join(map(json.dumps, cases)), capture_output=True, text=True,
                         check=False)
    smaller = []
    for case, answer in zip(cases, map(json.loads, run.stdout.splitlines())):
        if answer["verdict"] in UNSAFE:
            first = answer["findings"][0]
            if (first["verdict"], first["ops"]) != (answer["verdict"],
                                                    answer["first_conflict_ops"]):
                yield "%s: the first finding is %s" % (case["id"], first)
        if answer["verdict"] != "no-race":
            continue
        listed = {item["op"] for item in answer["redundant"]}
        ops = case["program"]["ops"]
        for index, op in enumerate(ops):
            if op["op"] in kinds:
                smaller.append((case["id"], index, index in listed, dict(
                    case, program=dict(case["program"], ops=ops[:index] + ops[index + 1:]))))
    run = subprocess.run([ORRERY, "check", "-", "--json"],
                         input="\n".join(json.dumps(case) for _, _, _, case in smaller),
                         capture_output=True, text=True, check=False)
    for (name, index, listed, _), answer in zip(smaller, map(json.loads,
                                                             run.stdout.splitlines())):
        if listed != (answer["verdict"] == "no-race"):
            yield "%s without operation %d: %s, although it is %s" % (
                name, index, answer["verdict"], "listed" if listed else "not listed")


def rules(lines):
    """Every rule that a file is about has a safe and an unsafe program: those that have not."""
    seen = {}
    for case in map(json.loads, lines):
        kind = case["verdict"] if case["verdict"] == "invalid" else case["verdict"] in UNSAFE
        seen.setdefault(case["rule"], set()).add(kind)
    return [rule for rule, kinds in seen.items() if kinds == {True} or kinds == {False}]


def examples(text):
    """The lines of the page's blocks of JSON that are programs with a verdict."""
    for block in re.findall(r"^```json\n(.*?)^```", text, re.M | re.S):
        case = json.loads(block)
        if "program" in case:
            yield json.dumps(case)


SAFE = '{"id":"safe","program":{"streams":{},"ops":[]}}'
RACE = ('{"id":"a\\nb","program":{"streams":{"s":{"dev":0,"kind":"nb"},"t":{"dev":0,"kind":"nb"}},'
        '"ops":[{"op":"memset","stream":"s","writes":["A"]},'
        '{"op":"kernel","stream":"t","reads":["A"]}]}}')
ERROR = ('{"id":"error","program":{"oracle":"capture","streams":{"s":{"dev":0,"kind":"nb"}},'
         '"ops":[{"op":"capture_end","stream":"s"}]}}')
STATES = ('{"id":"states","program":{"oracle":"hang","streams":{},"ops":[%s]}}' % ",".join(
    '{"op":"%s","lock":"%s","host":"%s"}' % step for step in (
        ("lock", "a", "q"), ("lock", "b", "q"), ("unlock", "b", "q"), ("unlock", "a", "q"),
        ("lock", "b", "r"), ("lock", "a", "r"), ("unlock", "a", "r"), ("unlock", "b", "r"))))
EARLY = ('{"id":"early","program":{"streams":{},"ops":[{"op":"host_write","writes":["H"]},'
         '{"op":"await","host":"g","flag":"f"},{"op":"notify","flag":"f"}]}}')
BAD = '{"id":"bad","program":{"streams":{}}}'

# What people see: name, lines, arguments, exit code, words on stdout (all of it if one is a tuple).
COMMANDS = [
    ("nothing is fine", "", [], 0, ("0 programs\n",)),
    ("blank lines are skipped", "\n \t\r\n\n" + SAFE + "\r\n\n", [], 0,
     ("safe: no-race\n1 program: 1 no-race\n",)),
    ("the last line needs no end", SAFE + "\n" + SAFE, [], 0, ["2 programs: 2 no-race"]),
    ("a race is a no", RACE, [], 1, ["a b: race, operations 0 and 1\n    ", "\n    fix: "]),
    ("an error has one operation", ERROR, [], 1,
     ["error: error, operation 0\n    op 0 'cape s'", "1 program: 1 error"]),
    ("a question that is given up is a 4", STATES, ["--states", "1"], 4, ["states: unknown"]),
    ("a no outweighs what is unknown", STATES + "\n" + RACE, ["--states", "1"], 1, []),
    ("a malformed line outweighs both", "\n".join((STATES, RACE, BAD)), ["--states", "1"], 3,
     ["bad: invalid\n    line 3: program.ops: missing",
      "3 programs: 1 race, 1 invalid, 1 unknown"]),
    ("what only its order makes malformed has its line", "\n" + EARLY, [], 3,
     ["early: invalid\n    line 2: ops[1]: 'f' is awaited before it is notified"]),
    ("a line that is nothing has its number", "\n[]\n" + SAFE, [], 3,
     ["line 2: invalid\n    line 2: the line is no object", "safe: no-race"]),
    ("JSON has a line a program and nothing else", BAD + "\n\n" + SAFE + "\n7", ["--json"], 3,
     ('{"id": "bad", "verdict": "invalid", "first_conflict_ops": null, "message": '
      '"line 1: program.ops: missing; an array of operations was expected", "fix": ""}\n'
      '{"id": "safe", "verdict": "no-race", "first_conflict_ops": null, "message": "", '
      '"fix": ""}\n'
      '{"id": null, "verdict": "invalid", "first_conflict_ops": null, "message": "line 4: the '
      'line is no object; an object with id and program was expected", "fix": ""}\n',)),
    ("an id comes out as it went in",
     SAFE.replace("safe", r'\u0000\ud83d\ude00\u00e4\/\"'), ["--json"], 0,
     ['{"id": "\\u0000\U0001f600\u00e4/\\"", "verdict"']),
]


def command_problem(text, arguments, code, words):
    run = subprocess.run([ORRERY, "check", "-", *arguments], input=text.encode(),
                         capture_output=True, check=False)
    out = run.stdout.decode()
    if run.returncode != code or run.stderr:
        return "exit code %d, expected %d: %s" % (run.returncode, code, run.stderr.decode())
    if isinstance(words, tuple):
        return None if out == words[0] else "it printed: " + out
    missing = [word for word in words if word not in out]
    return "%s not in: %s" % (missing, out) if missing else None


def pipe_problem(lines):
    """A named pipe is read once, from its beginning."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)
        with subprocess.Popen([ORRERY, "check", pipe], stdout=subprocess.PIPE) as run:
            with open(pipe, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            out = run.communicate(timeout=60)[0].decode()
    return [] if "\n%d programs: " % len(lines) in out else [out[-200:]]


def read(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def report(number, name, wrong):
    print("%s %d - %s" % ("not ok" if wrong else "ok", number, name))
    for text in wrong[:20]:
        print("# " + text)
    return bool(wrong)


def main():
    ours = read(ROOT / "tests/data/programs.jsonl")
    page = list(examples((ROOT / "docs/stream_programs.md").read_text(encoding="utf-8")))
    print("1..7")
    failed = report(1, "%d programs of ours have their verdicts" % len(ours), list(problems(ours)))
    failed |= report(2, "every rule has a program on either side",
                     ["only one side: " + rule for rule in rules(ours)])
    failed |= report(3, "%d examples of the page have their verdicts" % len(page),
                     list(problems(page)) or ([] if page else ["there are none"]))
    wrong = [(name, command_problem(*rest)) for name, *rest in COMMANDS]
    failed |= report(4, "%d uses of the command" % len(COMMANDS),
                     ["%s: %s" % pair for pair in wrong if pair[1]] + pipe_problem(ours))
    if SHARED.exists():
        shared = read(SHARED)
        failed |= report(5, "%d programs of %s have their verdicts" % (len(shared), SHARED.name),
                         list(problems(shared)))
    else:
        print("ok 5 - shared programs # SKIP there is no %s" % SHARED)
    every = ours + page + (shared if SHARED.exists() else [])
    failed |= report(6, "programs are safe once they are repaired", list(repair_problems(every)))
    failed |= report(7, "without a sync a program is unsafe, or the sync is listed as redundant",
                     list(more_problems(every)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
