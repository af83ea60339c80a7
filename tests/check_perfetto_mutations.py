#!/usr/bin/env python3
"""Check 31 of tests/check_perfetto.py: each of the others can fail.

    tests/check_perfetto_mutations.py FILE.json RUN.db ANALYSIS.json

Takes a file that passes, changes one thing at a time and expects the checker to report the check
whose business that is. FILE must hold at least one of everything that is changed here; the
test case "rich" of tests/perfetto_cases.c does. Prints what went unnoticed; the exit status is 1
then, and also if a check has no mutation.
"""

import gzip
import os
import re
import sys
import tempfile

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
sys.dont_write_bytecode = True

import check_perfetto  # noqa: E402
import perfetto_model  # noqa: E402

MUTATIONS = []


def mutation(check, *values):
    """Registers a function that changes a Document, once for each of `values`."""
    def register(function):
        for value in values or [()]:
            MUTATIONS.append((check, function, value if isinstance(value, tuple) else (value,)))
        return function
    return register


class Document:
    """A file in parts: its first line, its events without commas."""

    def __init__(self, data):
        lines = data.decode().split("\n")
        self.head = lines[0]
        self.events = [line.removesuffix(",") for line in lines[1:-2]]
        self.tail = "]}\n"

    def data(self):
        return ("%s\n%s\n%s" % (self.head, ",\n".join(self.events), self.tail)).encode()

    def find(self, pattern, begin=0):
        for i in range(begin, len(self.events)):
            if re.search(pattern, self.events[i]):
                return i
        raise LookupError("no event matches %s" % pattern)

    def edit(self, pattern, old, new):
        """In the first event that matches, replaces the first match of `old` by `new`."""
        i = self.find(pattern)
        changed = re.sub(old, lambda match: match.expand(new), self.events[i], count=1)
        if changed == self.events[i]:
            raise LookupError("%s is not in %s" % (old, self.events[i]))
        self.events[i] = changed

    def edit_head(self, old, new):
        if old not in self.head:
            raise LookupError("%s is not in the head" % old)
        self.head = self.head.replace(old, new, 1)

    def remove(self, pattern):
        return self.events.pop(self.find(pattern))

    def swap(self, i, j):
        self.events[i], self.events[j] = self.events[j], self.events[i]

    def place(self, i):
        return re.search(r'"pid":(\d+),"tid":(\d+),"ts":([0-9.]+)', self.events[i]).groups()

    def ts(self, i):
        match = re.search(r'"ts":([0-9.]+)', self.events[i])
        return match.group(1) if match else None

    def arrow(self, name, ph):
        return self.find(r'^\{"ph":"%s".*"name":"%s"' % (ph, name))


KERNEL = r'"name":"gemm '
X_OP = r'^\{"ph":"X".*"cat":"op"'

# --------------------------------------------------------------------------------------------------
# The file


@mutation(1, "\ufeff{", "{ ", "[{", "/* */{")
def changed_start(document, start):
    document.head = start + document.head[1:]


@mutation(1, ",\n]}\n", "\n", "\n]}", "\n]}\n\n", "\n]}//\n", "]}\n")
def changed_end(document, end):
    return document.data().removesuffix(b"\n]}\n") + end.encode()


@mutation(1, (b"gemm", b"\xff"), (b"gemm", b"\xed\xa0\x80"), (b"\n", b"\r\n"), (b",\n{", b"\n{"),
          (b'"cmd":1,', b'"cmd":1,"cmd":1,'), (b'"cmd":1,', b'"cmd":NaN,'),
          (b'"cmd":1,', b'"cmd":01,'), (b'"cmd":1,', b'"cmd": 1,'), (b'"cmd":1,', b'"cmd":1,,'),
          (b'"cmd":1,', b"'cmd':1,"))
def changed_bytes(document, old, new):
    data = document.data()
    assert old in data
    return data.replace(old, new, 1)


@mutation(2, ('"displayTimeUnit":"ns"', '"displayTimeUnit":"ms"'), ('"metadata"', '"otherData"'),
          ('"traceEvents"', '"events"'), ('"displayTimeUnit":"ns",', ""),
          ('"displayTimeUnit":"ns"', '"displayTimeUnit":"ns","more":"x"'))
