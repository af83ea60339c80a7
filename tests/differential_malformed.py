#!/usr/bin/env python3
"""Mutated stream programs: `orrery check` calls malformed exactly those that a plain reading of the
format calls malformed, and judges the others as tests/stream_program_model.py does. And lines whose
characters are mutated have an id exactly where Python's json finds an object with one.

    tests/differential_malformed.py [--mutants N]

The programs of tests/data/programs.jsonl are changed in one to three places: a field goes, or gets
another type, value or name; operations, words and accesses are swapped and broken. ORR_TEST_SEED is
honoured; ORRERY names the command. Prints TAP. Needs nothing but Python's standard library.
"""
import argparse
import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import stream_program_model as model  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))
SEED = os.environ.get("ORR_TEST_SEED", "1")

ACCESS = re.compile(r"[A-Za-z0-9_]+(\[[0-9]+:[0-9]+\])?\Z")
WORK = ("kernel", "hostfn", "memset", "memcpy")
TALK = ("coll", "send", "recv")

# What each oracle lists, with the fields that it requires.
REQUIRED = {
    "hb": {
        "kernel": "stream", "hostfn": "stream", "memset": "stream", "memcpy": "stream",
        "coll": "comm stream", "send": "comm stream", "recv": "comm stream", "memcpy_sync": "",
        "memset_sync": "", "host_read": "reads", "host_write": "writes", "view": "buf",
        "group_start": "", "group_end": "", "record": "event stream", "wait": "stream event",
        "sync_event": "event", "query_ok": "event", "sync_stream": "stream",
        "stream_query_ok": "stream", "sync_device": "", "event_create": "event",
        "event_destroy": "event", "stream_create": "stream", "stream_destroy": "stream",
        "notify": "flag", "await": "flag", "alloc": "buf", "free": "buf",
        "record_stream": "buf stream", "alloc_async": "buf stream", "free_async": "buf stream",
        "cuda_free": "buf", "host_free": "buf", "alias": "buf of"},
    "hang": {
        "kernel": "stream", "hostfn": "stream", "memset": "stream", "memcpy": "stream",
        "coll": "comm stream", "send": "comm stream peer", "recv": "comm stream peer",
        "group_start": "", "group_end": "", "record": "event stream", "wait": "stream event",
        "sync_stream": "stream", "sync_event": "event", "sync_device": "", "implicit_sync": "",
        "lock": "lock", "unlock": "lock", "notify": "flag", "await": "flag", "alloc": "",
        "free": "", "record_stream": "", "host_read": "", "host_write": ""},
    "capture": {
        "capture_begin": "stream", "capture_end": "stream", "record": "event stream",
        "wait": "stream event", "kernel": "stream", "memcpy": "stream", "memset": "stream",
        "hostfn": "stream", "coll": "stream", "send": "stream", "recv": "stream",
        "sync_event": "event", "event_query": "event", "cuda_malloc": "", "sync_stream": "stream",
        "graph_launch": ""}}
# The fields that operations have beside those, where a wrong type counts too.
OPTIONAL = {
    "reads writes": WORK + TALK + ("memcpy_sync", "memset_sync", "host_read", "host_write"),
    "body": ("hostfn",), "kind count": ("coll",), "rank": TALK, "peer": ("send", "recv"),
    "comm": TALK, "reuse": ("alloc", "alloc_async"), "ignored": ("wait",),
    "stream": ("alloc", "view", "record_stream", "graph_launch"),
    "buf": ("alloc", "free", "record_stream", "cuda_malloc"),
    "dev": ("memcpy_sync", "memset_sync", "sync_device", "implicit_sync"),
    "devs": ("sync_device", "implicit_sync")}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_device(value):
    return is_number(value) and value == int(value) and 0 <= value < 2**32 - 1


def is_list(value, item):
    return isinstance(value, list) and all(map(item, value))


def is_text(value):
    return isinstance(value, str)


def is_rank(value):
    return is_text(value) or is_number(value)


TYPES = {
    "reads": lambda v: is_list(v, lambda a: is_text(a) and ACCESS.match(a)),
    "body": lambda v: is_list(v, lambda s: is_list(s, is_text) and len(s) == 2),
    "count": is_number, "rank": is_rank, "peer": is_rank, "dev": is_device,
    "devs": lambda v: is_list(v, is_device), "ignored": lambda v: isinstance(v, bool)}
TYPES["writes"] = TYPES["reads"]


