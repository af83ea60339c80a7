"""What a Perfetto file of a trace must hold, worked out from the trace's database.

    model = Model("run.db", "analysis.json")     the second may be left out
    model.check(metadata, events, names, arrows, report)

Checks 9, 10 (time zero), 23-28 and 30 of tests/check_perfetto.py. Everything is an integer of
nanoseconds; rows are read by the names of the trace's contract.
"""

import json
import sqlite3

LIST_MAX = 256
OVERLAPS_MAX = 997
ARROWS = ("enqueue", "event", "event-done", "sync", "reuse", "finding")
COUNTS = ("t0_ns", "slices", "arrows", "counters", "arrows_left_out", "slices_left_out",
          "unfinished", "never_started")


class Slice:
    """A slice that must be there."""

    def __init__(self, pid, tid, start, end, cat, items):
        self.pid, self.tid, self.start, self.dur, self.cat = pid, tid, start, end - start, cat
        self.items = items
        if len(items) == 1:
            self.name, self.args = items[0].name, items[0].args
            return
        names = [item.name for item in items]
        if cat == "finding":
            self.name = "%d findings" % len(items)
            self.args = {"what": names[:LIST_MAX],
                         "id": [item.id for item in items][:LIST_MAX]}
            return
        cmds = sorted({cmd for item in items for cmd in item.cmds})[:LIST_MAX]
        self.name = "%d marks" % len(items)
        self.args = {"cmds": cmds, "what": names[:LIST_MAX]} if cmds else {
            "what": names[:LIST_MAX]}

    def place(self):
        return self.pid, self.tid, self.start


class Item:
    """One thing to draw: `key` says what it is, `cmds` are its commands, in order."""

    def __init__(self, key, start, end, name, args, cmds=(), graph=False, ident=0):
        self.key, self.start, self.end, self.name, self.args = key, start, end, name, args
        self.cmds, self.graph, self.id = list(cmds), graph, ident

    def order(self):
        """Among items of one start and end."""
        return self.cmds[0] if self.cmds else 0, self.key[0] != "enqueue", self.key


def rows(database, query):
    cursor = database.execute(query)
    columns = [column[0] for column in cursor.description]
    for values in cursor:
        yield dict(zip(columns, values))


def whole(value):
    """A count that may have been stored as text; 0 if there is none."""
    return int(value) if value is not None else 0