@mutation(3, ('"t0_ns":"0"', '"t0_ns":0'), ('"t0_ns":"0"', '"t0":"0"'),
          ('"arrows_left_out"', '"arrows_lost"'), ('"scenario":"rich', '"scenario":"poor'),
          ('"clock"', '"Clock"'), ('"clock":"virtual"', '"clock":{}'),
          ('"clock":"virtual"', '"clock":1.5'), ('"clock":"virtual"', '"clock":true'))
@mutation(10, ('"t0_ns":"0"', '"t0_ns":"1"'))
@mutation(25, ('"arrows_left_out":1', '"arrows_left_out":2'))
@mutation(30, ('"never_started":1', '"never_started":2'),
          ('"slices_left_out":0', '"slices_left_out":1'), ('"unfinished":1', '"unfinished":0'))
def changed_head(document, old, new):
    document.edit_head(old, new)


@mutation(3, "slices", "arrows", "counters")
def changed_count(document, key):
    count = int(re.search('"%s":([0-9]+)' % key, document.head).group(1))
    document.edit_head('"%s":%d' % (key, count), '"%s":%d' % (key, count + 1))


@mutation(4, r"\\ud800", r"\\u0000", r"\\u00e9", r"\\n", r"\\/", "\t", r"\\u001F")
def changed_text(document, text):
    document.edit(KERNEL, "gemm ", "gemm" + text)


@mutation(5, ('"ts":2.000', '"ts":"2.000"'), ('"ts":2.000', '"ts":2'), ('"ts":2.000', '"ts":2.00'),
          ('"ts":2.000', '"ts":2.0000'), ('"dur":3.000', '"dur":3e0'),
          ('"flops":123456789', '"flops":1.5'),
          ('"flops":123456789', '"flops":9223372036854775808'),
          ('"flops":123456789', '"flops":1.234567890123457e-04'))
def changed_number(document, old, new):
    document.edit(KERNEL, old, new)


@mutation(5, "0.00012345678901234567", "1.5", "1e300", "0.1")
def changed_double(document, value):
    document.edit("e-04", r'"value":[^}]*', '"value":' + value)


# --------------------------------------------------------------------------------------------------
# Events


@mutation(6, (r'("pid":\d+),("tid":\d+)', r"\2,\1"), (r'"ph":"X"', '"ph":"Q"'),
          (r',"cat":"op"', ""), (r'"name"', '"title"'), (r'"dur"', '"tdur"'),
          (r'"cat":"op"', '"cat":"op","s":"g"'))
@mutation(7, (r'"tid":1000', '"tid":0'), (r'"tid":1000', '"tid":-3'), (r'"tid":1000', '"tid":999'),
          (r'"tid":1000', '"tid":4294967296'), (r'"pid":10', '"pid":0'), (r'"pid":10', '"pid":9'))
@mutation(12, (r'"dur":3.000', '"dur":-0.001'), (r'"cat":"op"', '"cat":"kernel"'),
          (r'"name":"[^,]*,', '"name":"",'), (r'"op":1', '"op":null'), (r'"op":1', '"op":true'),
          (r'"op":1', '"op":{"a":1}'), (r'"op":1', '"op":{}'), (r'"op":1', '"op":[]'),
          (r'"op":1', '"op":[1,"a"]'), (r'"op"', '"op.x"'), (r'("cmd":1),("op":1)', r"\2,\1"),
          (r'"args":.*', '"args":[]}'))
@mutation(22, (r'"cat":"op"', '"cat":"op","bind_id":1'), (r'"cat":"op"', '"cat":"op","flow_in":1'),
          (r'"ph":"X"', '"ph":"B"'))
@mutation(23, ("gemm", "gemn"), ('"dur":3.000', '"dur":2.999'), ('"op":1', '"op":2'),
          ('"site":"train.lua:12",', ""), ('"ready_ns":1500', '"ready_ns":1501'))
def changed_kernel(document, old, new):
    document.edit(KERNEL, old, new)


@mutation(7, (r'"pid":1,"tid":1000', '"pid":1,"tid":1002'), (r'"pid":1,', '"pid":1000000000000,'))
def changed_host_track(document, old, new):
    document.edit(r'^\{"ph":"X","pid":1,', old, new)


@mutation(8, '"name":"process_name"', '"name":"process_sort_index"', '"name":"thread_name"',
          '"name":"thread_sort_index"')
def lost_name(document, pattern):
    document.remove(r'"pid":10,.*' + pattern)