def is_well_formed_op(op, program, oracle, open_groups):
    streams = present(program["streams"])
    op = present(op)
    name, host = op.get("op"), op.get("host", "h")
    if not is_text(name) or name not in REQUIRED[oracle] or not is_text(host):
        return False
    required = REQUIRED[oracle][name].split()
    known = set(required)
    for fields, names in OPTIONAL.items():
        known |= set(fields.split()) if name in names else set()
    if any(field not in op for field in required):
        return False
    if any(field in op and not TYPES.get(field, is_text)(op[field]) for field in known):
        return False
    if "stream" in required and op["stream"] not in streams:
        return False
    if oracle == "hb":
        return is_well_formed_copy(op, streams)
    if oracle == "capture":
        return True
    if "comm" in required and op["comm"] not in present(program.get("comms") or {}):
        return False
    for what, object_ in op.get("body", []) if name == "hostfn" else []:
        if what not in ("lock", "unlock", "sync_stream"):
            return False
        if what == "sync_stream" and object_ not in streams:
            return False
    if name == "group_start":
        open_groups[host] = open_groups.get(host, 0) + 1
    if name == "group_end":
        open_groups[host] = open_groups.get(host, 0) - 1
        return open_groups[host] >= 0
    return True


def is_well_formed_copy(op, streams):
    if op["op"] in ("memcpy", "memcpy_sync") and len(op.get("reads", [])) != 1:
        return False
    if op["op"] in ("memcpy", "memcpy_sync", "memset_sync") and len(op.get("writes", [])) != 1:
        return False
    return op["op"] not in ("memcpy_sync", "memset_sync") or any(
        info["kind"] == "legacy" and info["dev"] == op.get("dev", 0) for info in streams.values())


def present(fields):
    return {key: value for key, value in fields.items() if value is not None}


def is_map(value, item):
    return isinstance(value, dict) and all(map(item, present(value).values()))


def is_well_formed(program):
    if not isinstance(program, dict):
        return False
    program = present(program)
    words = {"oracle": ("hb", "hang", "capture"), "pageable": ("strict", "staged"),
             "capture_mode": ("global", "thread_local", "relaxed")}
    if any(not is_text(program.get(key, known[0])) or program.get(key, known[0]) not in known
           for key, known in words.items()):
        return False
    if not isinstance(program.get("nccl_serial", False), bool):
        return False
    if any(key in program and not (is_number(program[key]) and program[key] == int(program[key]))
           for key in ("slots", "queue_depth")):
        return False
    if not is_map(program.get("streams"), lambda info: isinstance(info, dict) and is_device(
            info.get("dev")) and info.get("kind") in ("nb", "bl", "ptds", "legacy")):
        return False
    kinds = ("dev", "pinned", "pageable", "managed", "empty")
    if not is_map(program.get("buffers", {}), lambda kind: is_text(kind) and kind in kinds):
        return False
    if not is_map(program.get("comms", {}), lambda ranks: is_list(ranks, is_rank)):
        return False
    legacy = [info["dev"] for info in present(program["streams"]).values()
              if info["kind"] == "legacy"]
    if len(legacy) != len(set(legacy)) or not is_list(program.get("ops"),
                                                      lambda op: isinstance(op, dict)):
        return False
    open_groups = {}
    return all(is_well_formed_op(op, program, program.get("oracle", "hb"), open_groups)
               for op in program["ops"])


VALUES = [None, True, False, 0, 1, -1, 1.5, 2.0, 4294967295, "", "s", "t", "A", "A[0:4]", "A[4:0]",
          "A[0:", "A[x:1]", "A B", "nb", "legacy", "hang", "capture", "lock", [], ["A"], ["s", "t"],
          [["lock", "l"]], [["sync_stream", "s"]], [["sync_stream", "nowhere"]], [0, 1], {},
          {"dev": 0, "kind": "nb"}, {"dev": 0, "kind": "legacy"}, {"dev": 1, "kind": "bl"}]
OPS = sorted(set().union(*REQUIRED.values()))
FIELDS = ("streams buffers ops oracle pageable nccl_serial comms slots queue_depth capture_mode "
          "op host stream event flag lock buf of reuse comm peer rank kind count dev devs ignored "
          "reads writes body").split()


def places(value, found):
    """Every object and array in a program."""
    if isinstance(value, (dict, list)):
        found.append(value)
        for item in value.values() if isinstance(value, dict) else value:
            places(item, found)
    return found


