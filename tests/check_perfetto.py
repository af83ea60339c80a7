#!/usr/bin/env python3
"""Strict checker of the Perfetto files that Orrery writes.

    tests/check_perfetto.py FILE.json [--db RUN.db] [--analysis ANALYSIS.json]
                            [--again FILE.json] [--gz FILE.json.gz] ...
    tests/check_perfetto.py --batch LIST      one such command line per line of LIST

The checks have numbers, as in docs/perfetto.md: 1-5 the file, 6-15 its events, 16-22 its arrows,
23-30 against the database (exact to the nanosecond) that it was exported from. It reads
nothing of Orrery's own code: bytes by a strict parser of its own, the database through its
contract's tables, and what must be where is worked out again in tests/perfetto_model.py.

    --db        the database; without it checks 9 and 23-30 are left out
    --analysis  what `orrery analyze --json` printed for it; without it check 27 is left out
    --again     a second export of the same: must be equal, byte for byte (29)
    --gz        a compressed export of the same: without name and time, and equal inside (29)

Prints "FILE: check N: what is wrong" for every check that fails; the exit status is 1 if one did.
Check 31, that each of them can fail, is tests/check_perfetto_mutations.py.
"""

import collections
import gzip
import re
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
sys.dont_write_bytecode = True

import perfetto_model  # noqa: E402

INT64 = range(-(2**63), 2**63)
TIME = re.compile(r"(0|[1-9][0-9]*)\.[0-9]{3}")
INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
DOUBLE = re.compile(r"-?[0-9]\.[0-9]{16}e[+-][0-9]+")
LIMIT_NS = 2**52

COUNTS = ("slices", "arrows", "counters", "arrows_left_out", "slices_left_out", "unfinished",
          "never_started")
ARROWS = ("enqueue", "event", "event-done", "sync", "reuse", "finding")
# Keys of each event, in order; what another check looks after is not among them.
KEYS = {
    "M": ("ph", "pid", "tid", "name", "args"),
    "X": ("ph", "pid", "tid", "ts", "dur", "name", "cat", "args"),
    "s": ("ph", "pid", "tid", "ts", "id", "name", "cat"),
    "f": ("ph", "pid", "tid", "ts", "id", "name", "cat"),
    "C": ("ph", "pid", "ts", "name", "args"),
}
NEVER_PHASES = "BEbentiIRNOD"
NEVER_KEYS = ("bind_id", "flow_in", "flow_out", "id2", "scope", "tts", "tdur")
ARGS_ORDER = (
    "cmd", "cmds", "what", "op", "kind", "site", "dtype", "shape", "flops", "bytes_read",
    "bytes_written", "ready_ns", "ts_source", "collective", "communicator", "seq", "algorithm",
    "protocol", "emulated", "modelled_ns", "correlation", "graph", "grid",
    "unfinished", "why", "id", "severity", "message",
    "cmd_a", "cmd_b", "fix")


class Broken(Exception):
    """The file can't be read on: what follows would be noise."""


class Number(str):
    """A number as it stands in the file."""

    def __eq__(self, other):
        return isinstance(other, Number) and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def is_integer(self):
        return INTEGER.fullmatch(self) is not None


class Report:
    """Problems by check; of each check only the first few are kept."""

    def __init__(self):
        self.problems = {}

    def __call__(self, check, text):
        found = self.problems.setdefault(check, [])
        if len(found) < 5:
            found.append(text)

    def lines(self):
        for check in sorted(self.problems):
            for text in self.problems[check]:
                yield "check %d: %s" % (check, text)


# --------------------------------------------------------------------------------------------------
# JSON

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[{}\[\]:,]|[a-zA-Z]+', re.DOTALL)
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
SIMPLE = {"\\\"": '"', "\\\\": "\\"}