@mutation(8, (r'thread_sort_index.*', r'"sort_index":(\d+)', r'"sort_index":"\1"'),
          (r'process_sort_index.*', r'"sort_index":(\d+)', r'"sort_index":7'),
          (r'process_name.*', r'"name":"Hosts"', r'"name":"Host"'),
          (r'"name":"compute"', r'"name":"compute"', r'"name":"communicate"'),
          (r'"name":"compute"', r'"name":"compute"', r'"name":""'),
          (r'"name":"compute marks"', r'compute marks', r'compute points'),
          (r'"pid":10,"tid":10,', r'"tid":10', r'"tid":11'))
def changed_name(document, pattern, old, new):
    document.edit(pattern, old, new)


@mutation(8)
def name_twice(document):
    i = document.find('"name":"thread_name"')
    document.events.insert(i, document.events[i])


@mutation(8)
def late_name(document):
    i = document.find('"ph":"X"')
    document.swap(i - 1, i)


@mutation(8)
def other_order_of_names(document):
    document.swap(0, 1)


@mutation(9)
def lost_idle_stream(document):
    document.remove('"name":"idle"')
    document.remove(r'"pid":11,.*"sort_index":2000')


@mutation(9, ('"name":"Device 0 \\(sim\\)"', "sim", "cpu"), ('"name":"idle"', "idle", "busy"),
          ('"name":"main"', "main", "mian"))
def other_name(document, pattern, old, new):
    document.edit(pattern, old, new)


@mutation(10)
def falling_time(document):
    i = document.find(r'"ph":"X"')
    j = next(k for k in range(i, len(document.events)) if document.ts(k) != document.ts(i))
    document.swap(i, j)


@mutation(10, "4503599627370.496", "1753000000123456.789")
def time_too_large(document, ts):
    i = max(i for i, event in enumerate(document.events) if event.startswith('{"ph":"X"'))
    document.events[i] = re.sub('"ts":[0-9.]+', '"ts":' + ts, document.events[i])


@mutation(11, ('"ph":"X"', '"ph":"X"'), ('"ph":"X"', '"ph":"s"'), ('"ph":"s"', '"ph":"f"'),
          ('"ph":"f"', '"ph":"f"'), ('"ph":"f"', '"ph":"C"'), ('"ph":"C"', '"ph":"C"'))
def other_order(document, first, second):
    """Swaps two neighbours of one time."""
    for i in range(len(document.events) - 1):
        here, there = document.events[i:i + 2]
        if first in here and second in there and document.ts(i) == document.ts(i + 1):
            document.swap(i, i + 1)
            return
    raise LookupError("no %s beside %s" % (first, second))


@mutation(12)
def other_category_of_phase(document):
    document.edit('"cat":"phase"', "phase", "op")


@mutation(13)
def overlap_by_1_ns(document):
    document.edit('"name":"in graph 1"', '"dur":1.000', '"dur":1.001')


@mutation(13)
def two_at_one_time(document):
    i = document.find('"name":"in graph 1"')
    document.events.insert(i, document.events[i])


@mutation(14)
def mark_on_main(document):
    document.edit('"name":"resume e1"', r'"tid":(\d+)1,', r'"tid":\g<1>0,')


@mutation(14)
def length_on_marks(document):
    document.edit('"name":"resume e1"', '"dur":0.000', '"dur":0.001')


@mutation(15, (r'"pid":10,', '"pid":10,"tid":1000,'), (r'"value":[^}]*', '"value":null'),
          (r'"value":[^}]*', '"value":"4096"'), (r'"value":', '"bytes":'),
          (r'("value":[^}]*)', r'\1,"more":1'), (r'"name":"[^"]*"', '"name":""'),
          (r'"value":[^}]*', '"value":[1]'))
def changed_counter(document, old, new):
    document.edit(r'^\{"ph":"C","pid":10,', old, new)


@mutation(15)
def counter_twice(document):
    i = document.find(r'^\{"ph":"C"')
    document.events.insert(i, document.events[i])


@mutation(15)
def counter_without_change(document):
    first = re.search('"value":[^}]*', document.events[document.find("memory bytes")]).group()
    document.edit("e-04", '"value":[^}]*', first)


# --------------------------------------------------------------------------------------------------
# Arrows


@mutation(16)
def second_source(document):
    i = document.arrow("event", "s")
    document.events.insert(i, document.events[i])


