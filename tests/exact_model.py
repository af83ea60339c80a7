#!/usr/bin/env python3
"""The exact figures of a trace of another tool, computed a second time.

    tests/exact_model.py FILE...        one JSON object per trace, as `orrery analyze --json` has
                                        under "exact"

Reads Kineto JSON (plain, gzip, tar of members) and Nsight Systems SQLite, and applies the
definitions straightforwardly: sets, sorted lists and elementary intervals, no index and no sweep.
It shares nothing with the C code and is slow on purpose. Traces are taken to be well-formed JSON.
Needs nothing but Python's standard library.
"""
import bisect
import collections
import gzip
import io
import json
import os
import re
import sqlite3
import sys
import tarfile

SHORT_NS = 30
DISPATCH_NS = 100_000
COMM = re.compile(r"nccl|rccl|hccl|deep_?ep|nvshmem|msccl", re.I)
API_CATS = {"cuda_runtime", "cuda_driver", "hip_runtime"}
OP_CATS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
PROFILER = {"buffer flush", "instrumentation", "resource", "activity buffer request"}
NO_EVENT = 4294967295


class Op:
    def __init__(self, **fields):
        self.call = None
        self.prev = None
        self.wait = None
        self.__dict__.update(fields)


class Call:
    def __init__(self, records):
        first = min(records, key=lambda r: (r["a"], r["b"], str(r["thread"]), r["name"]))
        self.a = first["a"]
        self.b = max(r["b"] for r in records)
        self.thread, self.name, self.process = first["thread"], first["name"], first["process"]
        self.records = len(records)
        self.ops = []


class Trace:
    """What both readers fill: records of ops, apis, waits, overheads."""

    def __init__(self, name, form):
        self.name, self.format = name, form
        self.ops, self.apis, self.waits, self.overheads = [], [], [], []
        self.subns, self.base, self.join = 0, None, None


# --------------------------------------------------------------------------------------------------
# Readers