class Parser:
    """A strict reader of one line of JSON without blanks."""

    def __init__(self, text, where, report):
        self.text, self.where, self.report, self.at = text, where, report, 0

    def fail(self, what):
        self.report(1, "%s, column %d: %s" % (self.where, self.at + 1, what))
        raise Broken

    def token(self):
        match = TOKEN.match(self.text, self.at)
        if not match:
            self.fail("not JSON: %r" % self.text[self.at:self.at + 20])
        self.at = match.end()
        return match.group()

    def document(self):
        value = self.value(self.token())
        if self.at != len(self.text):
            self.fail("more than one value: %r" % self.text[self.at:self.at + 20])
        return value

    def value(self, token):
        first = token[0]
        if first == "{":
            return self.object()
        if first == "[":
            return self.array()
        if first == '"':
            return self.string(token)
        if token in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token]
        if not NUMBER.fullmatch(token):
            self.fail("not a value: %r" % token)
        return Number(token)

    def object(self):
        members = {}
        token = self.token()
        while token != "}":
            if token[0] != '"':
                self.fail("a key was expected, not %r" % token)
            key = self.string(token)
            if key in members:
                self.fail("key %r twice in one object" % key)
            if self.token() != ":":
                self.fail("':' was expected")
            members[key] = self.value(self.token())
            token = self.token()
            if token == ",":
                token = self.token()
                if token == "}":
                    self.fail("a comma before '}'")
            elif token != "}":
                self.fail("',' or '}' was expected, not %r" % token)
        return members

    def array(self):
        items = []
        token = self.token()
        while token != "]":
            items.append(self.value(token))
            token = self.token()
            if token == ",":
                token = self.token()
                if token == "]":
                    self.fail("a comma before ']'")
            elif token != "]":
                self.fail("',' or ']' was expected, not %r" % token)
        return items

    def string(self, token):
        text = token[1:-1]
        if re.search("[\x00-\x1f]", text):
            self.report(4, "%s: a raw control byte in %r" % (self.where, text))
        return ESCAPE.sub(self.unescape, text) if "\\" in text else text

    def unescape(self, match):
        escape = match.group()
        if escape in SIMPLE:
            return SIMPLE[escape]
        if re.fullmatch(r"\\u00[01][0-9a-f]", escape) and escape != "\\u0000":
            return chr(int(escape[2:], 16))
        self.report(4, "%s: escape %s" % (self.where, escape))
        return "\ufffd"


class Event:
    """One line of traceEvents."""

    def __init__(self, number, members):
        self.number = number  # of the line in the file
        self.members = members
        self.ph = members.get("ph")
        self.pid = self.integer("pid")
        self.tid = self.integer("tid")
        self.ts = self.time("ts")
        self.dur = self.time("dur")
        self.id = self.integer("id")
        self.name = members.get("name")
        self.cat = members.get("cat")
        self.args = members.get("args")

    def integer(self, key):
        value = self.members.get(key)
        return int(value) if isinstance(value, Number) and value.is_integer() else None

    def time(self, key):
        """In ns; what isn't written as a time is taken for what it may have meant."""
        value = self.members.get(key)
        if isinstance(value, Number) and TIME.fullmatch(value):
            return int(value.replace(".", ""))
        try:
            return round(float(value) * 1000)
        except (TypeError, ValueError, OverflowError):
            return 0

    def __str__(self):
        return "line %d (%s %r, pid %s, tid %s)" % (self.number, self.ph, self.name, self.pid,
                                                    self.tid)

    def place(self):
        return self.pid, self.tid, self.ts


# --------------------------------------------------------------------------------------------------
# 1-5: the file

HEAD = re.compile(r'\{"displayTimeUnit":.*\[')


def split_lines(data, report):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        report(1, "not UTF-8 at byte %d" % error.start)
        raise Broken from None
    if text.startswith("\ufeff"):
        report(1, "a byte order mark")
        text = text[1:]
    if "\r" in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        report(1, "a carriage return outside a string")
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) < 2 or lines[-1] != "]}":
        report(1, "the last line is not ]}")
        raise Broken
    return lines


def read_events(lines, report):
    events = []
    last = len(lines) - 2
    for number in range(1, last + 1):
        line, where = lines[number], "line %d" % (number + 1)
        if line.endswith(",") != (number < last):
            report(1, "%s: %s" % (where, "a comma after the last event" if number == last else
                                  "no comma after the event"))
        members = Parser(line.removesuffix(","), where, report).document()
        if not isinstance(members, dict) or not members:
            report(22, "%s is no event: %r" % (where, line))
            continue
        events.append(Event(number + 1, members))
    return events