class Model:
    def __init__(self, path, analysis=None):
        database = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        self.meta = dict(database.execute("SELECT key, value FROM meta"))
        self.hosts = list(rows(database, "SELECT id, name FROM host ORDER BY id"))
        self.devices = list(rows(database, "SELECT id, kind FROM device ORDER BY id"))
        self.streams = list(rows(database, "SELECT id, device, name FROM stream ORDER BY id"))
        self.commands = {row["id"]: row for row in rows(
            database, "SELECT id, op, host, device, stream, kind, name, event, site, enqueue_ns, "
            "enqueued_ns, ready_ns, start_ns, finish_ns, flops, bytes_read, bytes_written, dtype, "
            "ts_source FROM cmd ORDER BY id")}
        self.shapes = dict(database.execute("SELECT id, shape FROM op"))
        self.edges = list(database.execute("SELECT src, dst, kind FROM edge"))
        self.syncs = list(rows(
            database, "SELECT id, host, kind, begin_ns, end_ns, cmd FROM sync ORDER BY id"))
        self.counters = list(rows(
            database, "SELECT device, name, ts_ns, value FROM counter ORDER BY rowid")) if \
            self.is_table(database, "counter") else list(rows(
                database, "SELECT device, name, ts_ns, value FROM counter"))
        self.findings = list(rows(
            database, "SELECT id, kind, severity, cmd_a, cmd_b, message, fix FROM finding "
            "ORDER BY id"))
        self.communicators = dict(database.execute("SELECT id, name FROM communicator"))
        self.collectives = {}
        for row in rows(database, "SELECT m.cmd, c.id, c.communicator, c.seq, c.algorithm, "
                        "c.protocol, c.emulated, c.modelled_ns "
                         "FROM collective_member AS m JOIN collective AS c "
                        "ON c.id = m.collective ORDER BY m.collective"):
            self.collectives.setdefault(row["cmd"], row)
        database.close()
        self.phases = None
        if analysis:
            with open(analysis, encoding="utf-8") as file:
                self.phases = json.load(file)["phases"]
        self.prepare()

    @staticmethod
    def is_table(database, name):
        return database.execute("SELECT type = 'table' FROM sqlite_master WHERE name = ?",
                                (name,)).fetchone()[0]

    # ----------------------------------------------------------------------------------------------
    # Times and tracks

    def prepare(self):
        times = [row[key] for row in self.commands.values()
                 for key in ("enqueue_ns", "enqueued_ns", "start_ns", "finish_ns")]
        times += [row[key] for row in self.syncs for key in ("begin_ns", "end_ns")]
        times += [row["ts_ns"] for row in self.counters]
        times = [time for time in times if time is not None]
        known = times + [phase[key] for phase in self.phases or ()
                         for key in ("begin_ns", "end_ns")]
        self.t0 = 0 if self.meta.get("clock") == "virtual" else min(known, default=0)
        self.last = max(times, default=self.t0)
        self.host_tid = {row["id"]: 1000 * (1 + row["id"]) for row in self.hosts}
        self.stream_track = {}
        for device in self.devices:
            mine = [row for row in self.streams if row["device"] == device["id"]]
            for s, row in enumerate(mine):
                self.stream_track[row["id"]] = 10 + device["id"], 1000 * (1 + s)
        self.left_out = {"slices": 0, "arrows": 0}
        self.slices = []
        self.place_of = {}  # key of an item: its slice, or None if it was left out
        self.lay_out_hosts()
        self.lay_out_streams()
        self.lay_out_findings()
        self.lay_out_phases()
        self.draw_arrows()
        self.draw_counters()

    def add(self, pid, tid, start, end, cat, items):
        drawn = Slice(pid, tid, start - self.t0, end - self.t0, cat, items)
        self.slices.append(drawn)
        for item in items:
            for key in [item.key] if item.key[0] != "enqueue" else [
                    ("enqueue", cmd) for cmd in item.cmds]:
                self.place_of[key] = drawn

    def lay_out(self, pid, tid, items):
        """Places the items of one host or stream on its threads."""
        ends = {}
        marks = {}
        for item in sorted(items, key=lambda i: (i.start, i.start - i.end, i.order())):
            if item.end == item.start:
                marks.setdefault(item.start, []).append(item)
                continue
            for offset in [2 if item.graph else 0] + list(range(3, 3 + OVERLAPS_MAX)):
                if ends.get(offset, item.start) <= item.start:
                    ends[offset] = item.end
                    self.add(pid, tid + offset, item.start, item.end, "op", [item])
                    break
            else:
                self.left_out["slices"] += 1
                for cmd in item.cmds:
                    self.place_of[item.key[0], cmd] = None
        for start, here in marks.items():
            here.sort(key=lambda i: (i.key[0] != "enqueue", i.order()))
            self.add(pid, tid + 1, start, start, "op", here)

    def end_of(self, start, end):
        return self.last if end is None else max(start, end)

    # ----------------------------------------------------------------------------------------------
    # Slices

    def lay_out_hosts(self):
        items = {host: [] for host in self.host_tid}
        calls = {}
        for cmd, row in self.commands.items():
            start, end = row["enqueue_ns"], row["enqueued_ns"]
            if row["host"] in items and start is not None:
                end = start if end is None else max(start, end)
                calls.setdefault((row["host"], start, end), []).append(cmd)
        for (host, start, end), cmds in calls.items():
            name = "enqueue " + command_name(self.commands[cmds[0]])
            args = {"cmd": cmds[0]}
            if len(cmds) > 1:
                name, args = "enqueue %d commands" % len(cmds), {"cmds": cmds[:LIST_MAX]}
            items[host].append(Item(("enqueue", cmds[0]), start, end, name, args, cmds))
        for row in self.syncs:
            if row["host"] not in items or row["begin_ns"] is None:
                continue
            cmd, start = whole(row["cmd"]), row["begin_ns"]
            end = self.end_of(start, row["end_ns"])
            items[row["host"]].append(Item(
                ("sync", row["id"]), start, end, "sync " + row["kind"], {"cmd": cmd} if cmd else {},
                [cmd] if cmd else []))
            if cmd and row["end_ns"] is not None:
                items[row["host"]].append(Item(
                    ("synced", row["id"]), end, end, "synced", {"cmd": cmd, "kind": "synced"},
                    [cmd]))
        for host, tid in self.host_tid.items():
            self.lay_out(1, tid, items[host])

    def command_args(self, cmd, row):
        args = {
            "cmd": cmd,
            "op": whole(row["op"]),
            "kind": row["kind"],
            "site": row["site"],
            "dtype": row["dtype"],
            "shape": self.shapes.get(row["op"]),
            "flops": whole(row["flops"]),
            "bytes_read": whole(row["bytes_read"]),
            "bytes_written": whole(row["bytes_written"]),
        }
        args = {key: value for key, value in args.items() if value}
        if row["ready_ns"] is not None:
            args["ready_ns"] = row["ready_ns"] - self.t0
        if row["ts_source"]:
            args["ts_source"] = row["ts_source"]
        collective = self.collectives.get(cmd)
        if collective:
            args["collective"] = collective["id"]
            args["communicator"] = self.communicators.get(collective["communicator"]) or \
                collective["communicator"]
            args["seq"] = collective["seq"]
            for key in ("algorithm", "protocol"):
                if collective[key]:
                    args[key] = collective[key]
            if collective["emulated"]:
                args["emulated"] = 1
            if collective["modelled_ns"] is not None:
                args["modelled_ns"] = collective["modelled_ns"]
        if row["finish_ns"] is None:
            args["unfinished"] = 1
        return args

    def lay_out_streams(self):
        items = {stream: [] for stream in self.stream_track}
        self.never_started = self.unfinished = 0
        for cmd, row in self.commands.items():
            start, finish = row["start_ns"], row["finish_ns"]
            self.never_started += start is None
            self.unfinished += start is not None and finish is None
            if start is None or row["stream"] not in items:
                continue
            end = self.end_of(start, finish)
            name = wait_name("wait", row) if row["kind"] == "wait" else command_name(row)
            items[row["stream"]].append(Item(
                ("command", cmd), start, end, name, self.command_args(cmd, row), [cmd],
                row["kind"] == "graph"))
            if row["kind"] == "wait" and finish is not None and finish > start:
                items[row["stream"]].append(Item(
                    ("resume", cmd), finish, finish, wait_name("resume", row),
                    {"cmd": cmd, "kind": "resume"}, [cmd]))
        for stream, (pid, tid) in self.stream_track.items():
            self.lay_out(pid, tid, items[stream])

    def device_of(self, row):
        if row["stream"] in self.stream_track:
            return self.stream_track[row["stream"]][0]
        known = {device["id"] for device in self.devices}
        device = row["device"]
        for stream in self.streams:
            if stream["id"] == row["stream"]:
                device = stream["device"]
        return 10 + device if device in known else None

    def lay_out_findings(self):
        groups = {}
        for row in self.findings:
            for cmd in (row["cmd_b"], row["cmd_a"]):
                command = self.commands.get(cmd)
                if command and command["start_ns"] is not None and self.device_of(command):
                    args = {key: row[key] for key in ("id", "severity", "message", "cmd_a",
                                                      "cmd_b", "fix") if row[key]}
                    place = self.device_of(command), command["start_ns"]
                    groups.setdefault(place, []).append(Item(
                        ("finding", row["id"]), command["start_ns"], command["start_ns"],
                        row["kind"] or "finding", args, ident=row["id"]))
                    break
        for (pid, start), items in groups.items():
            self.add(pid, 2, start, start, "finding", items)

    def lay_out_phases(self):
        known = {device["id"] for device in self.devices}
        for number, phase in enumerate(self.phases or ()):
            name = phase["class"].replace("_", "-") or "phase"
            args = {"why": phase["why"]} if phase.get("why") else {}
            if phase["device"] not in known or phase["end_ns"] <= phase["begin_ns"]:
                self.left_out["slices"] += 1
                continue
            self.add(10 + phase["device"], 1, phase["begin_ns"], phase["end_ns"], "phase", [
                Item(("phase", number), phase["begin_ns"], phase["end_ns"], name, args)])

    # ----------------------------------------------------------------------------------------------
    # Arrows and counters

    def draw_arrows(self):
        self.arrows = []
        for cmd in self.commands:
            self.draw("enqueue", ("enqueue", cmd), ("command", cmd), cmd, cmd)
        for src, dst, kind in self.edges:
            if src not in self.commands or dst not in self.commands:
                continue
            wait = self.commands[dst]
            if kind == "allocator":
                self.draw("reuse", ("command", src), ("command", dst), src, dst)
            if kind != "event" or wait["kind"] != "wait" or wait["start_ns"] is None or \
                    wait["finish_ns"] is None:
                continue
            if wait["finish_ns"] > wait["start_ns"]:
                self.draw("event", ("command", src), ("resume", dst), src, dst)
            else:
                self.draw("event-done", ("command", src), ("command", dst), src, dst)
        for row in self.syncs:
            cmd = whole(row["cmd"])
            if cmd in self.commands:
                self.draw("sync", ("command", cmd), ("synced", row["id"]), cmd, cmd)
        for row in self.findings:
            src, dst = whole(row["cmd_a"]), whole(row["cmd_b"])
            if src not in self.commands or dst not in self.commands or src == dst:
                continue
            ends = []  # a host's own read or write is its call, and nothing else
            for cmd in (src, dst):
                command = self.commands[cmd]
                by_host = command["kind"] in ("hostread", "hostwrite")
                ends.append((command["enqueue_ns" if by_host else "start_ns"],
                             ("enqueue" if by_host else "command", cmd)))
            if None not in (ends[0][0], ends[1][0]) and ends[1][0] < ends[0][0]:
                src, dst = dst, src
                ends.reverse()
            self.draw("finding", ends[0][1], ends[1][1], src, dst)
        self.arrows.sort(key=lambda arrow: arrow[:5])  # what is equal: in order of the tables

    def draw(self, name, source, end, src, dst):
        if source not in self.place_of or end not in self.place_of:
            return
        source, end = self.place_of[source], self.place_of[end]
        if source is None or end is None or source.start > end.start:
            self.left_out["arrows"] += 1
            return
        self.arrows.append((source.start, end.start, ARROWS.index(name), dst, src, source.place(),
                            end.place()))

    def draw_counters(self):
        """The last value of each moment, where it is another than before."""
        known = {device["id"] for device in self.devices}
        series = {}
        for row in self.counters:
            value = row["value"]
            if row["device"] in known and value is not None and abs(value) != float("inf"):
                points = series.setdefault((10 + row["device"], row["name"] or "counter"), {})
                points[row["ts_ns"] - self.t0] = value
        self.change_points = {}
        for (pid, name), points in series.items():
            before = None
            for ts in sorted(points):
                if points[ts] != before:
                    self.change_points[pid, name, ts] = before = points[ts]

    # ----------------------------------------------------------------------------------------------
    # Comparing

    def check(self, metadata, events, names, arrows, report):
        self.check_names(names, report)
        self.check_metadata(metadata, report)
        self.check_slices(events, report)
        self.check_arrows(metadata, arrows, report)
        self.check_counters(events, report)

    def check_names(self, names, report):
        if self.hosts and names.processes.get(1) != "Hosts":
            report(9, "no process Hosts")
        for row in self.devices:
            wanted = "Device %d" % row["id"] + (" (%s)" % row["kind"] if row["kind"] else "")
            if names.processes.get(10 + row["id"]) != wanted:
                report(9, "process %d is not %r" % (10 + row["id"], wanted))
        threads = [(1, self.host_tid[row["id"]], row, "host") for row in self.hosts]
        threads += [self.stream_track[row["id"]] + (row, "stream") for row in self.streams
                    if row["id"] in self.stream_track]
        for pid, tid, row, kind in threads:
            name = row["name"] or "unnamed"
            allowed = name, "%s (%s %d)" % (name, kind, row["id"])
            if names.threads.get((pid, tid)) not in allowed:
                report(9, "%s %d, %r, is called %r" % (kind, row["id"], name,
                                                       names.threads.get((pid, tid))))

    def check_metadata(self, metadata, report):
        if metadata.get("t0_ns") != str(self.t0):
            report(10, "t0_ns is %r, not %d" % (metadata.get("t0_ns"), self.t0))
        for key, value in self.meta.items():
            allowed = key and not key.strip("abcdefghijklmnopqrstuvwxyz0123456789_")
            if allowed and key not in COUNTS and metadata.get(key) != value:
                report(3, "%s is %r, not %r" % (key, metadata.get(key), value))
        wanted = {"slices_left_out": self.left_out["slices"], "unfinished": self.unfinished,
                  "never_started": self.never_started}
        if self.phases is None:
            del wanted["slices_left_out"]  # phases are among them
        for key, count in wanted.items():
            if str(metadata.get(key)) != str(count):
                report(30, "%s is %s, not %d" % (key, metadata.get(key), count))

    @staticmethod
    def number_of(drawn):
        kinds = {item.key[0] for item in drawn.items}
        if kinds & {"phase", "finding"}:
            return 27 if "phase" in kinds else 28
        return 24 if kinds & {"resume", "synced"} else 23

    def check_slices(self, events, report):
        found = {}
        for event in events:
            if event.ph == "X":
                found.setdefault(event.place(), []).append(event)
        for drawn in self.slices:
            here = found.pop(drawn.place(), [])
            check = self.number_of(drawn)
            if len(here) != 1:
                report(check, "%d slices instead of %r at %d ns, pid %d, tid %d" % (
                    len(here), drawn.name, drawn.start, drawn.pid, drawn.tid))
            for event in here:
                self.compare(drawn, event, check, report)
        for here in found.values():
            for event in here:
                check = {"phase": 27, "finding": 28}.get(event.cat, 23)
                if check != 27 or self.phases is not None:
                    report(check, "%s at %d ns is not in the database" % (event, event.ts))

    @staticmethod
    def compare(drawn, event, check, report):
        if (event.name, event.dur, event.cat) != (drawn.name, drawn.dur, drawn.cat):
            report(check, "%s, %d ns, instead of %r, %d ns" % (event, event.dur, drawn.name,
                                                               drawn.dur))
        wanted, found = list(plain_args(drawn.args)), list(plain_args(event.args or {}))
        if ("unfinished", "1") in set(wanted) ^ set(found):
            report(30, "%s: unfinished in %r" % (event, dict(found)))
        elif wanted != found:
            report(check, "%s: args %r instead of %r" % (event, found, wanted))

    def check_arrows(self, metadata, arrows, report):
        if str(metadata.get("arrows_left_out")) != str(self.left_out["arrows"]):
            report(25, "arrows_left_out is %s, not %d" % (metadata.get("arrows_left_out"),
                                                          self.left_out["arrows"]))
        wanted = [(ARROWS[kind], source, end) for _, _, kind, _, _, source, end in self.arrows]
        found = [(source.name, source.place(), end.place()) for source, end in arrows]
        for number, (a, b) in enumerate(zip(wanted, found), 1):
            if a != b:
                report(25, "arrow %d: %s from %s to %s instead of %s from %s to %s" % (
                    (number,) + b + a))
        if len(wanted) != len(found):
            report(25, "%d arrows instead of %d" % (len(found), len(wanted)))

    def check_counters(self, events, report):
        found = {}
        for event in events:
            if event.ph == "C" and isinstance(event.args, dict):
                found[event.pid, event.name, event.ts] = event.args.get("value")
        for key in set(found) ^ set(self.change_points):
            report(26, "%s %s" % (key, "is no change" if key in found else "is not there"))
        for key in set(found) & set(self.change_points):
            # Printed with 17 digits, a double reads back as itself.
            if not isinstance(found[key], str) or float(found[key]) != self.change_points[key]:
                report(26, "%s: %s instead of %r" % (key, found[key], self.change_points[key]))


def plain_args(args):
    """Args as pairs, with integers as they are written: those beyond int64 as texts."""
    for key, value in args.items():
        if isinstance(value, list):
            yield key, tuple(str(item) for item in value)
        else:
            yield key, str(value)


def command_name(row):
    if row["name"] and row["name"] != row["kind"]:
        return row["name"]
    return row["kind"] + (" " + row["event"] if row["event"] else "")


def wait_name(verb, row):
    event = row["event"]
    if not event:
        name = row["name"] or ""
        event = name.removeprefix("wait ") if name != "wait" else ""
    return verb + (" " + event if event else "")
