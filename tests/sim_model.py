"""A second opinion on virtual time: what the documents say the simulator does, written down again.

Simple and slow on purpose: lists, whole numbers and fractions, one loop that takes the next event,
nothing shared with the simulator's code. tests/differential_sim.py plays random programs on both
and compares every time to the nanosecond, and which commands end poisoned.

    machine = Machine(devices=1, host_launch_ns=100)
    streams = [(0, "compute"), (0, "other")]            # (device, name)
    buffers = {0: (0, 64), 1: (None, 64)}               # (device, bytes); None: pinned host memory
    program = [
        {"op": "kernel", "stream": 0, "flops": 10**9, "accesses": [(0, 0, 64, "w")]},
        {"op": "record", "stream": 0, "event": 0},
        {"op": "wait", "stream": 1, "event": 0},
        {"op": "sync_stream", "stream": 1},
    ]
    played = play(machine, streams, buffers, program)
    judge(played, buffers)
    played.commands[0].finish_ns, played.commands[0].status

Operations:

    kernel      stream, flops, read, written, dtype, unit, ns, submit_ns, accesses
    fill        stream, to=(buffer, lo, hi)
    copy        stream, to=(buffer, lo), from=(buffer, lo), bytes
    hostfn      stream, accesses
    collective  kind, count, dtype, root, devices, streams, input, output (lists by rank)
    record, wait                    stream, event
    sync_stream, query_stream       stream
    sync_event, query_event         event
    sync_device                     device
    alloc, free                     buffer; alloc of device memory: stream
    read, write                     buffer, lo, hi, ns: the host touches pinned memory
    spend                           ns

with accesses = [(buffer, lo, hi, "r" or "w")].

Where the documents leave a choice, the comment beside it begins with "Reading:". Where the
simulator does something else than they say, the difference has a name; play(..., as_simulated=
{names}) does it the simulator's way. Some questions have no answer at all: what happens first
within one nanosecond. A program that depends on that has a name in `played.ties`, and can't be
compared.
"""
from dataclasses import dataclass, field
from fractions import Fraction

BITS = 20
ONE = 1 << BITS     # one ns of work; a share or a rate of one
LEAST = ONE >> 4    # Reading: what communication leaves to kernels at least
NEVER = float("inf")
DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "bool": 1,
               "i8": 1, "f8e4m3": 1, "f8e5m2": 1}
SETTLED = ("record", "wait", "hostfn")  # take no time


@dataclass
class Machine:
    """Figures of runtime/device_spec.h; all devices are equal. Curves are ((x, ppm), ...)."""
    devices: int = 1
    bandwidth: int = 2 * 10**12
    copy_engines: int = 2
    peak: dict = field(default_factory=lambda: {("vector", "f32"): 500 * 10**12})
    matrix_efficiency: tuple = ()
    vector_efficiency: tuple = ()
    memory_efficiency: tuple = ()
    kernel_fixed_ns: int = 0
    launch_latency_ns: int = 0
    host_launch_ns: int = 0
    host_event_ns: int = 0
    host_sync_ns: int = 0
    queue_depth: int = 0
    peer_bandwidth: int = 10**11
    host_bandwidth: int = 5 * 10**10
    network_bandwidth: int = 25 * 10**9
    peer_latency_ns: int = 0
    host_latency_ns: int = 0
    network_latency_ns: int = 0
    devices_per_node: int = 0
    collective_sm_ppm: int = 0

    def spans_nodes(self, devices):
        return bool(self.devices_per_node) and len({d // self.devices_per_node
                                                    for d in devices}) > 1

    def link(self, devices):
        """(byte/s, latency) of the slowest link between some devices."""
        if self.spans_nodes(devices):
            return self.network_bandwidth, self.network_latency_ns
        return self.peer_bandwidth, self.peer_latency_ns

    def peak_of(self, unit, dtype):
        dtype = dtype or "f32"
        for key in ((unit, dtype), ("vector", dtype), ("vector", "f32")):
            if self.peak.get(key):
                return self.peak[key]
        raise KeyError("a machine without a peak")


# --- cost ---