def mutate(program, rng):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place = rng.choice(places(program, []))
        value = copy.deepcopy(rng.choice(VALUES))
        if isinstance(place, dict):
            known = sorted(place) + FIELDS
            key = rng.choice(sorted(place) if place and rng.random() < 0.7 else known)
            how = rng.random()
            if how < 0.3:
                place.pop(key, None)
            elif key == "op" and how < 0.8:
                place[key] = rng.choice(OPS)
            elif key == "oracle":
                place[key] = rng.choice(["hb", "hang", "capture", "x"])
            else:
                place[key] = value
        elif place and rng.random() < 0.5:
            place.pop(rng.randrange(len(place)))
        elif place and rng.random() < 0.6:
            place[rng.randrange(len(place))] = value
        else:
            place.append(value)
    return program


def clean(program):
    """The program without what is as good as absent, for the model."""
    program = present(program)
    program["streams"] = present(program["streams"])
    for key in ("buffers", "comms"):
        program[key] = present(program.get(key, {}))
    program["ops"] = [present(op) for op in program["ops"]]
    for op in program["ops"]:
        for key in ("slots", "queue_depth"):
            op.pop(key, None)
    return program


def expected(program):
    if not is_well_formed(program):
        return "invalid", None
    try:
        return model.judge(clean(program))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration):
        return None  # more than the model was written for


def ask(programs):
    lines = "\n".join(json.dumps({"id": "m", "program": program}) for program in programs)
    run = subprocess.run([ORRERY, "check", "-", "--json"], input=lines, capture_output=True,
                         text=True, check=False)
    for line in run.stdout.splitlines():
        answer = json.loads(line)
        pair = answer["first_conflict_ops"]
        yield answer["verdict"], pair, answer["message"]


LINE = (r'{"id":"a\u00e9\n","x":[1,-0.5e+3,true,null,"\\\/\"",{"k":[]}],'
        '"program":{"streams":{},"ops":[]}}')
PIECES = list('{}[]",:\\0123456789eE+-.tfnu \t\r/abxAF') + [
    "\x01", "\x7f", "\u00e9", "\ufeff", "\u2028", "\\u", "\\ud83d\\ude00", "\\x", "true", "null",
    "NaN", "Infinity"]


def mutate_text(rng):
    text = list(LINE)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at, how = rng.randrange(len(text)), rng.random()
        if how < 0.3:
            del text[at]
        else:
            text[at:at + (how < 0.6)] = [rng.choice(PIECES)]
    return "".join(text)


def no_constant(name):
    raise ValueError(name)


def id_of(text):
    try:
        value = json.loads(text, parse_constant=no_constant)
    except ValueError:
        return None
    found = value.get("id") if isinstance(value, dict) else None
    return found if is_text(found) else None


def check_texts(count, rng):
    """Mutated lines whose id is another than Python's."""
    lines = [mutate_text(rng) for _ in range(count)]
    run = subprocess.run([ORRERY, "check", "-", "--json"], input="\n".join(lines).encode(),
                         capture_output=True, check=False)
    answers = [json.loads(line)["id"] for line in run.stdout.decode().split("\n")[:-1]]
    if len(answers) != count:
        return ["%d answers to %d lines" % (len(answers), count)]
    return ["%r: id %r, Python %r" % (line, answer, id_of(line))
            for line, answer in zip(lines, answers) if answer != id_of(line)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=4000)
    count = parser.parse_args().mutants
    lines = (ROOT / "tests/data/programs.jsonl").read_text(encoding="utf-8").splitlines()
    seeds = [json.loads(line)["program"] for line in lines]
    rng = random.Random(SEED)
    mutants = [mutate(copy.deepcopy(rng.choice(seeds)), rng) for _ in range(count)]
    answers = list(ask(mutants))
    tally, wrong = {}, []
    for program, got in zip(mutants, answers):
        want = expected(program)
        tally[want[0] if want else "judged by the command alone"] = tally.get(
            want[0] if want else "judged by the command alone", 0) + 1
        if want and got[:2] != want:
            wrong.append((program, want, got))
    print("1..2")
    print("# seed %s: %s" % (SEED, ", ".join("%d %s" % (n, name) for name, n in sorted(
        tally.items()))))
    for program, want, got in wrong[:5]:
        print("# %s\n#   expected %s, command %s" % (json.dumps(program), want, got))
    failed = bool(wrong) or len(answers) != count
    print("%s 1 - %d mutated programs" % ("not ok" if failed else "ok", count))
    texts = check_texts(count, rng)
    for text in texts[:5]:
        print("# " + text)
    print("%s 2 - %d lines with mutated characters" % ("not ok" if texts else "ok", count))
    return 1 if failed or texts else 0


if __name__ == "__main__":
    sys.exit(main())
