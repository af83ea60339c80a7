#!/usr/bin/env python3
"""Random programs on the simulator and on tests/sim_model.py: equal to the nanosecond.

    tests/differential_sim.py [--programs N] [--strict NAME,... | --strict all] [--show NUMBER]

The first part compares times: each random program is written as a Lua scenario with a machine file
and played by `orrery run --timing-only`; every command's enqueue_ns, enqueued_ns, ready_ns,
start_ns and finish_ns, every sync and every answer to a query must be the model's. The second part
computes numbers: kernels touch ranges of few small buffers, some of them in order and some not, and
every command must end `ok` or `poisoned` as the model says.

A program that differs is shrunk, operation by operation, and printed with both answers. --programs:
how many for each part (thousands are fine). --strict judges differences that are switched off
below; --show prints a program of the first part with its times. ORR_TEST_SEED is honoured; ORRERY
names the command. Prints TAP. Needs nothing but Python's standard library.
"""
import argparse
import dataclasses
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import sim_model  # noqa: E402
from sim_model import Machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.environ.get("ORRERY", str(ROOT / "build/release/orrery"))
SEED = os.environ.get("ORR_TEST_SEED", "1")
PROGRAMS = 400

# Where the simulator is known to do something else than the documents say, or than a device could.
# For these the model does it the simulator's way, or the program is left out; `--strict NAME` shows
# the smallest program that differs. Whoever mends one takes it off this list.
SWITCHED_OFF = {
    "collective-carry":
        "collectives neither take a remainder over nor hand one on (sim.h: it is carried into the "
        "next back-to-back command)",
    "copy-engines":
        "any number of copies runs at once, each at its share of the engines (device_spec.h: copies"
        " that run at once)",
    "links":
        "copies over one link, in one direction, each have all of it (design: flows share links)",
    "empty-copies":
        "a copy of no bytes takes a kernel's fixed part, not the link's latency (cost_model.h)",
    "run-ahead":
        "a device that nobody disturbs finishes commands without duration before the host's call at"
        " the same time, another device after it: what queries say, and whether a queue is full, "
        "depends on what other streams do (agenda.h: host before start). Left out",
    "host-access":
        "work that starts while the host reads or writes is seen as a race only if its device ran "
        "ahead. Left out",
    "no-time":
        "commands without duration (host functions, too) never race with one that is running "
        "(hazard_ranges.h: misses no overlap)",
}
# What is left out. Nobody can say about two-starts: which of two commands starts first in one ns.
LEFT_OUT = {"run-ahead", "host-access", "two-starts"}


@dataclasses.dataclass
class Case:
    name: str
    machine: Machine
    streams: list
    buffers: dict
    prologue: list      # stays when the program is shrunk
    program: list
    numbers: bool = False
    events: int = 3


# --- writing a case down in Lua ---

def lua_machine(machine):
    lines = ['local s = "random"', "return {", '    kind = "gpu",',
             f"    devices = {machine.devices},", "    memory_bytes = { 64e9, source = s },",
             "    peak = {"]
    for unit in ("vector", "matrix"):
        peaks = ", ".join(f"{dtype} = {{ {value}, source = s }}"
                          for (u, dtype), value in sorted(machine.peak.items()) if u == unit)
        lines.append(f"        {unit} = {{ {peaks} }},")
    lines.append("    },")
    for item in dataclasses.fields(machine):
        key, value = item.name, getattr(machine, item.name)
        if key in ("devices", "peak") or value == ():
            continue
        if key.endswith("_efficiency"):
            value = ", ".join(f"{{ {x}, {ppm / 1e6!r} }}" for x, ppm in value)
        elif key == "collective_sm_ppm":
            key, value = "collective_sm_share", value / 1e6
        lines.append(f"    {key} = {{ {value}, source = s }},")
    return "\n".join(lines + ["}"]) + "\n"


def lua_table(fields):
    return "{ " + ", ".join(f"{key} = {value}" for key, value in fields.items()) + " }"