def half_up(value):
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def ceiling(numerator, denominator):
    return -(-numerator // denominator)


def work_of(amount, per_second):
    """Time of so many bytes or FLOPs at a rate, as work. Reading: rounded half up to 2^-20 ns."""
    return half_up(Fraction(amount * 10**9 << BITS) / per_second)


def efficiency(curve, x):
    """Parts per million at x: linear between the points, constant outside."""
    if not curve:
        return 10**6
    if x <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in zip(curve, curve[1:]):
        if x <= x1:
            return (y0 * (x1 - x) + y1 * (x - x0)) // (x1 - x0)  # Reading: rounded down
    return curve[-1][1]


@dataclass
class Cost:
    """Work in ns << BITS; the shares of the multiprocessors and of the bandwidth that are in use
    while it runs alone."""
    work: int = 0
    sm: int = 0
    bandwidth: int = 0


class Costs:
    """The cost model of one machine."""

    def __init__(self, machine, as_simulated):
        self.machine, self.as_simulated = machine, as_simulated
        self.fixed = machine.kernel_fixed_ns << BITS

    def shares(self, cost, compute, memory, without_fixed):
        whole = without_fixed if "fixed-part-shares" in self.as_simulated else cost.work
        if whole:
            cost.sm = min(ONE, ceiling(compute << BITS, whole))  # Reading: rounded up
            cost.bandwidth = min(ONE, ceiling(memory << BITS, whole))
        return cost

    def kernel(self, flops, moved, unit="vector", dtype=None, stated_ns=None):
        m = self.machine
        compute = memory = 0
        if flops:
            curve = m.matrix_efficiency if unit == "matrix" else m.vector_efficiency
            compute = work_of(flops, Fraction(m.peak_of(unit, dtype) * efficiency(curve, flops),
                                              10**6))
        if moved:
            memory = work_of(moved, Fraction(m.bandwidth * efficiency(m.memory_efficiency, moved),
                                             10**6))
        cost = Cost(max(compute, memory) + self.fixed)
        if stated_ns is None:
            return self.shares(cost, compute, memory, max(compute, memory))
        stated = Cost(stated_ns << BITS)
        if "fixed-part-shares" not in self.as_simulated:
            return self.shares(stated, compute, memory, None)
        self.shares(cost, compute, memory, max(compute, memory))
        slower = max(cost.work, stated.work) or 1
        stated.sm = cost.sm * cost.work // slower
        stated.bandwidth = cost.bandwidth * cost.work // slower
        return stated

    def copy(self, ends, moved):
        """`ends`: devices of target and source, None for the host."""
        m = self.machine
        if ends[0] == ends[1] is not None or moved == 0 and "empty-copies" in self.as_simulated:
            # Reading: a kernel that moves everything twice, with efficiency and fixed part.
            return self.kernel(0, 2 * moved)
        if None in ends:
            rate, latency = m.host_bandwidth, m.host_latency_ns
        else:
            rate, latency = m.link(ends)
        link = work_of(moved, rate)
        cost = Cost(link + (latency << BITS))
        return self.shares(cost, 0, work_of(moved, m.bandwidth), link)

    def collective(self, kind, devices, piece):
        """`piece`: bytes of one rank's count."""
        m, n = self.machine, len(devices)
        steps, moved = {
            "all_reduce": (2 * (n - 1), 2 * (n - 1) * piece // n),  # Reading: whole bytes
            "all_gather": (n - 1, (n - 1) * piece),
            "reduce_scatter": (n - 1, (n - 1) * piece),
            "broadcast": (n - 1, piece if n > 1 else 0),
            "barrier": (2 * (n - 1), 0),
        }[kind]
        rate, latency = m.link(devices)
        link = work_of(moved, rate)
        # Reading: a collective is a kernel, too, and has its fixed part.
        cost = Cost(link + (steps * latency << BITS) + self.fixed)
        # Reading: what comes and what goes both pass through the memory.
        self.shares(cost, 0, work_of(2 * moved, m.bandwidth), link)
        cost.sm = m.collective_sm_ppm * ONE // 10**6  # Reading: rounded down
        return cost


# --- what is played ---

@dataclass(eq=False)
class Command:
    """A row of the trace's table cmd, and what the model needs besides."""
    id: int
    kind: str
    device: int
    stream: int
    seq: int
    enqueue_ns: int
    enqueued_ns: int
    ready_ns: int = None
    start_ns: int = None
    finish_ns: int = None
    status: str = "ok"
    cost: Cost = field(default_factory=Cost)
    earliest_ns: int = 0        # by the launch latency
    awaits: "Command" = None    # of a wait
    group: "Group" = None       # of a collective
    ends: tuple = ()            # of a copy: devices of target and source
    rest: int = 0               # work that is left
    accesses: tuple = ()

    @property
    def touches(self):
        return any(lo < hi for _, lo, hi, _ in self.accesses)

    @property
    def local(self):
        """A copy within one device."""
        return self.kind == "copy" and self.ends[0] == self.ends[1] is not None

    @property
    def settles(self):
        return self.kind in SETTLED or not self.group and self.cost.work == 0


@dataclass(eq=False)
class Group:
    """A collective: one command per member."""
    members: list
    cost: Cost
    rest: int = 0
    began: bool = False


class Stream:
    def __init__(self, number, device):
        self.number, self.device = number, device
        self.queue = []         # what has not finished, in order
        self.count = 0
        self.last = None        # the last one enqueued
        self.free_ns = 0        # when the last one finished
        self.carry = (None, 0)  # when the last work finished, and how much of it was left then


class Played:
    """Commands; syncs as (kind, begin, end); answers to queries; names of ties."""

    def __init__(self):
        self.commands, self.syncs, self.answers, self.ties = [], [], [], set()
        self.now_ns = 0


class World:
    def __init__(self, machine, streams, buffers, as_simulated):
        self.machine, self.buffers, self.as_simulated = machine, buffers, as_simulated
        self.costs = Costs(machine, as_simulated)
        self.streams = [Stream(i, device) for i, (device, _) in enumerate(streams)]
        self.played = Played()
        self.now = 0            # of the host
        self.clock = 0          # of the devices
        self.events = {}        # number -> the command that it stands for
        self.denied = []        # (time, commands) of queries that said no
        self.running = [[] for _ in range(machine.devices)]     # kernels, fills, copies
        self.arrived = [[] for _ in range(machine.devices)]     # members of collectives

    # --- rates ---

    def shares_kernels_memory(self, command):
        if command.kind != "copy":
            return True
        empty = all(lo == hi for _, lo, hi, _ in command.accesses)
        if empty and "empty-copies" in self.as_simulated:
            return True
        return "local-copies" not in self.as_simulated and command.local

    def kernel_rate(self, command):
        """What is left of a device is shared: everybody's rate falls until it is enough."""
        device = command.device
        members = self.arrived[device]
        busy = [m for m in members if m.group.began or "waiting-members" in self.as_simulated]
        kernels = [c for c in self.running[device] if self.shares_kernels_memory(c)]
        copies = [c for c in self.running[device] if not self.shares_kernels_memory(c)]
        sm = max(LEAST, ONE - sum(m.cost.sm for m in members))
        bandwidth = max(LEAST, ONE - sum(c.cost.bandwidth for c in busy + copies))
        rate = ONE
        for left, used, own in (
                (sm, sum(c.cost.sm for c in kernels), command.cost.sm),
                (bandwidth, sum(c.cost.bandwidth for c in kernels), command.cost.bandwidth)):
            if used > left and (own or "one-rate" in self.as_simulated):
                rate = min(rate, left * ONE // used)  # Reading: rounded down
        return rate

    @staticmethod
    def links_of(copy):
        """The ends of links that a copy uses, with its direction."""
        to, source = copy.ends
        if to == source:
            return set()
        if None in copy.ends:
            device = source if to is None else to
            return {("host", device, to is None)}
        return {("out", source), ("in", to)}

    def copy_rate(self, command):
        rate = ONE
        if "copy-engines" in self.as_simulated and not self.shares_kernels_memory(command):
            copies = [c for c in self.running[command.device]
                      if not self.shares_kernels_memory(c)]
            engines = max(1, self.machine.copy_engines)
            rate = min(rate, engines * ONE // len(copies))
        if "links" not in self.as_simulated:
            mine = self.links_of(command)
            flows = [c for running in self.running for c in running if c.kind == "copy"]
            for link in mine:
                rate = min(rate, ONE // sum(link in self.links_of(c) for c in flows))
        if self.shares_kernels_memory(command):
            rate = min(rate, self.kernel_rate(command))
        return rate

    def rate_of(self, command):
        if command.kind == "copy":
            return self.copy_rate(command)
        return self.kernel_rate(command)

    @staticmethod
    def lasts(rest, rate):
        """ns until the rest is done, half up."""
        return max(0, (2 * rest + rate) // (2 * rate))

    # --- events of devices ---

    def groups(self):
        return {id(m.group): m.group for members in self.arrived for m in members}.values()

    def next_finish(self):
        times = [self.clock + self.lasts(c.rest, self.rate_of(c))
                 for running in self.running for c in running]
        times += [self.clock + self.lasts(g.rest, ONE) for g in self.groups() if g.began]
        return min(times, default=NEVER)

    def engine_free(self, device):
        """Copies queue for engines in order of their readiness (or share them, as simulated)."""
        if "copy-engines" in self.as_simulated:
            return True
        copies = [c for c in self.running[device] if c.kind == "copy"]
        return len(copies) < max(1, self.machine.copy_engines)

    @staticmethod
    def ready(stream):
        return max(stream.queue[0].earliest_ns, stream.free_ns)

    def next_start(self):
        return min((self.ready(s) for s in self.streams
                    if s.queue and s.queue[0].start_ns is None
                    and (s.queue[0].kind != "copy" or self.engine_free(s.device))), default=NEVER)

    def pass_time(self, until):
        elapsed = until - self.clock
        rates = [(c, self.rate_of(c)) for running in self.running for c in running]
        for command, rate in rates:
            command.rest -= rate * elapsed
        for group in self.groups():
            if group.began:
                group.rest -= ONE * elapsed
        self.clock = until

    def settle(self, stream):
        """The head of a stream, if it is free to go: starts, or passes if it takes no time."""
        if not stream.queue:
            return
        head = stream.queue[0]
        if head.start_ns is None and self.ready(stream) > self.clock:
            return
        if not head.settles:
            if head.start_ns is None and (head.kind != "copy"
                                          or "copy-engines" in self.as_simulated):
                self.start(stream)
            return
        if head.start_ns is None:
            # Reading: a wait starts when it is its turn, and finishes with what it waits for.
            head.start_ns = self.clock
            head.ready_ns = max(head.enqueued_ns, stream.free_ns)
        if not head.awaits or head.awaits.finish_ns is not None:
            self.finish(head)

    def start(self, stream):
        head = stream.queue[0]
        head.start_ns = self.clock
        head.ready_ns = max(head.enqueued_ns, stream.free_ns)
        carry = self.carried(stream)
        if head.group:
            self.arrived[head.device].append(head)
            if all(m.start_ns is not None for m in head.group.members):
                self.begin(head.group)
            return
        head.rest = head.cost.work + carry
        if "carry-below-zero" in self.as_simulated:
            head.rest = max(0, head.rest)
        self.running[head.device].append(head)

    def begin(self, group):
        group.began = True
        group.rest = group.cost.work
        if "collective-carry" not in self.as_simulated:
            last = [self.carried(self.streams[m.stream]) for m in group.members
                    if m.start_ns == self.clock]
            group.rest += max(last)

    def carried(self, stream):
        """What a command that follows at once takes over from the one before."""
        return stream.carry[1] if stream.carry[0] == self.clock else 0

    def start_copies(self):
        for stream in sorted((s for s in self.streams if s.queue and s.queue[0].kind == "copy"),
                             key=lambda s: (self.ready(s), s.number)):
            head = stream.queue[0]
            if (head.start_ns is None and not head.settles and self.ready(stream) <= self.clock
                    and self.engine_free(stream.device)):
                self.start(stream)

    def finish(self, command, left=None):
        stream = self.streams[command.stream]
        assert stream.queue[0] is command
        stream.queue.pop(0)
        command.finish_ns = stream.free_ns = self.clock
        if left is not None:
            stream.carry = (self.clock, left)
        elif command.touches and "carry-over-ranges" in self.as_simulated:
            stream.carry = (self.clock, 0)
        self.settle(stream)
        for other in self.streams:
            if other.queue and other.queue[0].awaits is command:
                self.settle(other)

    def finish_all(self):
        """Everything that finishes now."""
        done = [c for running in self.running for c in running
                if self.lasts(c.rest, self.rate_of(c)) == 0]
        groups = [g for g in self.groups() if g.began and self.lasts(g.rest, ONE) == 0]
        for command in done:
            self.running[command.device].remove(command)
        for group in groups:
            for member in group.members:
                self.arrived[member.device].remove(member)
        for command in done:
            self.finish(command, command.rest)
        for group in groups:
            for member in group.members:
                self.finish(member, 0 if "collective-carry" in self.as_simulated else group.rest)
        self.start_copies()

    def step(self, limit):
        """Takes the next event before a call of the host at `limit`: at one time first what
        finishes, then the host, then what starts. False if there is none."""
        finish, start = self.next_finish(), self.next_start()
        if finish <= min(limit, start) and finish < NEVER:
            self.pass_time(finish)
            self.finish_all()
            return True
        if start < limit:
            self.pass_time(max(start, self.clock))
            for stream in self.streams:
                self.settle(stream)
            self.start_copies()
            return True
        return False

    def run_until(self, limit):
        while self.step(limit):
            pass

    def run_until_done(self, commands):
        while any(c.finish_ns is None for c in commands):
            assert self.step(NEVER), "a hang"
        return max((c.finish_ns for c in commands), default=0)

    # --- the host ---

    def call(self, kind, submit_ns=None):
        """A call's cost."""
        if submit_ns is not None:
            self.now += submit_ns
            return
        event = kind in ("record", "wait", "alloc", "free", "query")
        self.now += max(1, self.machine.host_event_ns if event else self.machine.host_launch_ns)

    def block(self, commands):
        """The host waits until the commands have finished."""
        retired = self.run_until_done(commands)
        self.now = max(self.now + 1, max(self.now, retired) + self.machine.host_sync_ns)
        return retired

    def make_room(self, streams):
        """Reading: a queue holds whatever has been enqueued, not only launches."""
        depth = self.machine.queue_depth or 1024
        while True:
            self.run_until(self.now)
            full = [s for s in streams if len(s.queue) >= depth]
            if not full:
                return
            began = self.now
            if self.block([full[0].queue[len(full[0].queue) - depth]]) == began:
                self.played.ties.add("run-ahead")

    def new_command(self, kind, stream, began, seq):
        command = Command(len(self.played.commands) + 1, kind, stream and stream.device,
                          stream and stream.number, seq, began, self.now)
        self.played.commands.append(command)
        return command

    def append(self, kind, stream, began, **more):
        stream.count += 1
        command = self.new_command(kind, stream, began, stream.count)
        for name, value in more.items():
            setattr(command, name, value)
        # Reading: records, waits and host functions have no latency.
        latency = 0 if kind in SETTLED else self.machine.launch_latency_ns
        command.earliest_ns = command.enqueued_ns + latency
        stream.queue.append(command)
        stream.last = command
        return command

    def enqueue(self, kind, op, submit_ns=None, **more):
        stream = self.streams[op["stream"]]
        began = self.now
        self.make_room([stream])
        self.call(kind, submit_ns)
        return self.append(kind, stream, began, **more)

    def wait_for(self, kind, commands):
        self.run_until(self.now)
        began = self.now
        self.block(commands)
        self.played.syncs.append((kind, began, self.now))

    def query(self, kind, commands):
        """Answers for the moment at which the call begins."""
        self.run_until(self.now)
        began, done = self.now, all(c.finish_ns is not None for c in commands)
        self.call("query")
        self.played.answers.append(done)
        if not done:
            self.denied.append((began, commands))
        elif commands or kind == "stream":
            self.played.syncs.append((kind, began, self.now))  # rule 7

    def instant(self, kind, stream):
        """What happens at the host's clock, in no queue."""
        began = self.now
        self.call(kind)
        command = self.new_command(kind, stream, began, 0)
        command.ready_ns = command.start_ns = command.finish_ns = self.now

    def touch(self, op, kind, mode):
        began = self.now
        self.now += max(1, op.get("ns") or 0)
        command = self.new_command(kind, None, began, 0)
        command.ready_ns = command.start_ns = began
        command.finish_ns = self.now
        command.accesses = ((op["buffer"], op["lo"], op["hi"], mode),)

    # --- operations ---

    def do_kernel(self, op):
        moved = op.get("read", 0) + op.get("written", 0)
        cost = self.costs.kernel(op.get("flops", 0), moved, op.get("unit"), op.get("dtype"),
                                 op.get("ns"))
        self.enqueue("kernel", op, op.get("submit_ns"), cost=cost,
                     accesses=tuple(op.get("accesses", ())))

    def do_fill(self, op):
        buffer, lo, hi = op["to"]
        self.enqueue("fill", op, cost=self.costs.kernel(0, hi - lo),
                     accesses=((buffer, lo, hi, "w"),))

    def do_copy(self, op):
        (to, to_lo), (source, lo), moved = op["to"], op["from"], op["bytes"]
        ends = self.buffers[to][0], self.buffers[source][0]
        self.enqueue("copy", op, cost=self.costs.copy(ends, moved), ends=ends,
                     accesses=((source, lo, lo + moved, "r"), (to, to_lo, to_lo + moved, "w")))
        if moved > 0 and ends == (None, None):  # rule 17: between host memory, synchronous
            self.do_sync_stream(op)

    def do_hostfn(self, op):
        self.enqueue("hostfn", op, accesses=tuple(op.get("accesses", ())))

    def do_record(self, op):
        self.events[op["event"]] = self.enqueue("record", op)

    def do_wait(self, op):
        self.enqueue("wait", op, awaits=self.events.get(op["event"]))

    def do_collective(self, op):
        streams = [self.streams[s] for s in op["streams"]]
        piece = op.get("count", 0) * DTYPE_BYTES[op.get("dtype", "f32")]
        cost = self.costs.collective(op["kind"], [s.device for s in streams], piece)
        began = self.now
        self.make_room(streams)
        self.call("collective")  # Reading: one call, however many members
        group = Group([], cost)
        for rank, stream in enumerate(streams):
            group.members.append(self.append("collective", stream, began, cost=cost, group=group,
                                             accesses=collective_accesses(op, rank, piece)))

    def do_sync_event(self, op):
        if op["event"] in self.events:
            self.wait_for("event", [self.events[op["event"]]])
        else:
            self.call("query")  # Reading: an event that was never recorded costs what a query does

    def do_query_event(self, op):
        self.query("event", [self.events[op["event"]]] if op["event"] in self.events else [])

    def do_sync_stream(self, op):
        stream = self.streams[op["stream"]]
        self.wait_for("stream", [stream.last] if stream.last else [])

    def do_query_stream(self, op):
        stream = self.streams[op["stream"]]
        self.query("stream", [stream.last] if stream.last else [])

    def do_sync_device(self, op):
        self.wait_for("device", [s.last for s in self.streams
                                 if s.device == op["device"] and s.last])

    def do_spend(self, op):
        self.now += op["ns"]

    def do_alloc(self, op):
        self.instant("alloc", self.streams[op["stream"]] if "stream" in op else None)

    def do_free(self, op):
        self.instant("free", self.streams[op["stream"]] if "stream" in op else None)

    def do_write(self, op):
        self.touch(op, "hostwrite", "w")

    def do_read(self, op):
        self.touch(op, "hostread", "r")

    def find_ties(self):
        """What the documents leave open: which of two things in one ns is first."""
        for began, commands in self.denied:
            # A device that nobody can disturb runs ahead of the host: then the answer is yes.
            if max(c.finish_ns for c in commands) == began:
                self.played.ties.add("run-ahead")
        starts = {}
        for command in self.played.commands:
            if command.cost.work:
                starts.setdefault((command.device, command.start_ns), []).append(command)
        for (_, start), commands in starts.items():
            # One is over in less than half a ns if it runs alone: before the other starts?
            if len(commands) > 1 and any(c.finish_ns == start for c in commands):
                self.played.ties.add("two-starts")


def play(machine, streams, buffers, program, as_simulated=frozenset()):
    world = World(machine, streams, buffers, frozenset(as_simulated))
    for op in program:
        getattr(world, "do_" + op["op"])(op)
    world.played.now_ns = world.now
    world.run_until(NEVER)
    world.find_ties()
    return world.played


# --- numbers: who raced, who read what nobody had written ---

def collective_accesses(op, rank, piece):
    """What a member touches; `piece`: bytes of one rank's count."""
    if op["kind"] == "barrier":
        return ()
    ranks = len(op["streams"])
    reads = piece * (ranks if op["kind"] == "reduce_scatter" else 1)
    writes = piece * (ranks if op["kind"] == "all_gather" else 1)
    (source, lo, _), (target, to_lo, _) = op["input"][rank], op["output"][rank]
    read, write = (source, lo, lo + reads, "r"), (target, to_lo, to_lo + writes, "w")
    if op["kind"] == "broadcast" and rank != op["root"]:
        return (write,)
    if op["kind"] == "broadcast" and (source, lo) == (target, to_lo):
        return (read,)
    return (read, write)


def meet(one, other):
    """Two accesses touch a common byte, and one of them writes."""
    return (one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
            and "w" in (one[3], other[3]))


def conflict(one, other):
    return any(meet(a, b) for a in one.accesses for b in other.accesses)


def takes_time(command):
    return command.start_ns < command.finish_ns


def overlap(one, other):
    return one.start_ns < other.finish_ns and other.start_ns < one.finish_ns


def raced(command, others, as_simulated):
    """It read what was being written meanwhile, or wrote it, too. The writer of what is being read
    is innocent."""
    for other in others:
        if other is command or not overlap(command, other):
            continue
        if command.group and command.group is other.group:
            continue  # Reading: members meet in the collective alone
        if "no-time" in as_simulated and not (takes_time(command) and takes_time(other)):
            continue
        for theirs in other.accesses:
            if theirs[3] == "w" and any(meet(mine, theirs) for mine in command.accesses):
                return True
    return False


def judge(played, buffers, as_simulated=frozenset()):
    """Sets the status of every command that touches memory: "poisoned" if it raced or read an
    undefined byte, and for all members of a collective if one of them did. The order is that of the
    finishes; the host acts when its call begins, between what finishes and what starts."""
    undefined = {number: bytearray(b"\1" * size) for number, (_, size) in buffers.items()}
    acting = [c for c in played.commands if c.accesses]
    done = set()
    for command in sorted(acting, key=lambda c: (
            (c.start_ns, 1, c.id) if c.stream is None else
            (c.finish_ns, 0 if takes_time(c) else 2, c.id))):
        if command in done:
            continue
        together = command.group.members if command.group else [command]
        done.update(together)
        poison = any(raced(c, acting, as_simulated) for c in together) or any(
            mode == "r" and any(undefined[b][lo:hi])
            for c in together for b, lo, hi, mode in c.accesses)
        for member in together:
            member.status = "poisoned" if poison else "ok"
            for b, lo, hi, mode in member.accesses:
                if mode == "w":
                    undefined[b][lo:hi] = (b"\1" if poison else b"\0") * (hi - lo)
    for command in acting:
        for other in acting:
            if other is command or not conflict(command, other):
                continue
            if command.stream is None and command.start_ns <= other.start_ns < command.finish_ns:
                played.ties.add("host-access")
            if (not takes_time(command) and other.stream != command.stream
                    and command.start_ns in (other.start_ns, other.finish_ns)):
                played.ties.add("two-starts")