@mutation(16, "s", "f")
def lost_end(document, ph):
    document.events.pop(document.arrow("event", ph))


@mutation(16, '"id":1000', '"id":0', '"id":"7"', '"id":1.5')
def other_id(document, ident):
    i = document.arrow("event", "s")
    document.events[i] = re.sub(r'"id":\d+', ident, document.events[i])


@mutation(16)
def source_and_end_swapped(document):
    i = document.arrow("event", "s")
    ident = re.search(r'"id":\d+,', document.events[i]).group()
    document.swap(i, document.find(r'^\{"ph":"f".*' + ident))


@mutation(17, ("s", '"cat":"op"', '"cat":"flow"'), ("f", '"cat":"op"', '"cat":""'),
          ("f", '"name":"event"', '"name":"sync"'), ("s", '"name":"event"', '"name":"arrow"'))
@mutation(18, ("f", '"bp":"e",', ""), ("f", '"bp":"e"', '"bp":"s"'),
          ("s", '"pid"', '"bp":"e","pid"'))
@mutation(19, ("f", r'"tid":\d+', '"tid":1'), ("s", r'"tid":(\d+)\d', r'"tid":\g<1>7'),
          ("f", r'"pid":\d+', '"pid":11'))
def changed_arrow(document, ph, old, new):
    i = document.arrow("event", ph)
    changed = re.sub(old, new, document.events[i], count=1)
    assert changed != document.events[i]
    document.events[i] = changed


@mutation(19)
@mutation(21)
def arrow_on_parent_after_child(document):
    """A slice inside the kernel, and the kernel's arrow at the child's end."""
    kernel = document.find(KERNEL)
    child = re.sub('"ts":2.000,"dur":3.000', '"ts":2.500,"dur":0.500', document.events[kernel])
    arrow = document.find(r'^\{"ph":"f".*"pid":10,"tid":1000,"ts":2.000')
    moved = document.events.pop(arrow).replace('"ts":2.000', '"ts":3.000')
    at = next(i for i in range(arrow, len(document.events)) if float(document.ts(i)) >= 3)
    document.events[at:at] = [child, moved]


@mutation(20)
def arrow_backwards(document):
    i = document.find(r'^\{"ph":"s"')
    ident = re.search(r'"id":\d+,', document.events[i]).group()
    j = document.find(r'^\{"ph":"f".*' + ident)
    document.events[i] = document.events[i].replace('"ph":"s"', '"ph":"f","bp":"e"')
    document.events[j] = document.events[j].replace('"ph":"f","bp":"e"', '"ph":"s"')


@mutation(21)
def source_before_its_mark(document):
    i = document.arrow("event", "s")
    pid, tid, ts = document.place(i)
    slice_at = document.find(r'^\{"ph":"X","pid":%s,"tid":%s,"ts":%s' % (pid, tid, ts))
    document.events.insert(slice_at, document.events.pop(i))


@mutation(22, '{"ph":"i","pid":10,"tid":1000,"ts":9.000,"name":"x","s":"t"}', "{}",
          '{"ph":"b","pid":10,"tid":1000,"ts":9.000,"id":1,"name":"x","cat":"op"}')
def never_written(document, event):
    document.events.append(event)


# --------------------------------------------------------------------------------------------------
# Against the database


@mutation(23, '"name":"beside"', '"name":"enqueue 3 commands"',
          r'"name":"2 marks","cat":"op","args":\{"cmds":\[2')
@mutation(24, '"name":"resume e1"', '"name":"synced"')
@mutation(27, '"cat":"phase"')
@mutation(28, '"cat":"finding"', '"name":"2 findings"')
def lost_slice(document, pattern):
    document.remove(pattern)


@mutation(23, ('"name":"in graph 1"', '"tid":1000', '"tid":1002'),
          ('"name":"enqueue 3 commands"', r'"cmds":\[7,', '"cmds":['),
          ('"name":"beside"', '"tid":1003', '"tid":1004'))
@mutation(24, ('"name":"resume e1"', '"cmd":4', '"cmd":5'), ('"name":"synced"', "synced", "sync"),
          ('"name":"resume e1"', "resume", "wait"))
@mutation(27, ('"cat":"phase"', '"dur":3.000', '"dur":2.999'),
          ('"name":"communication-bound"', "all_reduce", "nothing"),
          ('"name":"launch-bound"', "launch", "compute"))