def lua_range(buffer, lo, hi):
    return f"{{ b[{buffer}], {lo}, {hi} }}"


def lua_list(ranges):
    return "{ " + ", ".join(lua_range(*r) for r in ranges) + " }"


def lua_accesses(op):
    fields = {}
    for key, mode in (("reads", "r"), ("writes", "w")):
        ranges = [a[:3] for a in op.get("accesses", ()) if a[3] == mode]
        if ranges:
            fields[key] = lua_list(ranges)
    return fields


def lua_kernel(op):
    fields = {"name": '"k"', **lua_accesses(op)}
    for key, lua_key in (("flops", "flops"), ("read", "bytes_read"), ("written", "bytes_written"),
                         ("ns", "ns"), ("submit_ns", "submit_ns")):
        if op.get(key) is not None:
            fields[lua_key] = op[key]
    for key in ("dtype", "unit"):
        if op.get(key):
            fields[key] = f'"{op[key]}"'
    return fields


def lua_collective(op):
    members = ", ".join(str(device) for device in op["devices"])
    fields = {"streams": "{ " + ", ".join(f"s[{i}]" for i in op["streams"]) + " }"}
    if op["kind"] != "barrier":
        fields.update(input=lua_list(op["input"]), output=lua_list(op["output"]),
                      count=op["count"], dtype=f'"{op["dtype"]}"', root=op["root"])
    return f"orrery.communicator{{ devices = {{ {members} }} }}:{op['kind']}{lua_table(fields)}"


def lua_copy(op):
    (to, to_lo), (source, lo), moved = op["to"], op["from"], op["bytes"]
    return {"to": lua_range(to, to_lo, to_lo + moved), "from": lua_range(source, lo, lo + moved)}


def lua_touch(op):
    fields = {"first": op["lo"], "count": op["hi"] - op["lo"], "dtype": '"bool"'}
    if op.get("ns") is not None:
        fields["ns"] = op["ns"]
    return ("1, " if op["op"] == "write" else "") + lua_table(fields)


def lua_op(op, buffers):
    kind = op["op"]
    s, e, b = (f"{name[0]}[{op.get(name)}]" for name in ("stream", "event", "buffer"))
    if kind == "alloc":
        device, size = buffers[op["buffer"]]
        return f"{b} = {'orrery.host_alloc' if device is None else s + ':alloc'}({size})"
    hostfn = {"name": '"h"', **lua_accesses(op)}
    return {
        "kernel": lambda: f"{s}:kernel{lua_table(lua_kernel(op))}",
        "fill": lambda: f"{s}:fill{{ to = {lua_range(*op['to'])} }}",
        "copy": lambda: f"{s}:copy{lua_table(lua_copy(op))}",
        "hostfn": lambda: f"{s}:hostfn{lua_table(hostfn)}",
        "collective": lambda: lua_collective(op),
        "record": lambda: f"{s}:record({e})",
        "wait": lambda: f"{s}:wait({e})",
        "sync_event": lambda: f"{e}:sync()",
        "query_event": lambda: f"print({e}:query())",
        "sync_stream": lambda: f"{s}:sync()",
        "query_stream": lambda: f"print({s}:query())",
        "sync_device": lambda: f"orrery.device({op['device']}):sync()",
        "spend": lambda: f"orrery.spend({op['ns']})",
        "free": lambda: f"{b}:free()",
        "read": lambda: f"{b}:read({lua_touch(op)})",
        "write": lambda: f"{b}:write({lua_touch(op)})",
    }[kind]()


def lua_program(case):
    lines = ["local s, e, b = {}, {}, {}"]
    for i, (device, name) in enumerate(case.streams):
        lines.append(f's[{i}] = orrery.device({device}):stream("{name}")')
    lines += [f"e[{i}] = orrery.event()" for i in range(case.events)]
    lines += [lua_op(op, case.buffers) for op in case.prologue + case.program]
    return "\n".join(lines) + "\n"


# --- playing it twice ---

