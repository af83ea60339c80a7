#!/usr/bin/env python3
"""Random stream programs: `orrery check` and tests/stream_program_model.py give the same verdict
and the same pair of operations.

    tests/differential_check.py [--programs N] [--oracle hb|hang|capture] [--keep FILE]

Each oracle gets N programs. A program that differs is shrunk, operation by operation, and printed
with both answers. --keep leaves the generated programs in a file. ORR_TEST_SEED is honoured; ORRERY
names the command. Prints TAP. Needs nothing but Python's standard library.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import stream_program_model as model  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))
SEED = os.environ.get("ORR_TEST_SEED", "1")


class Draw:
    """What the generators share: names, streams and accesses of one program."""

    def __init__(self, rng):
        self.rng = rng
        devices = rng.choice([1, 1, 1, 2])
        self.streams = {}
        for i in range(rng.randint(1, 4)):
            kind = rng.choice(["nb", "nb", "bl", "bl", "ptds"])
            self.streams["s%d" % i] = {"dev": rng.randrange(devices), "kind": kind}
        for device in range(devices):
            if rng.random() < 0.4:
                self.streams["l%d" % device] = {"dev": device, "kind": "legacy"}
        self.hosts = ["h", "g", "f"][:rng.choice([1, 1, 2, 3])]
        self.events = ["e", "d"][:rng.choice([1, 2])]

    def op(self, what, **fields):
        op = {"op": what, **fields}
        host = self.rng.choice(self.hosts)
        if host != "h" or self.rng.random() < 0.1:
            op["host"] = host
        return op

    def stream(self):
        return self.rng.choice(list(self.streams))


class DrawOrder(Draw):
    def __init__(self, rng):
        super().__init__(rng)
        kinds = ["dev", "dev", "dev", "pinned", "pageable", "managed", "empty"]
        self.names = ["A", "B", "C", "D", "E"][:rng.randint(1, 5)]
        self.kinds = {name: rng.choice(kinds) for name in self.names if rng.random() < 0.6}
        self.live, self.ended, self.fresh = list(self.names), [], ["X", "Y", "Z", "W", "V"]
        self.ranges = rng.random() < 0.4
        self.notified = False

    def access(self):
        pool = self.live or self.names
        name = self.rng.choice(pool)
        if self.ended and self.rng.random() < 0.05:
            name = self.rng.choice(self.ended)[0]
        if self.ranges and self.rng.random() < 0.7:
            lo = self.rng.randrange(6)
            return "%s[%d:%d]" % (name, lo, lo + self.rng.choice([0, 1, 2, 3, 4]))
        return name

    def accesses(self, most):
        return [self.access() for _ in range(self.rng.randint(0, most))]

    def work(self):
        rng = self.rng
        kind = rng.choice(["kernel", "kernel", "kernel", "hostfn", "memset", "coll", "send",
                           "memcpy", "memcpy", "memcpy_sync", "memset_sync", "host_read",
                           "host_write"])
        legacies = [info["dev"] for info in self.streams.values() if info["kind"] == "legacy"]
        if kind.endswith("_sync") and not legacies:
            kind = "kernel"
        if kind == "memcpy":
            return self.op(kind, stream=self.stream(), reads=[self.access()],
                           writes=[self.access()])
        if kind == "memcpy_sync":
            return self.op(kind, dev=rng.choice(legacies), reads=[self.access()],
                           writes=[self.access()])
        if kind == "memset_sync":
            return self.op(kind, dev=rng.choice(legacies), writes=[self.access()])
        if kind == "host_read":
            return self.op(kind, reads=self.accesses(2))
        if kind == "host_write":
            return self.op(kind, writes=self.accesses(2))
        fields = {"stream": self.stream(), "reads": self.accesses(2), "writes": self.accesses(2)}
        if kind == "coll":
            fields["comm"] = rng.choice(["c", "b"])
        if kind == "send":
            fields.update(comm=rng.choice(["c", "b"]), peer=1)
        return self.op(kind, **fields)

    def sync(self):
        rng = self.rng
        kind = rng.choice(["record", "record", "record", "wait", "wait", "wait", "sync_event",
                           "query_ok", "sync_stream", "stream_query_ok", "sync_device",
                           "event_destroy", "event_create", "notify", "await", "view",
                           "group_start"])
        if kind in ("record", "wait"):
            op = self.op(kind, stream=self.stream(), event=rng.choice(self.events))
            if kind == "wait" and rng.random() < 0.05:
                op["ignored"] = True
            return op
        if kind in ("sync_event", "query_ok", "event_destroy", "event_create"):
            return self.op(kind, event=rng.choice(self.events))
        if kind in ("sync_stream", "stream_query_ok"):
            return self.op(kind, stream=self.stream())
        if kind == "sync_device":
            return self.op(kind, **({"dev": rng.choice([0, 1])} if rng.random() < 0.5 else {}))
        if kind in ("notify", "await"):
            if kind == "await" and not self.notified and rng.random() < 0.9:
                kind = "notify"
            self.notified = True
            return self.op(kind, flag="f")
        if kind == "view":
            return self.op(kind, buf=rng.choice(self.names))
        return self.op(kind)

    def memory(self):
        rng = self.rng
        kind = rng.choice(["alloc", "free", "record_stream", "alloc_async", "free_async",
                           "cuda_free", "host_free", "alias"])
        if kind in ("alloc", "alloc_async", "alias"):
            if not self.fresh:
                return self.work()
            name = self.fresh.pop(0) if rng.random() < 0.95 else rng.choice(self.names)
            op = self.op(kind, buf=name)
            if kind != "alias" and rng.random() < 0.2:
                op["stream"] = self.stream()
            if kind == "alloc_async":
                op["stream"] = self.stream()
            if kind == "alias":
                op["of"] = rng.choice(self.live or self.names)
            ender = {"alloc": "free", "alloc_async": "free_async"}.get(kind)
            ended = [old for old, how in self.ended if how == ender or rng.random() < 0.02]
            if ended and ender and rng.random() < 0.8:
                op["reuse"] = rng.choice(ended)
            self.live.append(name)
            return op
        name = rng.choice(self.live or self.names)
        op = self.op(kind, buf=name)
        if kind in ("free_async", "record_stream"):
            op["stream"] = self.stream()
        if kind != "record_stream":
            self.ended.append((name, kind))
            if name in self.live and rng.random() < 0.97:
                self.live.remove(name)
        return op

    def program(self):
        rng = self.rng
        program = {"streams": self.streams, "ops": []}
        if self.kinds:
            program["buffers"] = self.kinds
        if rng.random() < 0.4:
            program["pageable"] = rng.choice(["strict", "staged"])
        if rng.random() < 0.3:
            program["nccl_serial"] = True
        memory = rng.choice([0.0, 0.15, 0.3])
        for _ in range(rng.randint(2, 16)):
            dice = rng.random()
            program["ops"].append(self.memory() if dice < memory
                                  else self.work() if dice < 0.55 else self.sync())
        return program


class DrawHang(Draw):
    def program(self):
        return self.in_order() if self.rng.random() < 0.5 else self.at_random()

    def in_order(self):
        """All ranks make the same calls, but for a change or two."""
        rng = self.rng
        ranks = ["r0", "r1", "r2"][:rng.choice([2, 2, 3])]
        self.streams = {"%s%s" % (name, rank): {"dev": i, "kind": rng.choice(["nb", "nb", "bl"])}
                        for i, rank in enumerate(ranks) for name in ("s", "t")}
        calls = [(rng.choice("cb"), rng.choice("st"), rng.choice(["ar", "ar", "ag"]),
                  rng.choice([None, None, 2])) for _ in range(rng.randint(1, 3))]
        ops = []
        for rank in ranks:
            mine = list(calls)
            if rng.random() < 0.2:
                rng.shuffle(mine)
            if rng.random() < 0.1:
                mine.pop()
            for comm, stream, kind, count in mine:
                if rng.random() < 0.1:
                    kind = "ag"
                op = {"op": "coll", "host": rank, "comm": comm, "stream": stream + rank,
                      "kind": kind}
                if count:
                    op["count"] = count
                ops.append(op)
                if rng.random() < 0.2:
                    ops.append({"op": "sync_stream", "host": rank,
                                "stream": rng.choice("st") + rank})
        return {"oracle": "hang", "streams": self.streams, "ops": ops,
                "comms": {"c": ranks, "b": ranks}, "slots": rng.choice([1, 2, 99])}

    def at_random(self):
        rng = self.rng
        self.hosts = ["r0", "r1", "r2"][:rng.choice([1, 2, 2, 2, 3])]
        program = {"oracle": "hang", "streams": self.streams, "comms": {}, "ops": []}
        for name in ["c", "b"][:rng.choice([1, 1, 2])]:
            members = [host for host in self.hosts if rng.random() < 0.85]
            program["comms"][name] = members or self.hosts[:1]
        comms = list(program["comms"])
        if rng.random() < 0.4:
            program["slots"] = rng.choice([0, 1, 1, 2, 2])
        if rng.random() < 0.3:
            program["queue_depth"] = rng.choice([0, 1, 1, 2, 2, 3])
        plain = rng.random() < 0.3  # only communication
        opened = {}
        for _ in range(rng.randint(2, 8)):
            kinds = ["coll", "coll", "coll", "send", "recv", "kernel", "record", "wait",
                     "sync_stream", "sync_event", "sync_device", "implicit_sync", "lock", "unlock",
                     "notify", "await", "hostfn", "group_start", "group_end", "memcpy", "alloc"]
            kind = rng.choice(["coll", "send", "recv", "group_start", "group_end"]
                              if plain else kinds)
            op = self.op(kind)
            host = op.get("host", "h")
            if kind in ("coll", "send", "recv"):
                op.update(comm=rng.choice(comms), stream=self.stream())
                if kind == "coll":
                    if rng.random() < 0.9:
                        op["kind"] = "ar" if rng.random() < 0.85 else "ag"
                    if rng.random() < 0.15:
                        op["count"] = rng.choice([1, 2])
                else:
                    op["peer"] = rng.choice(self.hosts)
                if rng.random() < 0.05:
                    op["rank"] = rng.choice(self.hosts + [1, 1.0, "1", None])
            elif kind in ("kernel", "memcpy", "sync_stream", "hostfn"):
                op["stream"] = self.stream()
                if kind == "hostfn" and rng.random() < 0.6:
                    op["body"] = [rng.choice([["lock", "k"], ["unlock", "k"],
                                              ["sync_stream", self.stream()]])
                                  for _ in range(rng.randint(1, 3))]
            elif kind in ("record", "wait"):
                op.update(stream=self.stream(), event=rng.choice(self.events))
            elif kind == "sync_event":
                op["event"] = rng.choice(self.events)
            elif kind in ("sync_device", "implicit_sync"):
                if rng.random() < 0.5:
                    op["devs"] = rng.choice([[0], [1], [0, 1], []])
            elif kind in ("lock", "unlock"):
                op["lock"] = "k"
            elif kind in ("notify", "await"):
                op["flag"] = "f"
            elif kind == "group_start":
                opened[host] = opened.get(host, 0) + 1
            elif kind == "group_end":
                if opened.get(host, 0) == 0:
                    continue
                opened[host] -= 1
            program["ops"].append(op)
        return program


class DrawCapture(Draw):
    def program(self):
        rng = self.rng
        program = {"oracle": "capture", "streams": self.streams, "ops": []}
        if rng.random() < 0.6:
            program["capture_mode"] = rng.choice(["global", "thread_local", "relaxed"])
        for _ in range(rng.randint(2, 12)):
            kind = rng.choice(["capture_begin", "capture_begin", "capture_end", "record", "record",
                               "wait", "wait", "kernel", "kernel", "memcpy", "coll", "sync_event",
                               "event_query", "cuda_malloc", "sync_stream", "graph_launch"])
            op = self.op(kind)
            if kind not in ("sync_event", "event_query", "cuda_malloc"):
                op["stream"] = self.stream()
            if kind in ("record", "wait", "sync_event", "event_query"):
                op["event"] = rng.choice(self.events)
            if kind == "coll":
                op["comm"] = "c"
            if kind == "cuda_malloc":
                op["buf"] = "A"
            if kind in ("capture_end", "graph_launch"):
                op["graph"] = "g"
            program["ops"].append(op)
        return program


DRAWS = {"hb": DrawOrder, "hang": DrawHang, "capture": DrawCapture}


def ask(programs):
    """Verdict and pair of each program, by the command."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for i, program in enumerate(programs):
            file.write(json.dumps({"id": str(i), "program": program}) + "\n")
        file.flush()
        done = subprocess.run([ORRERY, "check", file.name, "--json"], capture_output=True,
                              text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(programs):
        raise SystemExit("Bail out! %d answers to %d programs: %s" % (
            len(answers), len(programs), done.stderr[:500]))
    for answer in answers:
        unsafe = answer["verdict"] in ("race", "use-after-free", "use-before-alloc", "hang",
                                       "mismatch", "error")
        if unsafe != bool(answer["fix"]) or (unsafe and not answer["message"]):
            raise SystemExit("Bail out! no text for people: %s" % json.dumps(answer))
    return [(answer["verdict"], answer["first_conflict_ops"], answer["message"])
            for answer in answers]


def differs(program, expected=None):
    expected = expected or model.judge(program)
    got = ask([program])[0]
    return expected[0] != "unknown" and got[:2] != expected


def shrink(program):
    """Leaves out what can be left out while the answers still differ."""
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(program["ops"]))):
            smaller = dict(program, ops=program["ops"][:i] + program["ops"][i + 1:])
            try:
                if differs(smaller):
                    program, changed = smaller, True
            except (KeyError, StopIteration, ValueError):
                continue  # not well-formed any more
    return program