def check_head(lines, report):
    if not HEAD.fullmatch(lines[0]):
        report(2, "line 1 does not begin with displayTimeUnit or does not end with [")
    head = Parser(lines[0] + "]}", "line 1", report).document()
    if not isinstance(head, dict) or list(head) != ["displayTimeUnit", "metadata", "traceEvents"]:
        report(2, "the keys are not displayTimeUnit, metadata, traceEvents")
        raise Broken
    if head["displayTimeUnit"] != "ns":
        report(2, "displayTimeUnit is %r" % (head["displayTimeUnit"],))
    if head["traceEvents"] != []:
        report(1, "an event on line 1")
    return head["metadata"]


def count_events(events):
    return {
        "slices": sum(e.ph == "X" for e in events),
        "arrows": sum(e.ph == "s" for e in events),
        "counters": sum(e.ph == "C" for e in events),
    }


def check_metadata(metadata, events, report):
    if not isinstance(metadata, dict):
        report(3, "metadata is no object")
        return {}
    for key, value in metadata.items():
        if not re.fullmatch("[a-z0-9_]+", key):
            report(3, "key %r" % key)
        if isinstance(value, Number):
            if not value.is_integer() or int(value) not in INT64:
                report(3, "%s is no int64: %s" % (key, value))
        elif not isinstance(value, str):
            report(3, "%s is neither a string nor an integer" % key)
    t0_ns = metadata.get("t0_ns")
    if isinstance(t0_ns, Number) or not INTEGER.fullmatch(t0_ns or ""):
        report(3, "t0_ns is %r, not an integer as a string" % (t0_ns,))
    for key in COUNTS:
        if not isinstance(metadata.get(key), Number):
            report(3, "no number %s" % key)
    for key, count in count_events(events).items():
        if metadata.get(key) != Number(count):
            report(3, "%s is %s, the file has %d" % (key, metadata.get(key), count))
    return metadata


def all_numbers(value):
    if isinstance(value, Number):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from all_numbers(member)
    elif isinstance(value, list):
        for item in value:
            yield from all_numbers(item)


def check_numbers(events, report):
    for event in events:
        for key, value in event.members.items():
            if key in ("ts", "dur"):
                if not isinstance(value, Number) or not TIME.fullmatch(value):
                    report(5, "%s: %s is %r" % (event, key, value))
                continue
            for number in all_numbers(value):
                integer = number.is_integer() and int(number) in INT64
                if not integer and not DOUBLE.fullmatch(number):
                    report(5, "%s: number %s in %s" % (event, number, key))


# --------------------------------------------------------------------------------------------------
# 6-15: events


def check_keys(events, report):
    for event in events:
        if event.ph not in KEYS:
            check = 22 if isinstance(event.ph, str) and event.ph in NEVER_PHASES else 6
            report(check, "%s: phase" % event)
            continue
        others = {"s": ("bp",), "f": ("bp",), "C": ("tid",)}.get(event.ph, ()) + NEVER_KEYS
        keys = tuple(key for key in event.members if key not in others)
        if keys != KEYS[event.ph]:
            report(6, "%s: keys %s, not %s" % (event, " ".join(keys), " ".join(KEYS[event.ph])))
        if event.ph == "f" and "bp" in event.members and list(event.members)[1] != "bp":
            report(6, "%s: bp is not behind ph" % event)


def track_kind(pid, tid):
    """What the track table says of a thread, None if it has none such."""
    top = 2**31 - 1
    if pid is None or tid is None or not 0 < pid <= top or not 0 < tid <= top:
        return None
    if pid != 1 and pid < 10:
        return None
    if tid < 1000:
        return {1: "phases", 2: "findings"}.get(tid) if pid != 1 else None
    kind = {0: "main", 1: "marks", 2: "graphs"}.get(tid % 1000, "overlap")
    return None if pid == 1 and kind == "graphs" else kind


def is_process_name(event):
    return event.ph == "M" and event.name in ("process_name", "process_sort_index")


def check_tracks(events, report):
    for event in events:
        if event.ph == "C" or is_process_name(event):
            known = event.pid is not None and (event.pid == 1 or 10 <= event.pid < 2**31)
        else:
            known = track_kind(event.pid, event.tid) is not None
        if not known:
            report(7, "%s: no such track" % event)


def process_name_fits(pid, name):
    if pid == 1:
        return name == "Hosts"
    return re.fullmatch(r"Device %d( \(.+\))?" % (pid - 10), name, re.DOTALL) is not None