COLUMNS = ("id", "kind", "device", "stream", "seq", "enqueue_ns", "enqueued_ns", "ready_ns",
           "start_ns", "finish_ns", "status")


class Invalid(Exception):
    """The command does not take the program: a mistake of the generator, or a crash."""


def run_orrery(case, folder):
    (folder / "machine.lua").write_text(lua_machine(case.machine), encoding="utf-8")
    (folder / "program.lua").write_text(lua_program(case), encoding="utf-8")
    trace = folder / "run.db"
    trace.unlink(missing_ok=True)
    command = [ORRERY, "run", str(folder / "program.lua"), "--devices", f"sim:{folder}/machine.lua",
               "-o", str(trace)] + ([] if case.numbers else ["--timing-only"])
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if result.returncode not in (0, 1) or not trace.exists():
        raise Invalid(f"exit code {result.returncode}: {result.stderr.strip()}")
    database = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
    rows = database.execute(f"SELECT {', '.join(COLUMNS)} FROM cmd ORDER BY id").fetchall()
    syncs = database.execute("SELECT kind, begin_ns, end_ns FROM sync ORDER BY id").fetchall()
    database.close()
    return rows, syncs, [x for x in result.stdout.splitlines() if x in ("true", "false")]


def run_model(case, off, machine=None):
    played = sim_model.play(machine or case.machine, case.streams, case.buffers,
                            case.prologue + case.program, off)
    if case.numbers:
        sim_model.judge(played, case.buffers, off)
    rows = [tuple(getattr(c, name) for name in COLUMNS) for c in played.commands]
    answers = ["true" if answer else "false" for answer in played.answers]
    return (rows, played.syncs, answers), played.ties


def first_difference(got, wanted):
    for what, names, ours, theirs in zip(
            ("command", "sync", "answer"), (COLUMNS, ("kind", "begin_ns", "end_ns"), ("it",)),
            got, wanted):
        for i, (one, other) in enumerate(zip(ours, theirs), 1):
            if one != other:
                pairs = zip(names, (one,), (other,)) if what == "answer" else zip(names, one, other)
                return f"{what} {i}: " + ", ".join(
                    f"{name} {x}, in the model {y}" for name, x, y in pairs if x != y)
        if len(ours) != len(theirs):
            return f"{len(ours)} times {what}, in the model {len(theirs)}"
    return None


def difference(case, folder, off, machine=None):
    """None if both agree; a text; or the name of the tie for which they can't be compared."""
    wanted, ties = run_model(case, off, machine)
    ties &= (LEFT_OUT - set(SWITCHED_OFF)) | (LEFT_OUT & off)
    if ties:
        return None, min(ties)
    return first_difference(run_orrery(case, folder), wanted), None