def decimal_ns(value):
    """(ns, more than three decimals?) of microseconds as text."""
    text = str(value).strip()
    match = re.fullmatch(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", text)
    sign, whole, part, power = match.groups()
    part = part or ""
    shift = 3 + int(power or 0)
    digits, places = (whole + part) or "0", len(part) - shift
    if places <= 0:
        number, rest = int(digits) * 10 ** -places, ""
    else:
        digits = digits.rjust(places + 1, "0")
        number, rest = int(digits[:-places]), digits[-places:]
    return (-number if sign == "-" else number), bool(rest.strip("0"))


def read_kineto(name, text):
    document = json.loads(text, parse_float=str)
    events = document if isinstance(document, list) else document.get("traceEvents", [])
    trace = Trace(name, "kineto")
    if isinstance(document, dict):
        trace.base = document.get("baseTimeNanoseconds")
    for event in events:
        if event.get("ph") != "X":
            continue
        cat = str(event.get("cat", "")).lower()
        args = event.get("args") or {}
        if cat not in OP_CATS and cat not in API_CATS and cat not in ("cuda_sync", "overhead"):
            continue
        start, fine_start = decimal_ns(event["ts"])
        length, fine_length = decimal_ns(event.get("dur", 0))
        end, correlation = start + length, args.get("correlation")
        if cat in OP_CATS:
            if end >= start and (start, end) != (0, 0):
                trace.subns += fine_start + fine_length
            trace.ops.append(Op(
                kind=OP_CATS[cat], name=event["name"], s=start, e=end, process=0,
                device=int(args.get("device", event.get("pid"))),
                stream=(int(args.get("stream", event.get("tid"))),),
                correlation=correlation, bytes=int(args.get("bytes", 0) or 0)))
        elif cat in API_CATS and correlation is not None:
            trace.subns += fine_start + fine_length
            trace.apis.append({"a": start, "b": end, "name": event["name"], "process": 0,
                               "thread": f"{event['pid']}/{event['tid']}",
                               "correlation": correlation})
        elif cat == "cuda_sync" and args.get("cuda_sync_kind") == "Stream Wait Event":
            device = int(args.get("device", event.get("pid")))
            trace.waits.append({
                "process": 0, "correlation": correlation, "ts": start, "device": device,
                "stream": (int(args["stream"]),), "source": (device, (args.get("wait_on_stream"),)),
                "record": args.get("wait_on_cuda_event_record_corr_id")})
        elif cat == "overhead" and event["name"].lower() in PROFILER:
            trace.overheads.append((0, start, end))
    return trace


def read_nsys(path):
    trace = Trace(os.path.basename(path), "nsys")
    base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    base.row_factory = sqlite3.Row
    tables = {row[0] for row in base.execute("select name from sqlite_master")}

    def rows(table):
        if table not in tables:
            return []
        return [dict(row) for row in base.execute(f'select * from "{table}"')]
    texts = {row["id"]: row["value"] for row in rows("StringIds")}
    for row in rows("TARGET_INFO_SESSION_START_TIME"):
        trace.base = row.get("utcEpochNs")
    many = any("globalPid" in row for row in rows("CUPTI_ACTIVITY_KIND_KERNEL")[:1])

    def process_of(row):
        if not many:
            return 0
        return row["globalPid"] if "globalPid" in row else row["globalTid"] >> 24 << 24
    apis = [row for row in rows("CUPTI_ACTIVITY_KIND_RUNTIME") if row["correlationId"] is not None]
    for row in apis:
        name = re.sub(r"_v\d+$", "", texts.get(row["nameId"], ""))
        trace.apis.append({"a": row["start"], "b": row["end"], "name": name,
                           "process": process_of(row), "thread": row.get("globalTid", 0),
                           "correlation": row["correlationId"]})
    trace.join = {}
    alone = collections.Counter(row["correlationId"] for row in apis)
    paired = collections.Counter((process_of(row), row["correlationId"]) for row in apis)
    for kind in ("kernel", "memcpy", "memset"):
        table = rows(f"CUPTI_ACTIVITY_KIND_{kind.upper()}")
        keys = [(process_of(row), row["correlationId"]) for row in table]
        trace.join[kind] = {"rows": len(table), "naive_rows": sum(alone[k[1]] for k in keys),
                            "process_rows": sum(paired[k] for k in keys),
                            "unlinked": sum(1 for k in keys if not paired[k])}
        for row in table:
            trace.ops.append(Op(
                kind=kind, name=texts.get(row.get("demangledName"), ""), s=row["start"],
                e=row["end"], process=process_of(row), device=row["deviceId"],
                stream=(process_of(row), row.get("contextId", 0), row["streamId"]),
                correlation=row["correlationId"], bytes=row.get("bytes", 0)))
    records = {(process_of(row), row["eventSyncId"]): row
               for row in rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT")}
    for row in rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
        if row.get("syncType") != 2 or row["eventId"] == NO_EVENT:
            continue
        process = process_of(row)
        record = records.get((process, row["eventSyncId"]))
        trace.waits.append({
            "process": process, "correlation": row["correlationId"], "ts": row["start"],
            "device": row["deviceId"], "stream": (process, row["contextId"], row["streamId"]),
            "source": record and (record["deviceId"],
                                  (process, record["contextId"], record["streamId"])),
            "record": record and record["correlationId"]})
    for table, kinds in (("PROFILER_OVERHEAD", None), ("CUPTI_ACTIVITY_KIND_OVERHEAD", (3, 4, 5))):
        for row in rows(table):
            if kinds is None or row["overheadType"] in kinds:
                trace.overheads.append((process_of(row), row["start"], row["end"]))
    return trace


def read(path):
    """All traces of a file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:16] == b"SQLite format 3\0":
        return [read_nsys(path)]
    base = os.path.basename(path)
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return [read_kineto(f"{base}/{member.name}", archive.extractfile(member).read())
                    for member in archive if member.isfile()]
    return [read_kineto(base, data)]


# --------------------------------------------------------------------------------------------------
# Definitions

def is_waiting(name):
    copies = name.startswith(("cudaMemcpy", "cuMemcpy", "hipMemcpy"))
    return "Synchronize" in name or (copies and "Async" not in name)


def is_breaking(name):
    words = ("Malloc", "Free", "HostAlloc", "HostRegister", "ModuleLoad", "StreamCreate")
    return any(word in name for word in words) and "Async" not in name


def class_of(op):
    if op.kind != "kernel":
        return "copy"
    return "comm" if COMM.search(op.name) else "compute"


def union(pairs):
    """Disjoint ascending intervals."""
    merged = []
    for begin, end in sorted(pairs):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(merged):
    return sum(end - begin for begin, end in merged)


def without(a, b):
    """a minus b, both unions."""
    out = []
    for begin, end in a:
        at = begin
        for x, y in b:
            if y <= at or x >= end:
                continue
            if x > at:
                out.append([at, x])
            at = max(at, y)
        if at < end:
            out.append([at, end])
    return out


def median(values):
    return sorted(values)[(len(values) - 1) // 2] if values else None


def p95(values):
    return sorted(values)[-(-95 * len(values) // 100) - 1] if values else None


def differences(values):
    values = sorted(values)
    return [b - a for a, b in zip(values, values[1:])]


class Model:
    def __init__(self, trace):
        self.trace = trace
        self.bad = [op for op in trace.ops if op.e < op.s or op.s == op.e == 0]
        bad = {id(op) for op in self.bad}
        self.ops = [op for op in trace.ops if id(op) not in bad]
        self.link()
        self.sort()
        self.waits_unresolved = 0
        self.resolve()

    def link(self):
        groups = collections.defaultdict(list)
        self.begins = {}  # of all records, also those whose end cannot be: waits need no end
        for i, record in enumerate(self.trace.apis):
            if record["b"] >= record["a"]:  # the end of others is not known
                known = record["correlation"] is not None and record["correlation"] >= 0
                key = (record["process"], record["correlation"]) if known else (None, i)
                groups[key].append(record)
            if record["correlation"] is not None and record["correlation"] >= 0:
                key = record["process"], record["correlation"]
                self.begins[key] = min(self.begins.get(key, record["a"]), record["a"])
        self.calls = {key: Call(records) for key, records in groups.items()}
        for op in self.ops:
            op.call = self.calls.get((op.process, op.correlation))
            if op.call:
                op.call.ops.append(op)
        self.threads = collections.defaultdict(list)
        for call in self.calls.values():
            self.threads[call.thread].append(call)

    def sort(self):
        self.ops.sort(key=lambda op: (op.s, op.e, op.call is None, op.call.a if op.call else 0,
                                      op.device, op.stream, op.correlation or 0))
        reach = {}
        for op in self.ops:
            place = (op.device, op.stream)
            op.prev = reach.get(place)
            reach[place] = op.e if op.prev is None else max(op.prev, op.e)

    def resolve(self):
        for wait in self.trace.waits:
            process = wait["process"]
            record = self.begins.get((process, wait["record"]))
            if record is None or wait["source"] is None or None in wait["source"][1]:
                self.waits_unresolved += 1
                continue
            at = self.begins.get((process, wait["correlation"]), wait["ts"])
            before = [op.e for op in self.ops if (op.device, op.stream) == wait["source"]
                      and (op.call.a if op.call else op.s) < record]
            if not before:
                continue
            for op in self.ops:
                if (op.device, op.stream) == (wait["device"], wait["stream"]) and op.call \
                        and op.call.a > at:
                    op.wait = max(before) if op.wait is None else max(op.wait, max(before))

    # --- figures ---

    def top_kernels(self):
        table = collections.defaultdict(list)
        for op in self.ops:
            if op.kind == "kernel":
                table[op.name].append(op.e - op.s)
        order = sorted(table, key=lambda name: (-sum(table[name]), name.encode()))
        return [{"name": name, "count": len(table[name]), "sum_ns": sum(table[name]),
                 "min_ns": min(table[name]), "max_ns": max(table[name])} for name in order[:3]]

    def split(self):
        out = dict.fromkeys(("ops", "submit", "stream_wait", "dep_wait", "dispatch", "device",
                             "total"), 0)
        violations = per_op = 0
        for op in self.ops:
            if not op.call or op.s < op.call.a:
                continue
            a, b, s, e = op.call.a, op.call.b, op.s, op.e
            x = min(b, s)
            y = x if op.prev is None else max(x, min(op.prev, s))
            z = y if op.wait is None else max(y, min(op.wait, s))
            for key, value in (("ops", 1), ("submit", x - a), ("stream_wait", y - x),
                               ("dep_wait", z - y), ("dispatch", s - z), ("device", e - s),
                               ("total", e - a)):
                out[key] += value
            violations += op.wait is not None and s < op.wait
            per_op += b - a
        return out, violations, per_op

    def stream_idle(self):
        sums = dict.fromkeys(("host", "queued", "short", "unlinked"), 0)
        counts = dict(sums)
        for op in self.ops:
            if op.prev is None or op.s <= op.prev:
                continue
            gap = op.s - op.prev
            key = ("unlinked" if not op.call else "host" if op.call.a > op.prev
                   else "short" if gap < SHORT_NS else "queued")
            sums[key] += gap
            counts[key] += 1
        return sums, counts

    def host_part(self, op, begin, end, classes):
        """Elementary intervals of [begin, end): the first class that applies."""
        process = op.call.process
        overheads = [(x, y) for owner, x, y in self.trace.overheads if owner == process]
        calls = [call for call in self.threads[op.call.thread] if call.b > begin and call.a < end]
        waiting = [(c.a, c.b) for c in calls if is_waiting(c.name) and c is not op.call]
        launching = [(c.a, c.b) for c in calls if c.ops or "Launch" in c.name]
        marks = {begin, end}
        for pairs in (overheads, waiting, launching):
            marks.update(t for pair in pairs for t in pair if begin < t < end)
        marks = sorted(marks)
        for x, y in zip(marks, marks[1:]):
            def inside(pairs):
                return any(p <= x and y <= q for p, q in pairs)
            key = ("profiler_overhead" if inside(overheads) else
                   "host_sync" if inside(waiting) else
                   "host_launch" if inside(launching) else "host_other")
            classes[key] += y - x

    def gap(self, op, begin, end):
        """(classes of a gap that op ends, length of its host part)"""
        classes = collections.Counter()
        if not op.call:
            classes["unknown_unlinked"] += end - begin
            return classes, 0
        if op.s < op.call.a:
            classes["unknown_clock"] += end - begin
            return classes, 0
        host_end = max(begin, min(op.call.b, op.s))
        self.host_part(op, begin, host_end, classes)
        dep_end = host_end if op.wait is None else max(host_end, min(op.wait, end))
        classes["dep_wait"] += dep_end - host_end
        rest = end - dep_end
        classes["dispatch" if rest <= DISPATCH_NS else "unknown_wait"] += rest
        return classes, host_end - begin

    def graph_gap(self, before, op, thread, breaking):
        for one in (before, op):
            if not one.call or one.s < one.call.a or one.call.thread != thread or \
                    "GraphLaunch" in one.call.name:
                return False
        return bisect.bisect_left(breaking, before.call.a) == bisect.bisect_left(breaking,
                                                                                  op.call.a) \
            or before.call.a >= op.call.a

    def device(self, number):
        ops = [op for op in self.ops if op.device == number]
        kinds = collections.defaultdict(list)
        for op in ops:
            kinds[class_of(op)].append((op.s, op.e))
        c, m, p = (union(kinds[key]) for key in ("compute", "comm", "copy"))
        first, last = ops[0].s, max(op.e for op in ops)
        busy = length(union(pair for pairs in kinds.values() for pair in pairs))
        calls = []
        for op in ops:
            if op.call and op.call not in calls:
                calls.append(op.call)
        count = collections.Counter(call.thread for call in calls)
        feeder = min(count, key=lambda t: (-count[t], str(t))) if count else None
        feed = [call for call in calls if call.thread == feeder]
        breaking = sorted(call.a for call in self.threads.get(feeder, ())
                          if is_waiting(call.name) or is_breaking(call.name))
        names = ("profiler_overhead", "host_sync", "host_launch", "host_other", "dep_wait",
                 "dispatch", "unknown_wait", "unknown_unlinked", "unknown_clock")
        classes = {"compute": length(c), "exposed_comm": length(without(m, c)),
                   "exposed_copy": length(without(without(p, c), m)), **dict.fromkeys(names, 0)}
        gaps = gaps_host = graph_gaps = graph_gap_ns = 0
        ends, reach, before = [], first, None
        for op in ops:
            if op.s > reach:
                found, host = self.gap(op, reach, op.s)
                for key, value in found.items():
                    classes[key] += value
                gaps += 1
                gaps_host += host > 0
                if host > 0 and op.call.thread == feeder:
                    ends.append(op.s)
                if self.graph_gap(before, op, feeder, breaking):
                    graph_gaps += 1
                    graph_gap_ns += sum(found[k] for k in ("host_launch", "host_other", "dispatch"))
            reach, before = max(reach, op.e), op
        host = classes["host_launch"] + classes["host_other"]
        launch_period = median(differences([call.a for call in feed]))
        gap_period = median(differences(ends))
        if 2 * host < last - first:
            bound = False
        elif len(ends) < 8 or launch_period is None:
            bound = None
        else:
            bound = 4 * abs(gap_period - launch_period) <= launch_period
        times = [call.b - call.a for call in calls]
        return {
            "device": number,
            "processes": sorted({op.process for op in ops}) if self.trace.join and ops[0].process
            else [],
            "ops": len(ops), "first_ns": first, "last_ns": last, "span_ns": last - first,
            "busy_ns": busy, "idle_ns": last - first - busy, "compute_ns": length(c),
            "comm_ns": length(m), "copy_ns": length(p),
            "comm_compute_overlap_ns": length(m) - length(without(m, c)), "classes": classes,
            "residual_ns": last - first - sum(classes.values()), "gaps": gaps,
            "gaps_host": gaps_host,
            "launch": {"calls": len(calls), "sum_ns": sum(times), "median_ns": median(times),
                       "p95_ns": p95(times), "feed_calls": len(feed),
                       "launch_period_ns": launch_period, "feed_gaps": len(ends),
                       "gap_period_ns": gap_period, "graph_gaps": graph_gaps,
                       "graph_gap_ns": graph_gap_ns},
            "launch_bound": bound}

    def figures(self):
        trace, ops = self.trace, self.ops
        linked = [op for op in ops if op.call]
        owners = [call for call in self.calls.values() if call.ops]
        graphs = [call for call in self.calls.values() if "GraphLaunch" in call.name]
        early = [op.call.a - op.s for op in linked if op.s < op.call.a]
        overlaps = [op.prev - op.s for op in ops if op.prev is not None and op.s < op.prev]
        split, violations, per_op = self.split()
        idle, idle_n = self.stream_idle()
        out = {
            "file": trace.name, "format": trace.format, "gpu_ops": len(ops),
            "kernels": sum(op.kind == "kernel" for op in ops),
            "memcpys": sum(op.kind == "memcpy" for op in ops),
            "memsets": sum(op.kind == "memset" for op in ops),
            "memcpy_bytes": sum(op.bytes for op in ops if op.kind == "memcpy"),
            "top_kernels": self.top_kernels(), "bad_ops": len(self.bad),
            "zero_len_ops": sum(op.e == op.s for op in ops),
            "streams": len({(op.device, op.stream) for op in ops}), "api_calls": len(trace.apis),
            "linked": len(linked), "unlinked": len(ops) - len(linked),
            "ops_multi_api": sum(op.call.records > 1 for op in linked),
            "fanout_corrs": sum(len(call.ops) > 1 for call in owners),
            "max_ops_per_corr": max((len(call.ops) for call in owners), default=0),
            "graph_launches": len(graphs),
            "graph_launches_no_op": sum(not call.ops for call in graphs),
            "graph_ops": sum(len(call.ops) for call in graphs),
            "start_before_launch": len(early),
            "start_before_launch_max_ns": max(early, default=0),
            "start_during_launch": sum(op.call.a <= op.s < op.call.b for op in linked),
            "same_stream_overlaps": len(overlaps),
            "same_stream_overlap_max_ns": max(overlaps, default=0), "subns_stamps": trace.subns,
            "time_base_ns": trace.base, "event_waits": len(trace.waits),
            "event_waits_unresolved": self.waits_unresolved, "dep_violations": violations,
            "api_once_ns": sum(call.b - call.a for call in owners), "api_per_op_ns": per_op,
            "split": split, "idle_by_stream": idle, "idle_by_stream_n": idle_n,
            "devices": [self.device(d) for d in sorted({op.device for op in ops})]}
        if trace.join is not None:
            out["join"] = trace.join
            out["naive_false_rows"] = sum(t["naive_rows"] - t["process_rows"]
                                          for t in trace.join.values())
        return out


def figures(path):
    return [Model(trace).figures() for trace in read(path)]


def differing(expected, found, path=""):
    """Lines that say where two documents differ; keys that only `found` has are fine."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key not in found:
                yield f"{path}.{key}: absent"
            else:
                yield from differing(value, found[key], f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (one, other) in enumerate(zip(expected, found)):
            yield from differing(one, other, f"{path}[{i}]")
    elif expected != found or type(expected) is not type(found):
        yield f"{path}: expected {expected!r}, found {found!r}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for one in figures(argument):
            print(json.dumps(one))
