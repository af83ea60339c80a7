#!/usr/bin/env python3
"""Programs of several hosts, drawn at random: whatever result or hang random schedules come to, the
systematic search of `orrery explore` has found.

    ORRERY=build/release/orrery tests/test_explore_hosts.py [COUNT [SEED]]

Each program has two or three hosts that share streams, an event, mailboxes and host memory, and go
on by what they read. Prints TAP. Needs nothing but Python's standard library.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))

HEAD = """local d = orrery.device(0)
local S = { d:stream('s'), d:stream('t') }
local A, P = { d:alloc(64, 'a'), d:alloc(64, 'b') }, orrery.host_alloc(64, 'p')
local M, E = { orrery.mailbox('m'), orrery.mailbox('n') }, orrery.event('e')
for i = 1, 2 do S[1]:fill{ to = A[i], value = i } end
S[1]:sync() P:write(0)
orrery.host(function(rank)
"""


def call(draw, host, number):
    s, a, b, m = (draw.randint(1, 2) for _ in range(4))
    name = f"k{host}{number}"
    return draw.choice([
        f"S[{s}]:kernel{{ name = '{name}', reads = {{A[{a}]}}, writes = {{A[{b}]}} }}",
        f"S[{s}]:kernel{{ name = '{name}', writes = {{A[{b}]}} }}",
        f"M[{m}]:put({10 * host + number})",
        f"M[{m}]:put({10 * host + number})",
        f"print({host}, M[{m}]:take('x'))",
        f"S[{s}]:sync()",
        f"S[{s}]:record(E)",
        f"S[{s}]:wait(E)",
        f"P:write({10 * host + number})",
        f"if P:f32() > 5 then S[{s}]:kernel{{ name = 'b', reads = {{A[{a}]}}, "
        f"writes = {{A[{b}]}} }} end"])


def program(seed):
    draw = random.Random(seed)
    hosts = draw.choice([2, 2, 3])
    text = HEAD
    for host in range(hosts):
        text += f"  if rank == {host} then\n"
        for number in range(draw.randint(2, 4)):
            text += f"    {call(draw, host, number)}\n"
        text += "  end\n"
    return text + f"end, {hosts})\norrery.join() d:sync()\n"


def explore(path, *options):
    done = subprocess.run([ORRERY, "explore", path, "--json", "--threads", "1", *options],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        return None, done.stderr.strip()
    return json.loads(done.stdout), ""


def judge(path, seed):
    with open(path, "w", encoding="utf-8") as file:
        file.write(program(seed))
    every, why = explore(path, "--budget", "6000")
    some, why_not = explore(path, "--strategy", "random", "--budget", "300", "--seed", str(seed))
    if every is None or some is None:
        return why or why_not
    if every["capped"]:
        return ""
    if some["results"] > every["results"] or (some["hangs"] > 0 and every["hangs"] == 0):
        return (f"random schedules came to {some['results']} results and {some['hangs']} hangs, "
                f"the systematic search to {every['results']} and {every['hangs']}")
    return ""


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hosts.lua")
        for seed in range(first, first + count):
            wrong = judge(path, seed)
            if wrong:
                failures.append(f"seed {seed}: {wrong}")
    print("1..1")
    print(f"# {count} programs from seed {first} on")
    for failure in failures:
        print(f"# {failure}")
    verdict = "not ok" if failures else "ok"
    print(f"{verdict} 1 - the search finds what random schedules of hosts come to")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