def thread_name_fits(names, pid, tid, name):
    kind = track_kind(pid, tid)
    main = names.get((pid, tid // 1000 * 1000), "")
    return {
        "phases": name == "phases",
        "findings": name == "findings",
        "marks": name == main + " marks",
        "graphs": name == main + " graphs",
        "overlap": name == "%s overlap %d" % (main, tid % 1000 - 2),
    }.get(kind, True)


class Names:
    """The M events, by what they name."""

    def __init__(self, events, report):
        self.processes, self.threads, self.indexes = {}, {}, {}
        order = []
        for event in events:
            if event.ph == "M":
                order.append(self.add(event, report))
        if order != sorted(order):
            report(8, "M events are not in order of (pid, process before thread, tid)")

    def add(self, event, report):
        process = is_process_name(event)
        if not process and event.name not in ("thread_name", "thread_sort_index"):
            report(8, "%s: M names nothing" % event)
        key = "sort_index" if str(event.name).endswith("sort_index") else "name"
        if not isinstance(event.args, dict) or list(event.args) != [key]:
            report(8, "%s: args %r" % (event, event.args))
            return event.pid or 0, 0, 0, 0
        value = event.args[key]
        if process and event.tid != event.pid:
            report(8, "%s: tid of a process is its pid" % event)
        target = event.pid if process else (event.pid, event.tid)
        if key == "sort_index":
            wanted = (event.pid - 9 if event.pid != 1 else 0) if process else event.tid
            if value != Number(wanted):
                report(8, "%s: sort_index %r, not the number %s" % (event, value, wanted))
            self.once(self.indexes, target, value, event, report)
        else:
            if isinstance(value, Number) or not isinstance(value, str) or value == "":
                report(8, "%s: name %r" % (event, value))
                value = str(value)
            self.once(self.processes if process else self.threads, target, value, event, report)
        return event.pid or 0, not process, event.tid or 0, key == "sort_index"

    @staticmethod
    def once(names, target, value, event, report):
        if target in names:
            report(8, "%s: named twice" % event)
        names[target] = value


def check_names(events, report):
    others = [i for i, event in enumerate(events) if event.ph != "M"]
    if any(event.ph == "M" for event in events[others[0] if others else len(events):]):
        report(8, "an M event behind others")
    names = Names(events, report)
    used = {(e.pid, e.tid) for e in events if e.ph in ("X", "s", "f")}
    pids = {e.pid for e in events if e.ph in ("X", "s", "f", "C")} | {p for p, _ in names.threads}
    for pid in pids:
        if pid not in names.processes or pid not in names.indexes:
            report(8, "process %s lacks a name or an index" % pid)
    for track in used:
        if track not in names.threads or track not in names.indexes:
            report(8, "thread %s of process %s lacks a name or an index" % (track[1], track[0]))
    for track in set(names.threads) ^ {t for t in names.indexes if isinstance(t, tuple)}:
        report(8, "thread %s of process %s has one of name and index" % (track[1], track[0]))
    for (pid, tid), name in names.threads.items():
        if tid in (1, 2) or track_kind(pid, tid) in ("marks", "graphs", "overlap"):
            if (pid, tid) not in used:
                report(8, "thread %r of process %d is named but empty" % (name, pid))
        if not thread_name_fits(names.threads, pid, tid, name):
            report(8, "thread %d of process %d is called %r" % (tid, pid, name))
    for pid, name in names.processes.items():
        if not process_name_fits(pid, name):
            report(8, "process %d is called %r" % (pid, name))
    in_process = collections.Counter((pid, name) for (pid, _), name in names.threads.items())
    for (pid, name), count in in_process.items():
        if count > 1:
            report(8, "%d threads of process %d are called %r" % (count, pid, name))
    return names


def check_times(events, report):
    before = 0
    for event in events:
        if event.ph == "M":
            continue
        if not 0 <= event.ts < LIMIT_NS or event.ts + max(event.dur, 0) >= LIMIT_NS:
            report(10, "%s: ts %d ns, dur %d ns" % (event, event.ts, event.dur))
        if event.ts < before:
            report(10, "%s: %d ns behind %d ns" % (event, event.ts, before))
        before = event.ts


def order_at_time(event):
    if event.ph == "X" and event.dur > 0:
        return 0, -event.dur, event.pid or 0, event.tid or 0
    if event.ph == "X":
        return 1, event.pid or 0, event.tid or 0
    if event.ph in ("s", "f"):
        return 2 if event.ph == "s" else 3, event.id or 0
    return 4, event.pid or 0, str(event.name)


def check_order(events, report):
    before = None
    for event in events:
        if event.ph not in KEYS or event.ph == "M":
            continue
        if before and before.ts == event.ts and order_at_time(before) >= order_at_time(event):
            report(11, "%s does not come behind %s" % (event, before))
        before = event


def bad_value(value):
    if isinstance(value, (Number, str)):
        return False
    if isinstance(value, list) and value:
        numbers = [isinstance(item, Number) for item in value]
        texts = [isinstance(item, str) for item in value]
        return not all(texts) or (any(numbers) and not all(numbers))
    return True


def check_args(event, report):
    if not isinstance(event.args, dict):
        report(12, "%s: args are no object" % event)
        return
    for key, value in event.args.items():
        if not re.fullmatch("[a-z_]+", key) or bad_value(value):
            report(12, "%s: args.%s is %r" % (event, key, value))
        if isinstance(value, Number) and value.is_integer() and int(value) not in INT64:
            report(12, "%s: args.%s beyond int64" % (event, key))
    if all(key in ARGS_ORDER for key in event.args):
        places = [ARGS_ORDER.index(key) for key in event.args]
        if places != sorted(places):
            report(12, "%s: args in another order: %s" % (event, " ".join(event.args)))
    else:
        report(12, "%s: unknown args: %s" % (event, " ".join(event.args)))


def is_text(value):
    return isinstance(value, str) and not isinstance(value, Number) and value != ""


def check_slices(events, report):
    for event in events:
        if event.ph != "X":
            continue
        kind = track_kind(event.pid, event.tid)
        cat = {"phases": "phase", "findings": "finding"}.get(kind, "op")
        if not is_text(event.name) or event.cat != cat:
            report(12, "%s: name %r, cat %r, not %r" % (event, event.name, event.cat, cat))
        if event.dur < 0:
            report(12, "%s: dur %d ns" % (event, event.dur))
        check_args(event, report)
        if (event.dur == 0) != (kind in ("marks", "findings")):
            report(14, "%s: dur %d ns on a track of %s" % (event, event.dur, kind))


def check_flat(events, report):
    before = {}
    slices = [event for event in events if event.ph == "X"]
    for event in sorted(slices, key=lambda e: (e.ts, -e.dur)):
        last = before.get((event.pid, event.tid))
        if last and not (last.ts < event.ts and last.ts + last.dur <= event.ts):
            report(13, "%s starts inside or with %s" % (event, last))
        before[event.pid, event.tid] = event


def check_counters(events, report):
    seen, last = set(), {}
    for event in events:
        if event.ph != "C":
            continue
        args = event.args
        if "tid" in event.members or not is_text(event.name):
            report(15, "%s: a tid, or no name" % event)
        if not isinstance(args, dict) or list(args) != ["value"] or \
                not isinstance(args["value"], Number):
            report(15, "%s: args %r" % (event, args))
            continue
        series, value = (event.pid, event.name), args["value"]
        if (series, event.ts) in seen:
            report(15, "%s: two values at %d ns" % (event, event.ts))
        if last.get(series) == value:
            report(15, "%s: no change" % event)
        seen.add((series, event.ts))
        last[series] = value


# --------------------------------------------------------------------------------------------------
# 16-22: arrows


def check_ids(events, report):
    sources, ends, where = [], [], {}
    for event in events:
        if event.ph in ("s", "f"):
            (sources if event.ph == "s" else ends).append(event.id)
            where.setdefault((event.ph, event.id), event)
    wanted = list(range(1, len(sources) + 1))
    if sources != wanted:
        report(16, "ids of s are not 1..%d, in order, once each" % len(sources))
    if sorted(map(str, ends)) != sorted(map(str, wanted)):
        report(16, "ids of f are not 1..%d, once each" % len(sources))
    arrows = []
    for arrow in wanted:
        source, end = where.get(("s", arrow)), where.get(("f", arrow))
        if source and end:
            arrows.append((source, end))
            if source.number > end.number:
                report(16, "%s: f before its s" % end)
    return arrows


def check_arrow_fields(arrows, events, report):
    for event in events:
        if event.ph not in ("s", "f"):
            continue
        if event.cat != "op" or event.name not in ARROWS:
            report(17, "%s: cat %r" % (event, event.cat))
        if event.members.get("bp") != ("e" if event.ph == "f" else None):
            report(18, "%s: bp %r" % (event, event.members.get("bp")))
    for source, end in arrows:
        if source.name != end.name:
            report(17, "%s ends as %s" % (source, end))
        if source.ts > end.ts:
            report(20, "%s starts %d ns behind %s" % (source, source.ts - end.ts, end))


def check_binding(events, report):
    """19: the slice that is meant; 21: the slice that Perfetto binds to is the same."""
    meant = {}
    for event in events:
        if event.ph == "X":
            meant.setdefault((event.place(), event.cat), []).append(event)
    replayed = sorted(events, key=lambda e: (e.ts, 0, -e.dur) if e.ph == "X" and e.dur > 0 else
                      (e.ts, 1, 0))
    started = {}
    for event in replayed:
        if event.ph == "X":
            started[event.pid, event.tid] = event
        elif event.ph in ("s", "f"):
            slices = meant.get((event.place(), event.cat), [])
            if len(slices) != 1:
                report(19, "%s: %d slices start there" % (event, len(slices)))
            bound = started.get((event.pid, event.tid))
            if bound is None or [bound] != slices:
                report(21, "%s would bind to %s" % (event, bound))


def check_never(events, report):
    for event in events:
        for key in event.members:
            if key in NEVER_KEYS:
                report(22, "%s: key %s" % (event, key))
        if event.ph == "X" and event.ts > 10**18:
            report(22, "%s: an epoch time" % event)


# --------------------------------------------------------------------------------------------------
# The whole


def check_compressed(path, data, report):
    with open(path, "rb") as file:
        zipped = file.read()
    try:
        inside = gzip.decompress(zipped)
    except (OSError, EOFError) as error:
        report(29, "%s: %s" % (path, error))
        return
    if inside != data:
        report(29, "%s: not the same inside" % path)
    if zipped[3] != 0 or zipped[4:8] != b"\0\0\0\0":
        report(29, "%s: its header has flags %d, mtime %r" % (path, zipped[3], zipped[4:8]))


def check(data, model=None, again=(), zipped=()):
    """All checks over the bytes of a file: problems by number."""
    report = Report()
    try:
        lines = split_lines(data, report)
        metadata = check_head(lines, report)
        events = read_events(lines, report)
    except Broken:
        return report
    metadata = check_metadata(metadata, events, report)
    check_numbers(events, report)
    check_keys(events, report)
    check_tracks(events, report)
    names = check_names(events, report)
    check_times(events, report)
    check_order(events, report)
    check_slices(events, report)
    check_flat(events, report)
    check_counters(events, report)
    arrows = check_ids(events, report)
    check_arrow_fields(arrows, events, report)
    check_binding(events, report)
    check_never(events, report)
    if model:
        model.check(metadata, events, names, arrows, report)
    for path in again:
        with open(path, "rb") as file:
            if file.read() != data:
                report(29, "%s differs" % path)
    for path in zipped:
        check_compressed(path, data, report)
    return report


def usage(text):
    sys.exit("check_perfetto: %s\n\n%s" % (text, __doc__))


def check_files(words):
    """Runs the checks that one command line asks for; True if all is well."""
    options = {"--db": [], "--analysis": [], "--again": [], "--gz": []}
    files = []
    words = iter(words)
    for word in words:
        if word in options:
            options[word].append(next(words, None) or usage("%s FILE" % word))
        elif word.startswith("--"):
            usage("unknown option %s" % word)
        else:
            files.append(word)
    if len(files) != 1 or len(options["--db"]) > 1 or len(options["--analysis"]) > 1:
        usage("one file, and at most one database and one analysis of it")
    if options["--analysis"] and not options["--db"]:
        usage("--analysis needs --db")
    model = None
    if options["--db"]:
        model = perfetto_model.Model(options["--db"][0], *options["--analysis"])
    with open(files[0], "rb") as file:
        data = file.read()
    report = check(data, model, options["--again"], options["--gz"])
    for line in report.lines():
        print("%s: %s" % (files[0], line))
    return not report.problems


def main(words):
    if words[:1] == ["--batch"] and len(words) == 2:
        with open(words[1], encoding="utf-8") as file:
            results = [check_files(line.split()) for line in file]
        print("%d files, %d with problems" % (len(results), results.count(False)))
        return 0 if results and all(results) else 1
    return 0 if check_files(words) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
