"""What a stream program means, as plainly as it can be written: the model that
tests/differential_check.py holds `orrery check` to. Written from the description of the format
alone, without a look at the C code; everything is a dictionary, a list or a set, and nothing is
fast.

    verdict, pair = stream_program_model.judge(program)

`program` is the object `program` of a line; it must be well-formed as a whole (no unknown streams
or operations), but may be invalid at an operation.
"""
import re

ACCESS = re.compile(r"^([A-Za-z0-9_]+)(?:\[(\d+):(\d+)\])?$")
WHOLE = 1 << 200


def value(json):
    """Ranks and kinds are compared as JSON values: 1 and 1.0 are one, 1 and "1" are not."""
    return repr(int(json) if isinstance(json, float) and json == int(json) else json)


class Invalid(Exception):
    pass


class Found(Exception):
    pass


def parse(text):
    name, lo, hi = ACCESS.match(text).groups()
    return (name, 0, WHOLE) if lo is None else (name, int(lo), int(hi))


class Order:
    """Oracle hb."""

    def __init__(self, program):
        self.program = program
        self.streams = program["streams"]
        self.kinds = program.get("buffers", {})
        self.clocks = {}   # actor -> {actor: count}
        self.block = {}    # name -> block
        self.history = {}  # block -> [(name, lo, hi, is_write, stamp, op)]
        self.introduced = {}  # name -> (kind, stamp, op)
        self.ended = {}    # name -> (kind, op, clock)
        self.reused = set()
        self.recorded = {}  # name -> [stream]
        self.events, self.flags, self.serial = {}, {}, {}
        self.blocks = 0

    def clock(self, actor):
        return self.clocks.setdefault(actor, {})

    def join(self, actor, other):
        mine = self.clock(actor)
        for key, count in other.items():
            mine[key] = max(mine.get(key, 0), count)

    def blocking(self, stream):
        device = self.streams[stream]["dev"]
        return [name for name, info in self.streams.items()
                if info["dev"] == device and info["kind"] in ("bl", "ptds")]

    def is_legacy(self, stream):
        return self.streams[stream]["kind"] == "legacy"

    def block_of(self, name):
        if name not in self.block:
            self.new_block(name)
        return self.block[name]

    def new_block(self, name):
        self.blocks += 1
        self.block[name] = self.blocks

    @staticmethod
    def precedes(stamp, clock):
        return clock.get(stamp[0], 0) >= stamp[1]

    def check(self, access, is_write, clock, op):
        name, lo, hi = access
        if self.kinds.get(name) == "empty" or hi <= lo:
            return
        kind = self.introduced.get(name)
        if kind and kind[0] == "alloc_async" and not self.precedes(kind[1], clock):
            raise Found("use-before-alloc", kind[2], op)
        if name in self.ended:
            raise Found("use-after-free", self.ended[name][1], op)
        for other, low, high, wrote, stamp, index in self.history.get(self.block_of(name), []):
            if index == op or not (lo < high and low < hi) or not (wrote or is_write):
                continue
            if not self.precedes(stamp, clock):
                raise Found("race" if other == name else "use-after-free", index, op)

    def add(self, access, is_write, stamp, op):
        name, lo, hi = access
        if self.kinds.get(name) == "empty" or hi <= lo:
            return
        self.history.setdefault(self.block_of(name), []).append((name, lo, hi, is_write, stamp, op))

    def act(self, actor, reads, writes, op):
        clock = self.clock(actor)
        clock[actor] = clock.get(actor, 0) + 1
        for access in reads:
            self.check(access, False, clock, op)
        for access in writes:
            self.check(access, True, clock, op)
        stamp = (actor, clock[actor])
        for access in reads:
            self.add(access, False, stamp, op)
        for access in writes:
            self.add(access, True, stamp, op)
        return stamp

    def begin(self, host, stream):
        if self.is_legacy(stream):
            for name in self.blocking(stream):
                self.join(("s", stream), self.clock(("s", name)))
        self.join(("s", stream), self.clock(("h", host)))

    def end(self, stream):
        if self.is_legacy(stream):
            for name in self.blocking(stream):
                self.join(("s", name), self.clock(("s", stream)))

    def stream_action(self, host, stream, reads, writes, op):
        self.begin(host, stream)
        stamp = self.act(("s", stream), reads, writes, op)
        self.end(stream)
        return stamp

    def host_waits(self, host, stream):
        self.join(("h", host), self.clock(("s", stream)))
        if self.is_legacy(stream):
            for name in self.blocking(stream):
                self.join(("h", host), self.clock(("s", name)))

    def legacy_of(self, device):
        return next(name for name, info in self.streams.items()
                    if info["dev"] == device and info["kind"] == "legacy")

    def is_host(self, name):
        return self.kinds.get(name) in ("pinned", "pageable")

    def introduce(self, name, kind, op):
        if name in self.introduced or name in self.ended:
            raise Invalid
        self.introduced[name] = (kind, None, op)

    def reuse(self, name, ender):
        if name not in self.ended or self.ended[name][0] != ender or name in self.reused:
            raise Invalid
        self.reused.add(name)
        return self.block_of(name), self.ended[name][2]

    def finish(self, name, kind, op, clock=None):
        self.ended[name] = (kind, op, clock)

    def step(self, i, op):
        kind, host = op["op"], op.get("host", "h")
        stream, actor = op.get("stream"), ("h", host)
        reads = [parse(text) for text in op.get("reads", [])]
        writes = [parse(text) for text in op.get("writes", [])]
        if kind in ("kernel", "hostfn", "memset"):
            self.stream_action(host, stream, reads, writes, i)
        elif kind in ("coll", "send", "recv"):
            key = (op["comm"], host)
            serial = self.program.get("nccl_serial", False)
            if serial and key in self.serial:
                self.join(("s", stream), self.serial[key])
            self.stream_action(host, stream, reads, writes, i)
            if serial:
                self.serial[key] = dict(self.clock(("s", stream)))
        elif kind == "memcpy":
            source, target = reads[0][0], writes[0][0]
            if (self.kinds.get(source) == "pageable" and not self.is_host(target)
                    and self.program.get("pageable", "strict") == "staged"):
                self.act(actor, reads, [], i)
                self.stream_action(host, stream, [], writes, i)
            else:
                self.stream_action(host, stream, reads, writes, i)
                if self.is_host(source) and self.is_host(target):
                    self.join(actor, self.clock(("s", stream)))
        elif kind == "memcpy_sync":
            legacy = self.legacy_of(op.get("dev", 0))
            source, target = reads[0][0], writes[0][0]
            if self.kinds.get(source) == "pageable" and not self.is_host(target):
                self.host_waits(host, legacy)
                self.act(actor, reads, [], i)
                self.stream_action(host, legacy, [], writes, i)
            else:
                self.stream_action(host, legacy, reads, writes, i)
                if self.is_host(source) or self.is_host(target):
                    self.join(actor, self.clock(("s", legacy)))
        elif kind == "memset_sync":
            legacy = self.legacy_of(op.get("dev", 0))
            self.stream_action(host, legacy, [], writes, i)
            if self.kinds.get(writes[0][0]) in ("pinned", "managed"):
                self.join(actor, self.clock(("s", legacy)))
        elif kind == "host_read":
            self.act(actor, reads, [], i)
        elif kind == "host_write":
            self.act(actor, [], writes, i)
        elif kind == "record":
            self.join(("s", stream), self.clock(actor))
            content = dict(self.clock(("s", stream)))
            if self.is_legacy(stream):
                for name in self.blocking(stream):
                    for key, count in self.clock(("s", name)).items():
                        content[key] = max(content.get(key, 0), count)
            self.events[op["event"]] = content
        elif kind == "wait":
            if not op.get("ignored") and op["event"] in self.events:
                self.begin(host, stream)
                self.join(("s", stream), self.events[op["event"]])
                self.end(stream)
        elif kind in ("sync_event", "query_ok"):
            self.join(actor, self.events.get(op["event"], {}))
        elif kind in ("sync_stream", "stream_query_ok"):
            self.host_waits(host, stream)
        elif kind == "sync_device":
            for name, info in self.streams.items():
                if info["dev"] == op.get("dev", 0):
                    self.join(actor, self.clock(("s", name)))
        elif kind in ("event_create", "event_destroy"):
            self.events.pop(op["event"], None)
        elif kind == "notify":
            self.act(actor, [], [], i)
            self.flags[op["flag"]] = dict(self.clock(actor))
        elif kind == "await":
            if op["flag"] not in self.flags:
                raise Invalid
            self.join(actor, self.flags[op["flag"]])
        elif kind in ("alloc", "alloc_async", "alias", "free", "free_async", "cuda_free",
                      "host_free", "record_stream"):
            self.memory(i, kind, op, host, stream)
        else:
            assert kind in ("view", "group_start", "group_end", "stream_create",
                            "stream_destroy"), kind

    def memory(self, i, kind, op, host, stream):
        name, actor = op["buf"], ("h", host)
        if kind == "record_stream":
            self.recorded.setdefault(name, []).append(stream)
            return
        if kind == "alias":
            self.introduce(name, kind, i)
            self.block[name] = self.block_of(op["of"])
            return
        if kind in ("alloc", "alloc_async"):
            # the name's own block until now must be made before it is replaced
            self.introduce(name, kind, i)
            clock = {}
            if op.get("reuse") is not None:
                block, clock = self.reuse(op["reuse"],
                                          "free" if kind == "alloc" else "free_async")
                self.block[name] = block
            else:
                self.new_block(name)
            if kind == "alloc":
                self.join(actor, clock)
            else:
                self.join(("s", stream), clock)
                stamp = self.stream_action(host, stream, [], [], i)
                self.introduced[name] = (kind, stamp, i)
            return
        if name in self.ended:
            raise Invalid
        if kind == "free":
            clock = dict(self.clock(actor))
            for recorded in self.recorded.get(name, []):
                for key, count in self.clock(("s", recorded)).items():
                    clock[key] = max(clock.get(key, 0), count)
            self.finish(name, kind, i, clock)
        elif kind == "free_async":
            if self.introduced.get(name, ("",))[0] != "alloc_async":
                raise Invalid
            self.begin(host, stream)
            clock = self.clock(("s", stream))
            clock[("s", stream)] = clock.get(("s", stream), 0) + 1
            stamp, index = self.introduced[name][1:]
            if not self.precedes(stamp, clock):
                raise Found("use-before-alloc", index, i)
            self.leftover(name, clock, i)
            self.end(stream)
            self.finish(name, kind, i, dict(clock))
        else:
            self.leftover(name, self.clock(actor), i)
            self.finish(name, kind, i)

    def leftover(self, name, clock, op):
        for other, _, _, _, stamp, index in self.history.get(self.block_of(name), []):
            if other == name and not self.precedes(stamp, clock):
                raise Found("use-after-free", index, op)

    def judge(self):
        try:
            for i, op in enumerate(self.program["ops"]):
                self.step(i, op)
        except Invalid:
            return "invalid", None
        except Found as found:
            kind, a, b = found.args
            return kind, [a, b]
        return "no-race", None