def shrink(case, folder, off, machine=None):
    """Leaves operations out as long as something differs."""
    def differs(program):
        try:
            shorter = dataclasses.replace(case, program=program)
            return difference(shorter, folder, off, machine)[0] is not None
        except (Invalid, KeyError):
            return False    # it used what is gone
    program, step = list(case.program), max(1, len(case.program) // 2)
    while step:
        i = 0
        while i < len(program):
            shorter = program[:i] + program[i + step:]
            if differs(shorter):
                program = shorter
            else:
                i += step
        step //= 2
    return dataclasses.replace(case, program=program)


def comment(text):
    print("".join(f"# {line}\n" for line in text.splitlines()), end="")


def tell(case, folder, off, machine=None):
    """Prints a case with both answers."""
    comment(f"{case.name}\n-- machine.lua\n{lua_machine(case.machine)}\n-- program.lua\n"
            f"{lua_program(case)}")
    got, (wanted, _) = run_orrery(case, folder), run_model(case, off, machine)
    comment("  ".join(COLUMNS))
    for one, other in zip(got[0], wanted[0]):
        if one[1] not in ("alloc", "free") or one != other:
            comment("  ".join(map(str, one)))
            if one != other:
                comment("  ".join(map(str, other)) + "    <-- the model")
    comment(f"syncs {got[1]}, answers {got[2]}")
    if got[1:] != wanted[1:]:
        comment(f"syncs {wanted[1]}, answers {wanted[2]}    <-- the model")


# --- random cases ---

LARGE, SMALL = 1 << 24, 64     # bytes of a buffer in the two parts


class Maker:
    """What both generators need."""

    def __init__(self, name):
        self.name, self.random = name, random.Random(name)
        self.buffers, self.prologue, self.program = {}, [], []
        self.machine, self.streams = Machine(), []

    def pick(self, *values):
        return self.random.choice(values)

    def chance(self, share):
        return self.random.random() < share

    def make_streams(self, least, most):
        devices = range(self.machine.devices)
        self.streams = [(device, "compute") for device in devices]
        for device in devices:
            self.streams += [(device, f"s{i}") for i in range(self.random.randint(least, most))]

    def alloc(self, where, stream, size):
        number = len(self.buffers)
        self.buffers[number] = (None if stream is None else self.streams[stream][0], size)
        where.append({"op": "alloc", "buffer": number})
        if stream is not None:
            where[-1]["stream"] = stream
        return number

    def streams_of(self, device):
        return [i for i, (owner, _) in enumerate(self.streams) if owner == device]

    def collective(self, piece, dtype, input_of, output_of):
        """`piece`: elements of a rank; *_of: buffer of a device."""
        devices = self.random.sample(range(self.machine.devices),
                                     self.random.randint(1, self.machine.devices))
        kind = self.pick("all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier")
        size = piece * sim_model.DTYPE_BYTES[dtype]
        reads = size * (len(devices) if kind == "reduce_scatter" else 1)
        writes = size * (len(devices) if kind == "all_gather" else 1)
        if reads == writes and self.chance(.2):
            output_of = input_of
        return {"op": "collective", "kind": kind, "devices": devices, "dtype": dtype,
                "streams": [self.pick(*self.streams_of(device)) for device in devices],
                "count": 0 if kind == "barrier" else piece,
                "root": self.random.randrange(len(devices)),
                "input": [(input_of(device), 0, reads) for device in devices],
                "output": [(output_of(device), 0, writes) for device in devices]}

    def case(self, numbers):
        return Case(self.name, self.machine, self.streams, self.buffers, self.prologue,
                    self.program, numbers)


class Timing(Maker):
    """Any operations on any machine; nothing is computed."""

    def rate(self, *usual):
        return self.pick(*usual, self.random.randint(10**8, 10**12))

    def short(self):
        return self.pick(0, 1, 3, 10) if self.hasty else self.pick(0, 1, 100,
                                                                   self.random.randint(0, 3000))

    def curve(self):
        if self.chance(.6):
            return ()
        points = sorted(self.random.sample(range(1, 10**self.random.randint(2, 9)),
                                           self.random.randint(1, 4)))
        return tuple((x, self.random.randint(1000, 10**6)) for x in points)

    def make_machine(self):
        m = self.machine
        m.devices = self.pick(1, 1, 2, 3, 4)
        self.hasty = self.chance(.5)    # short calls and latencies: more work at once
        self.many = self.pick("kernel", "kernel", "stated", "copy", "collective", "observe", "wait")
        m.bandwidth = self.rate(10**9, 3 * 10**9, 2 * 10**12)
        m.copy_engines = self.pick(1, 1, 2, 3)
        m.peak = {("vector", "f32"): self.rate(10**12, 10**15)}
        for key in (("vector", "f64"), ("vector", "bf16"), ("matrix", "bf16"), ("matrix", "f32")):
            if self.chance(.3):
                m.peak[key] = self.rate(10**13)
        m.matrix_efficiency, m.vector_efficiency = self.curve(), self.curve()
        m.memory_efficiency = self.curve()
        m.kernel_fixed_ns = self.pick(0, 0, 3, 50, self.random.randint(0, 2000))
        m.launch_latency_ns = self.pick(0, 3, 50, self.random.randint(0, 3000))
        m.host_launch_ns, m.host_event_ns = self.short(), self.short()
        m.host_sync_ns = self.short()
        m.queue_depth = self.pick(0, 0, 1, 2, 3, 5)
        m.peer_bandwidth, m.host_bandwidth = self.rate(10**9), self.rate(10**9)
        m.network_bandwidth = self.rate(10**9)
        m.peer_latency_ns, m.host_latency_ns = self.short(), self.short()
        m.network_latency_ns = self.short()
        m.devices_per_node = self.pick(0, 0, 1, 2)
        m.collective_sm_ppm = self.pick(0, 10**5, 333333, self.random.randint(0, 10**6))

    def some_bytes(self):
        ns = self.pick(1, 2, 10, self.random.randint(1, 100), self.random.randint(1, 20000))
        return min(LARGE, max(1, int(ns * self.random.random() * self.machine.bandwidth) // 10**9))

    def kernel(self, stream):
        op = {"op": "kernel", "stream": stream}
        if self.chance(.6):
            op["read"] = self.some_bytes()
        if self.chance(.2):
            op["written"] = self.some_bytes()
        if self.chance(.6):
            op["dtype"] = self.pick("f32", "f32", "bf16", "f64", "f16", "i32")
            op["unit"] = self.pick("vector", "matrix")
            peak = self.machine.peak_of(op["unit"], op["dtype"])
            ns = self.pick(1, 10, 100, 10000) * self.random.random()
            op["flops"] = max(1, int(ns * peak) // 10**9)
        if self.chance(.1):
            op["submit_ns"] = self.short() + 1
        return op

    def stated_kernel(self, stream):
        op = {"op": "kernel", "stream": stream, "ns": self.short()}
        if self.chance(.3):
            op["read"] = self.some_bytes()
        return op

    def copy(self, stream):
        device = self.streams[stream][0]
        other = self.pick(device, device, *range(self.machine.devices))
        ends = self.pick((2 * device, self.host), (2 * device, 2 * other), (2 * device, 2 * other),
                         (2 * device, 2 * device + 1), (self.host, self.host + 1))
        moved = 0 if self.chance(.05) else self.some_bytes()
        if ends[0] == ends[1]:
            ends = ends[0], ends[1] + 1
        to, source = ends if self.chance(.5) else ends[::-1]
        return {"op": "copy", "stream": stream, "to": (to, 0), "from": (source, 0), "bytes": moved}

    def observe(self, stream):
        event = self.random.randrange(3)
        return self.pick({"op": "sync_stream", "stream": stream},
                         {"op": "sync_event", "event": event},
                         {"op": "sync_device", "device": self.streams[stream][0]},
                         {"op": "query_stream", "stream": stream},
                         {"op": "query_event", "event": event})

    def operation(self):
        stream = self.random.randrange(len(self.streams))
        device = self.streams[stream][0]
        event = self.random.randrange(3)
        weights = {"kernel": 6, "stated": 2, "fill": 1, "copy": 3, "hostfn": 1, "record": 3,
                   "wait": 3, "observe": 1.5, "spend": 1, "collective": 2}
        weights[self.many] *= 3
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        if kind == "collective":
            piece = min(LARGE // 64, max(1, self.some_bytes() // 4))
            return self.collective(piece, self.pick("f32", "bf16", "bool", "f64"),
                                   lambda d: 2 * d, lambda d: 2 * d + 1)
        return {
            "kernel": lambda: self.kernel(stream),
            "stated": lambda: self.stated_kernel(stream),
            "fill": lambda: {"op": "fill", "stream": stream,
                             "to": (2 * device, 0, self.some_bytes())},
            "copy": lambda: self.copy(stream),
            "hostfn": lambda: {"op": "hostfn", "stream": stream, "accesses":
                               self.pick([], [(2 * device, 0, 64, self.pick("r", "w"))])},
            "record": lambda: {"op": "record", "stream": stream, "event": event},
            "wait": lambda: {"op": "wait", "stream": stream, "event": event},
            "observe": lambda: self.observe(stream),
            "spend": lambda: {"op": "spend", "ns": self.short()},
        }[kind]()

    def make(self):
        self.make_machine()
        self.make_streams(0, 3)
        for device in range(self.machine.devices):
            self.alloc(self.prologue, device, LARGE)
            self.alloc(self.prologue, device, LARGE)
        self.host = self.alloc(self.prologue, None, LARGE)
        self.alloc(self.prologue, None, LARGE)
        for _ in range(self.pick(3, 6, 12, 25, 60)):
            self.program.append(self.operation())
        return self.case(False)


class Numbers(Maker):
    """Kernels that touch ranges of few small buffers, some of them in order and some not. A
    stream's private buffer is freed and allocated again while it is in use, which its order makes
    safe."""

    def make_machine(self):
        m = self.machine
        m.devices = self.pick(1, 1, 2, 3)
        m.bandwidth = 10**self.random.randint(9, 11)
        m.kernel_fixed_ns = self.pick(1, 20, 300)
        m.launch_latency_ns = self.pick(0, 30, 300)
        m.host_launch_ns, m.host_event_ns = self.pick(1, 20, 200), self.pick(1, 5)
        m.host_sync_ns = self.pick(0, 5)
        m.peer_bandwidth = m.host_bandwidth = 10**9
        m.peer_latency_ns = m.host_latency_ns = 20
        m.collective_sm_ppm = 10**5

    def span(self):
        if self.chance(.4):
            return 0, SMALL
        lo = self.random.randrange(0, SMALL, 4)
        return lo, self.random.randrange(lo + 4, SMALL + 4, 4)

    def ranges(self, stream, mode, most):
        near = self.shared[self.streams[stream][0]] + [self.private[stream]] + self.pinned
        return [(self.pick(*near), *self.span(), mode)
                for _ in range(self.random.randint(0, most))]

    def copy(self, stream):
        ends = [self.pick(*self.shared[self.streams[stream][0]]),
                self.pick(*self.pinned, *self.shared[self.random.randrange(self.machine.devices)])]
        if ends[0] == ends[1]:
            return []
        self.random.shuffle(ends)
        return [{"op": "copy", "stream": stream, "to": (ends[0], self.pick(0, 32)),
                 "from": (ends[1], self.pick(0, 32)), "bytes": self.pick(4, 16, 32)}]

    def again(self, stream):
        """The private buffer anew: used once more, and read or written afterwards."""
        old, ops = self.private[stream], []
        if self.chance(.5):
            ops.append({"op": "kernel", "stream": stream, "ns": self.pick(1, 1000),
                        "accesses": [(old, *self.span(), self.pick("r", "w"))]})
        ops.append({"op": "free", "stream": stream, "buffer": old})
        new = self.private[stream] = self.alloc(ops, stream, SMALL)
        for mode in self.pick("r", "w", "wr", "rw", "wwr"):
            ops.append({"op": "kernel", "stream": stream, "ns": self.pick(1, 10),
                        "accesses": [(new, *self.span(), mode)]})
            if self.chance(.2):
                ops.append({"op": "sync_stream", "stream": stream})
        return ops

    def mend(self, stream):
        """All is quiet, and the shared buffers of a device hold numbers again."""
        ops = [{"op": "sync_device", "device": device} for device in range(self.machine.devices)]
        ops += [{"op": "fill", "stream": stream, "to": (buffer, 0, SMALL)}
                for buffer in self.shared[self.streams[stream][0]]]
        return ops + [{"op": "sync_stream", "stream": stream}]

    def touch(self):
        lo, hi = self.span()
        return {"op": self.pick("read", "write"), "buffer": self.pick(*self.pinned), "lo": lo,
                "hi": hi, "ns": self.pick(None, 1, 50, 500)}

    def kernel(self, stream):
        op = {"op": "kernel", "stream": stream,
              "accesses": self.ranges(stream, "r", 2) + self.ranges(stream, "w", 2)}
        if self.chance(.8):
            op["ns"] = self.pick(1, 10, 100, 1000)
        else:
            op["read"], op["written"] = self.random.randint(0, 1000), 0
        return op

    def operations(self):
        stream = self.random.randrange(len(self.streams))
        device, event = self.streams[stream][0], self.random.randrange(3)
        kind = self.random.choices(
            ("kernel", "hostfn", "copy", "fill", "collective", "touch", "record", "wait", "sync",
             "spend", "again", "mend"), (8, 1, 2, 1, 2, 2, 3, 3, 1 + 3 * self.quiet, 1, 1, .7))[0]
        if kind == "collective":
            source = self.random.randrange(2)
            return [self.collective(16, "bool", lambda d: self.shared[d][source],
                                    lambda d: self.shared[d][2])]
        return {
            "kernel": lambda: [self.kernel(stream)],
            "hostfn": lambda: [{"op": "hostfn", "stream": stream, "accesses":
                                self.ranges(stream, "r", 1) + self.ranges(stream, "w", 1)}],
            "copy": lambda: self.copy(stream),
            "fill": lambda: [{"op": "fill", "stream": stream, "to":
                              (self.pick(*self.shared[device], self.private[stream]),
                               *self.span())}],
            "touch": lambda: [self.touch()],
            "record": lambda: [{"op": "record", "stream": stream, "event": event}],
            "wait": lambda: [{"op": "wait", "stream": stream, "event": event}],
            "sync": lambda: [self.pick({"op": "sync_stream", "stream": stream},
                                       {"op": "sync_device", "device": device})],
            "spend": lambda: [{"op": "spend", "ns": self.pick(1, 30, 300)}],
            "again": lambda: self.again(stream),
            "mend": lambda: self.mend(stream),
        }[kind]()

    def make(self):
        self.make_machine()
        self.make_streams(1, 3)
        devices = range(self.machine.devices)
        self.quiet = self.random.random()
        self.shared = [[self.alloc(self.prologue, device, SMALL) for _ in range(3)]
                       for device in devices]
        self.pinned = [self.alloc(self.prologue, None, SMALL) for _ in range(2)]
        self.private = [self.alloc(self.prologue, stream, SMALL)
                        for stream in range(len(self.streams))]
        for device in devices:
            for buffer in self.shared[device]:
                if self.chance(.8):
                    self.program.append({"op": "fill", "stream": device, "to":
                                         (buffer, 0, self.pick(SMALL, SMALL, SMALL // 2))})
            self.program.append({"op": "sync_device", "device": device})
        for buffer in self.pinned:
            if self.chance(.8):
                self.program.append({"op": "write", "buffer": buffer, "lo": 0, "hi": SMALL})
        for _ in range(self.pick(3, 8, 20, 40)):
            self.program += self.operations()
        return self.case(True)


# --- the tests ---

class Report:
    def __init__(self):
        self.number, self.failed = 0, 0

    def __call__(self, name, good):
        self.number += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.number} - {name}", flush=True)


def compare(maker, count, folder, off):
    """Plays `count` programs of a maker; True if all agree. Prints the first that doesn't."""
    left_out, commands, poisoned, good = {}, 0, 0, True
    for i in range(count):
        case = maker(f"{SEED}/{maker.__name__}/{i}").make()
        try:
            problem, tie = difference(case, folder, off)
        except Invalid as error:
            problem, tie = str(error), None
            comment(f"{case.name}: {error}\n{lua_machine(case.machine)}\n{lua_program(case)}")
            return False
        if problem:
            comment(f"{case.name}: {problem}")
            tell(shrink(case, folder, off), folder, off)
            good = False
            break
        if tie:
            left_out[tie] = left_out.get(tie, 0) + 1
            continue
        (rows, _, _), _ = run_model(case, off)
        commands += len(rows)
        poisoned += sum(row[-1] == "poisoned" for row in rows)
    comment(f"{maker.__name__}: {count} programs, seed {SEED}; {commands} commands compared"
            + (f", {poisoned} of them poisoned" if poisoned else "")
            + "".join(f"; {n} programs left out: {name}" for name, n in sorted(left_out.items())))
    return good


def by_hand():
    """Times that people worked out with a pencil, as (what, the model's, right)."""
    def last(machine, program, streams=((0, "compute"), (0, "other")), buffers=None):
        played = sim_model.play(machine, streams, buffers or {}, program)
        return [c.finish_ns for c in played.commands]

    teaching = Machine(host_launch_ns=5000, host_event_ns=1, peer_latency_ns=1000,
                       host_latency_ns=1000)
    kernel, gemm = {"op": "kernel", "stream": 0}, 2 * 4096**3
    yield "20 us to enqueue 5 ms", last(teaching, [
        {**kernel, "submit_ns": 20000, "ns": 5000000}]), [5020000]
    yield "a product and two rounded elementwise kernels", last(teaching, [
        {**kernel, "flops": gemm, "read": 100663296}, {**kernel, "read": 67108864},
        {**kernel, "read": 67108864}]), [279878, 313432, 346987]
    yield "two kernels share the bandwidth", last(dataclasses.replace(
        teaching, host_launch_ns=1, bandwidth=10**9), [
            {**kernel, "read": 1000}, {**kernel, "stream": 1, "read": 1000}]), [2000, 2001]
    yield "an event orders two streams", last(teaching, [
        {**kernel, "ns": 100000}, {"op": "record", "stream": 0, "event": 0},
        {"op": "wait", "stream": 1, "event": 0}, {**kernel, "stream": 1, "ns": 50000}]), [
            105000, 105000, 105000, 155000]
    yield "a full queue blocks the host", last(dataclasses.replace(
        teaching, host_launch_ns=10, queue_depth=1, host_sync_ns=7), [
            {**kernel, "ns": 1000}, {**kernel, "ns": 1000}]), [1010, 2027]
    member = {"op": "collective", "kind": "all_reduce", "devices": [0, 1], "streams": [0, 1],
              "count": 25000, "dtype": "f32", "root": 0, "input": [(0, 0, 100000), (1, 0, 100000)],
              "output": [(0, 0, 100000), (1, 0, 100000)]}
    yield "a ring of two, 100 kB: 2 latencies and 100 kB at 100 GB/s", last(
        dataclasses.replace(teaching, devices=2), [{**kernel, "ns": 9000}, member],
        ((0, "compute"), (1, "compute")), {0: (0, 100000), 1: (1, 100000)}), [14000, 17000, 17000]


def finds_planted(folder, off):
    """A model whose launches cost one ns more is caught, and the program shrinks to one launch."""
    for i in range(20):
        case = Timing(f"planted/{i}").make()
        wrong = dataclasses.replace(case.machine, host_launch_ns=case.machine.host_launch_ns + 2)
        if difference(case, folder, off, wrong)[0]:
            small = shrink(case, folder, off, wrong)
            return len(small.program) == 1 and difference(small, folder, off)[0] is None
    return False


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--strict", default="")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    strict = set(SWITCHED_OFF) if options.strict == "all" else set(options.strict.split(",")) - {""}
    if strict - set(SWITCHED_OFF):
        parser.error(f"--strict knows {', '.join(SWITCHED_OFF)}")
    off, report = frozenset(set(SWITCHED_OFF) - strict), Report()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if options.show is not None:
            tell(Timing(f"{SEED}/Timing/{options.show}").make(), folder, off)
            return 0
        print("TAP version 13")
        comment(f"ORR_TEST_SEED={SEED}")
        for name in sorted(off):
            comment(f"switched off: {name}: {SWITCHED_OFF[name]}")
        wrong = [f"{what}: {got}, right {right}" for what, got, right in by_hand() if got != right]
        comment("\n".join(wrong))
        report("the model agrees with times worked out by hand", not wrong)
        report("a wrong model is caught, and the program shrunk to one launch",
               finds_planted(folder, off))
        report("random programs take the same time, to the nanosecond",
               compare(Timing, options.programs, folder, off))
        report("random programs poison the same commands",
               compare(Numbers, options.programs, folder, off))
    print(f"1..{report.number}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