@mutation(28, ('"cat":"finding"', '"severity":"error"', '"severity":"warning"'),
          ('"name":"2 findings"', '"id":.2,', '"id":[1,'))
@mutation(26, (r'^\{"ph":"C".*"queue depth"', '"value":3', '"value":4'),
          ("e-04", r"4567(e-04)", r"4667\1"))
@mutation(30, ('"unfinished":1', ',"unfinished":1', ""))
def changed_slice(document, pattern, old, new):
    document.edit(pattern, old, new)


@mutation(25, "event", "event-done", "sync", "reuse", "enqueue")
def lost_arrow(document, name):
    """Both ends, with the ids of the others closed up."""
    lost = int(re.search(r'"id":(\d+)', document.events[document.arrow(name, "s")]).group(1))
    events = [e for e in document.events if not re.search(r'^\{"ph":"[sf]".*"id":%d,' % lost, e)]
    document.events = [
        re.sub(r'"id":(\d+)', lambda m: '"id":%d' % (int(m[1]) - (int(m[1]) > lost)), e)
        if re.match(r'\{"ph":"[sf]"', e) else e for e in events]
    count = int(re.search('"arrows":([0-9]+)', document.head).group(1))
    document.edit_head('"arrows":%d' % count, '"arrows":%d' % (count - 1))


@mutation(25)
def other_name_of_arrow(document):
    for ph in "sf":
        i = document.arrow("event", ph)
        document.events[i] = document.events[i].replace('"name":"event"', '"name":"reuse"')


@mutation(26)
def lost_counter(document):
    document.remove(r'^\{"ph":"C"')
    count = int(re.search('"counters":([0-9]+)', document.head).group(1))
    document.edit_head('"counters":%d' % count, '"counters":%d' % (count - 1))


# --------------------------------------------------------------------------------------------------
# Other exports of the same


def with_file(data, *content):
    """Checks `data` against other exports; content: (option, bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"again": [], "zipped": []}
        for number, (option, inside) in enumerate(content):
            path = os.path.join(folder, str(number))
            with open(path, "wb") as file:
                file.write(inside)
            paths[option].append(path)
        return check_perfetto.check(data, None, **paths).problems


def check_other_exports(data):
    """29: (title, options, whether it must fail)."""
    good = gzip.compress(data, mtime=0)
    named = good[:3] + b"\x08" + good[4:10] + b"run.json\0" + good[10:]
    cases = [
        ("an equal export", ("again", data), False),
        ("a compressed export", ("zipped", good), False),
        ("an export with a byte less", ("again", data[:-1]), True),
        ("a compressed export of something else", ("zipped", gzip.compress(b"x", mtime=0)), True),
        ("a compressed export with a time", ("zipped", gzip.compress(data, mtime=1)), True),
        ("a compressed export with a name", ("zipped", named), True),
        ("half a compressed export", ("zipped", good[:len(good) // 2]), True),
        ("a compressed export that isn't", ("zipped", data), True),
    ]
    for title, other, bad in cases:
        if (29 in with_file(data, other)) != bad:
            yield "check 29 %s: %s" % ("lets pass" if bad else "refuses", title)


# --------------------------------------------------------------------------------------------------


def unnoticed(data, model):
    """What should have been reported and was not."""
    for check, function, values in MUTATIONS:
        document = Document(data)
        changed = function(document, *values)
        changed = document.data() if changed is None else changed
        title = "%s%r" % (function.__name__, values)
        if changed == data:
            yield "%s changes nothing" % title
            continue
        problems = check_perfetto.check(changed, model).problems
        if check not in problems:
            yield "check %d does not see %s, only %s" % (check, title,
                                                         sorted(problems) or "nothing")


def main(words):
    if len(words) != 3:
        sys.exit(__doc__)
    with open(words[0], "rb") as file:
        data = file.read()
    model = perfetto_model.Model(words[1], words[2])
    troubles = ["the file does not pass: " + line
                for line in check_perfetto.check(data, model).lines()]
    if not troubles:
        troubles = list(unnoticed(data, model)) + list(check_other_exports(data))
        tried = {check for check, _, _ in MUTATIONS} | {29}
        troubles += ["check %d has no mutation" % n for n in set(range(1, 31)) - tried]
    for text in troubles:
        print(text)
    print("%d mutations, %d troubles" % (len(MUTATIONS) + 6, len(troubles)))
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