class Hang:
    """Oracle hang: every reachable state. A state is a tuple of hashable parts:

    pcs       next call of each host
    queues    entries ever added to each stream: (what, dependencies, members, body, id)
    done      finished entries of each stream
    progress  of each stream's first unfinished entry: steps of its body, or 1 = started
    events    (event, ((stream, n), ...)) sorted
    locks     (lock, owner), flags, numbers, groups (host, depth, kept), started members
    """
    LIMIT = 20000

    def __init__(self, program):
        self.program = program
        self.streams = list(program["streams"])
        self.info = program["streams"]
        self.comms = program.get("comms", {})
        self.slots = program.get("slots", 99)
        self.depth = program.get("queue_depth")
        self.calls = {}
        for i, op in enumerate(program["ops"]):
            self.calls.setdefault(op.get("host", "h"), []).append((i, op))
        self.hosts = list(self.calls)

    def blocking(self, stream):
        return [name for name in self.streams if self.info[name]["dev"] == self.info[stream]["dev"]
                and self.info[name]["kind"] in ("bl", "ptds")]

    def cover(self, queues, stream):
        names = [stream]
        if self.info[stream]["kind"] == "legacy":
            names += self.blocking(stream)
        return tuple((name, len(queues[name])) for name in names)

    def rules(self, queues, stream):
        kind, device = self.info[stream]["kind"], self.info[stream]["dev"]
        if kind == "legacy":
            return tuple((name, len(queues[name])) for name in self.blocking(stream))
        if kind in ("bl", "ptds"):
            return tuple((name, len(queues[name])) for name in self.streams
                         if self.info[name] == {"dev": device, "kind": "legacy"})
        return ()

    def start_state(self):
        return dict(pcs={h: 0 for h in self.hosts}, queues={s: () for s in self.streams},
                    done={s: 0 for s in self.streams}, progress={s: 0 for s in self.streams},
                    events={}, locks={}, flags=frozenset(), numbers={}, groups={}, started={})

    @staticmethod
    def freeze(state):
        parts = []
        for key in sorted(state):
            value = state[key]
            if isinstance(value, dict):
                value = tuple(sorted(value.items(), key=repr))
            parts.append(value)
        return tuple(parts)

    @staticmethod
    def copy(state):
        return {key: dict(value) if isinstance(value, dict) else value
                for key, value in state.items()}

    def met(self, state, points):
        return all(state["done"][name] >= n for name, n in points)

    def empty(self, state, stream):
        return self.met(state, self.cover(state["queues"], stream))

    def room(self, state, stream):
        held = len(state["queues"][stream]) - state["done"][stream]
        return self.depth is None or held < self.depth

    def push(self, state, stream, what, extra=(), members=(), body=(), index=None):
        queue = state["queues"][stream]
        points = tuple(sorted(set(self.rules(state["queues"], stream) + tuple(extra))))
        state["queues"][stream] = queue + ((what, points, members, body, index),)

    def number(self, state, key):
        n = state["numbers"].get(key, 0)
        state["numbers"][key] = n + 1
        return n

    def member(self, state, op, host):
        rank = value(host if op.get("rank") is None else op["rank"])
        comm = op["comm"]
        if op["op"] == "coll":
            n = self.number(state, ("coll", comm, rank))
            count = op.get("count")
            count = 1 if count is None else count
            return ("coll", comm, rank, n, value(op.get("kind")), value(count))
        peer = value(op["peer"])
        n = self.number(state, (op["op"], comm, rank, peer))
        return (op["op"], comm, rank, peer, n)

    def host_step(self, state, host):
        """The state after the host's next call, None if it is blocked."""
        index, op = self.calls[host][state["pcs"][host]]
        kind, stream = op["op"], op.get("stream")
        after = self.copy(state)
        after["pcs"][host] += 1
        depth, kept = state["groups"].get(host, (0, ()))
        if kind in ("kernel", "memcpy", "memset", "hostfn"):
            if not self.room(state, stream):
                return None
            body = tuple(tuple(step) for step in op.get("body", ())) if kind == "hostfn" else ()
            self.push(after, stream, "work", body=body, index=index)
        elif kind in ("coll", "send", "recv"):
            if depth == 0 and not self.room(state, stream):
                return None
            member = self.member(after, op, host)
            if depth == 0:
                self.push(after, stream, "comm", members=(member,), index=index)
            else:
                after["groups"][host] = (depth, kept + ((stream, member),))
        elif kind == "group_start":
            after["groups"][host] = (depth + 1, kept)
        elif kind == "group_end":
            after["groups"][host] = (depth - 1, kept if depth > 1 else ())
            if depth == 1:
                order = list(dict.fromkeys(stream for stream, _ in kept))
                if not all(self.room(state, name) for name in order):
                    return None
                for name in order:
                    self.push(after, name, "comm", index=index,
                              members=tuple(m for s, m in kept if s == name))
        elif kind == "record":
            after["events"][op["event"]] = self.cover(state["queues"], stream)
        elif kind == "wait":
            if not op.get("ignored") and op["event"] in state["events"]:
                if not self.room(state, stream):
                    return None
                self.push(after, stream, "wait", extra=state["events"][op["event"]], index=index)
        elif kind == "sync_stream":
            if not self.empty(state, stream):
                return None
        elif kind == "sync_event":
            if not self.met(state, state["events"].get(op["event"], ())):
                return None
        elif kind in ("sync_device", "implicit_sync"):
            devices = op.get("devs")
            devices = [op.get("dev", 0)] if devices is None else devices
            for name in self.streams:
                if (self.info[name]["dev"] in devices
                        and state["done"][name] < len(state["queues"][name])):
                    return None
        elif kind == "lock":
            if op["lock"] in state["locks"]:
                return None
            after["locks"][op["lock"]] = ("host", host)
        elif kind == "unlock":
            if state["locks"].get(op["lock"]) == ("host", host):
                del after["locks"][op["lock"]]
        elif kind == "notify":
            after["flags"] = state["flags"] | {op["flag"]}
        elif kind == "await":
            if op["flag"] not in state["flags"]:
                return None
        else:
            assert kind in ("alloc", "free", "record_stream", "host_read", "host_write"), kind
        return after

    def ranks(self, comm):
        return [value(rank) for rank in self.comms[comm]]

    def matched(self, state, member):
        started = state["started"]
        if member[0] == "coll":
            _, comm, rank, n, kind, count = member
            for other in self.ranks(comm):
                if ("coll", comm, other, n) not in started:
                    return False
            return True
        what, comm, rank, peer, n = member
        return ("recv" if what == "send" else "send", comm, peer, rank, n) in started

    def mismatches(self, state):
        seen = {}
        for key, value in state["started"].items():
            if key[0] == "coll" and key[2] in self.ranks(key[1]):
                if seen.setdefault((key[1], key[3]), value) != value:
                    return True
        return False

    def stream_step(self, state, stream):
        queue, done = state["queues"][stream], state["done"][stream]
        if done == len(queue):
            return None
        what, points, members, body, _ = queue[done]
        progress = state["progress"][stream]
        if not self.met(state, points):
            return None
        after = self.copy(state)
        if what == "comm" and progress == 0:
            device = self.info[stream]["dev"]
            running = sum(1 for name in self.streams if self.info[name]["dev"] == device
                          and state["done"][name] < len(state["queues"][name])
                          and state["queues"][name][state["done"][name]][0] == "comm"
                          and state["progress"][name] == 1)
            if running >= self.slots:
                return None
            after["progress"][stream] = 1
            for member in members:
                if member[0] == "coll":
                    after["started"][member[:4]] = member[4:]
                else:
                    after["started"][member] = ()
            return after
        if what == "comm":
            if not all(self.matched(state, member) for member in members):
                return None
        elif progress < len(body):
            step, name = body[progress]
            owner = ("fn", stream, done)
            if step == "lock":
                if name in state["locks"]:
                    return None
                after["locks"][name] = owner
            elif step == "unlock":
                if state["locks"].get(name) == owner:
                    del after["locks"][name]
            elif not self.empty(state, name):
                return None
            after["progress"][stream] += 1
            return after
        after["done"][stream] += 1
        after["progress"][stream] = 0
        return after

    def judge(self):
        start = self.start_state()
        todo, seen, hang = [start], {self.freeze(start)}, False
        while todo:
            state = todo.pop()
            if self.mismatches(state):
                return "mismatch", None
            after = [self.host_step(state, host) for host in self.hosts
                     if state["pcs"][host] < len(self.calls[host])]
            after += [self.stream_step(state, stream) for stream in self.streams]
            after = [following for following in after if following is not None]
            if not after:
                hang = hang or any(state["pcs"][h] < len(self.calls[h]) for h in self.hosts)
                hang = hang or any(state["done"][s] < len(state["queues"][s])
                                   for s in self.streams)
            for following in after:
                key = self.freeze(following)
                if key not in seen:
                    seen.add(key)
                    todo.append(following)
            if len(seen) > self.LIMIT:
                return "unknown", None
        return "hang" if hang else "no-hang", None