def compare(oracle, count, seed, keep):
    rng = random.Random("%s %s" % (seed, oracle))
    programs = [DRAWS[oracle](rng).program() for _ in range(count)]
    if keep:
        for program in programs:
            keep.write(json.dumps({"id": oracle, "program": program}) + "\n")
    tally, wrong = {}, []
    for program, got in zip(programs, ask(programs)):
        expected = model.judge(program)
        tally[expected[0]] = tally.get(expected[0], 0) + 1
        if expected[0] != "unknown" and got[:2] != expected:
            wrong.append(program)
    print("# %s, seed %s: %s" % (oracle, seed, ", ".join(
        "%d %s" % (n, verdict) for verdict, n in sorted(tally.items()))))
    for program in wrong[:3]:
        small = shrink(program)
        print("# differs: %s" % json.dumps(small))
        print("#   model %s, command %s" % (model.judge(small), ask([small])[0]))
    return len(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1500)
    parser.add_argument("--oracle", choices=list(DRAWS))
    parser.add_argument("--keep", type=argparse.FileType("w"))
    arguments = parser.parse_args()
    oracles = [arguments.oracle] if arguments.oracle else list(DRAWS)
    print("1..%d" % len(oracles))
    failed = 0
    for i, oracle in enumerate(oracles):
        wrong = compare(oracle, arguments.programs, SEED, arguments.keep)
        failed += wrong > 0
        print("%s %d - %d random programs of oracle %s" % (
            "not ok" if wrong else "ok", i + 1, arguments.programs, oracle))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