class Capture:
    """Oracle capture."""

    def __init__(self, program):
        self.program = program
        self.info = program["streams"]
        self.mode = program.get("capture_mode") or "global"
        self.active = {}   # capture -> (origin, host)
        self.of = {}       # stream -> capture
        self.before = {}   # stream -> set of captured actions (stream, n)
        self.actions = {}  # stream -> [actions in this capture]
        self.events = {}
        self.count = 0

    def forbidden(self, host):
        if self.mode == "global":
            return bool(self.active)
        if self.mode == "thread_local":
            return any(owner == host for _, owner in self.active.values())
        return False

    def captured_action(self, stream, i):
        self.before[stream].add((stream, i))
        self.actions[stream].append((stream, i))

    def join(self, stream, capture):
        self.of[stream] = capture
        self.before[stream] = set()
        self.actions[stream] = []

    def step(self, i, op):
        """True: an error."""
        kind, stream, host = op["op"], op.get("stream"), op.get("host", "h")
        legacy = stream is not None and self.info.get(stream, {}).get("kind") == "legacy"
        if kind == "capture_begin":
            if legacy or stream in self.of:
                return True
            self.count += 1
            self.active[self.count] = (stream, host)
            self.join(stream, self.count)
        elif kind == "capture_end":
            capture = self.of.get(stream)
            if capture is None or self.active[capture][0] != stream:
                return True
            if self.active[capture][1] != host and self.mode != "relaxed":
                return True
            for other, its in list(self.of.items()):
                if its == capture and any(a not in self.before[stream]
                                          for a in self.actions[other]):
                    return True
            for other in [name for name, its in self.of.items() if its == capture]:
                del self.of[other], self.before[other], self.actions[other]
            del self.active[capture]
        elif kind == "record":
            self.events[op["event"]] = (self.of.get(stream), set(self.before.get(stream, ())))
        elif kind == "wait":
            if op.get("ignored") or op["event"] not in self.events:
                return False
            capture, before = self.events[op["event"]]
            if capture is None:
                return stream in self.of
            if capture not in self.active:
                return True
            if self.of.get(stream, capture) != capture:
                return True
            if stream not in self.of:
                if legacy:
                    return True
                self.join(stream, capture)
            self.before[stream] |= before
            self.captured_action(stream, i)
        elif kind in ("kernel", "memcpy", "memset", "hostfn", "coll", "send", "recv"):
            if legacy:
                return any(self.info[name]["kind"] in ("bl", "ptds")
                           and self.info[name]["dev"] == self.info[stream]["dev"]
                           for name in self.of)
            if stream in self.of:
                self.captured_action(stream, i)
        elif kind in ("sync_event", "event_query"):
            if self.events.get(op["event"], (None,))[0] is not None:
                return True
            return self.forbidden(host)
        elif kind == "cuda_malloc":
            return self.forbidden(host)
        elif kind == "sync_stream":
            return stream in self.of
        else:
            assert kind == "graph_launch", kind
        return False

    def judge(self):
        for i, op in enumerate(self.program["ops"]):
            if self.step(i, op):
                return "error", [None, i]
        return "no-error", None


def judge(program):
    oracle = program.get("oracle") or "hb"
    return {"hb": Order, "hang": Hang, "capture": Capture}[oracle](program).judge()
