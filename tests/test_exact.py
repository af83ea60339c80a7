#!/usr/bin/env python3
"""The exact figures of other tools' traces: `orrery analyze --json`, key "exact".

    ORRERY=build/release/orrery tests/test_exact.py [PATTERN]

Against expected numbers: of the real traces, where they are (../shared/traces), and of small ones
made by hand (tests/data/exact). Against exact_model.py, a second implementation, on random traces:
overlaps, ops of no length, damaged records, unlinked and early ops, calls of several records,
graph launches with and without ops, waits on anything, cycles among them, several processes. And
against itself, for what must not change a figure: order, a shift in time, how numbers are written.
ORR_TEST_SEED is the first seed, ORR_TEST_ROUNDS how many traces of each sort. Prints TAP. Needs
nothing but Python's standard library.
"""
import copy
import gzip
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import exact_model  # noqa: E402

ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
SEED = int(os.environ.get("ORR_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("ORR_TEST_ROUNDS", "60"))
REAL = ROOT.parent / "shared/traces"
OWN = ROOT / "tests/data/exact"


class Wrong(Exception):
    pass


def document(path, *options):
    done = subprocess.run([ORRERY, "analyze", str(path), "--json", *options], capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Wrong(f"exit {done.returncode}: {done.stderr.strip()[:300]}")
    return json.loads(done.stdout)


def exact(path):
    return document(path)["exact"]


def same(expected, found, what=""):
    lines = list(exact_model.differing(expected, found))
    if lines:
        raise Wrong(what + "; ".join(lines[:6]))


# --- expected numbers ---

def check_lines(folder):
    """Every line of a folder's expected.jsonl; an archive's members and its set in one go."""
    lines = [json.loads(line) for line in (folder / "expected.jsonl").open(encoding="utf-8")]
    files = {}
    for line in lines:
        files.setdefault(line["file"].split("/")[0], []).append(line)
    for name, wanted in files.items():
        whole = document(folder / name)
        found = {one["exact"]["file"]: one["exact"] for one in whole.get("ranks", [])}
        found[whole["exact"]["file"]] = whole["exact"]
        if "rank_set" in whole:
            found[whole["rank_set"]["file"]] = whole["rank_set"]
        for line in wanted:
            if line["file"] not in found:
                raise Wrong(f"{line['file']}: not in the answer, which has {sorted(found)}")
            same(line, found[line["file"]], line["file"] + ": ")
        for one in whole.get("ranks", [whole]):
            conserved(one)


def conserved(whole):
    for device in whole["devices"]:
        if device["residual_ns"] != 0:
            raise Wrong(f"residual {device['residual_ns']}")
        parts = device["compute_ns"] + device["exposed_comm_ns"] + device["exposed_copy_ns"] + \
            sum(device["idle"].values())
        if parts != device["window_ns"]:
            raise Wrong(f"classes sum to {parts} of {device['window_ns']}")
        if device["busy_ns"] > device["window_ns"]:
            raise Wrong("busier than 100 %")


# --- random traces ---

APIS = ["cudaLaunchKernel", "cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMemcpy",
        "cudaGraphLaunch", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMalloc",
        "cudaFree", "cudaEventRecord", "cudaStreamWaitEvent", "hipMemcpyWithStream", "cudaFuncGet",
        "cudaMemsetAsync", "cudaStreamCreate", "cudaMallocAsync", "cudaEventQuery"]
KERNELS = ["gemm", "relu", "ncclDevKernel_AllReduce", "elementwise", "DeepEP::dispatch", "rccl_x"]
OVERHEADS = ["Buffer Flush", "Instrumentation", "Resource", "Activity Buffer Request",
             "Command Buffer Full", "Lazy Function Loading"]


def us(draw, ns, plain=False):
    """ns as a number of us in one of the ways that writers have; a Text is written as it is."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    digits = f"{sign}{ns // 1000}.{ns % 1000:03d}"
    if plain:
        return Text(digits)
    if draw.random() < 0.05:
        digits += str(draw.randint(1, 999))  # finer than ns
    way = draw.randint(0, 5)
    return Text(f'"{digits}"' if way == 0 else digits)


class Text(str):
    """A number as it is to stand in the file."""


def dump(value):
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(dump(v) for v in value) + "]"
    return json.dumps(value)


def kineto(draw):
    """A random trace as a document; times up to `horizon`, so small that much coincides."""
    horizon = draw.choice([300, 3000, 400_000])
    stretch = draw.choice([20, 100, 5000])
    correlations = draw.choice([6, 30, 80])
    devices, streams = draw.randint(1, 3), draw.randint(1, 4)
    threads = [(100, 100), (100, 99), (100, 101)][:draw.randint(1, 3)]
    events = []

    def add(cat, name, pid, tid, args, begin=None, length=None):
        begin = draw.randint(1, horizon) if begin is None else begin
        length = draw.choice([0, draw.randint(0, stretch), draw.randint(0, stretch)]) \
            if length is None else length
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
                       "ts": us(draw, begin), "dur": us(draw, length), "args": args})
    for _ in range(draw.randint(0, 2 * correlations)):
        pid, tid = draw.choice(threads)
        args = {"correlation": draw.randint(1, correlations), "cbid": 1}
        if draw.random() < 0.03:
            del args["correlation"]
        if draw.random() < 0.03:
            args["correlation"] = -1
        length = -draw.randint(1, 9) if draw.random() < 0.02 else None
        add(draw.choice(["cuda_runtime", "cuda_driver", "Cuda_Runtime"]), draw.choice(APIS), pid,
            tid, args, length=length)
    for _ in range(draw.randint(0, 2 * correlations)):
        cat = draw.choice(["kernel", "kernel", "kernel", "Kernel", "gpu_memcpy", "gpu_memset"])
        name = draw.choice(KERNELS) if cat.lower() == "kernel" else "Memcpy HtoD"
        device, stream = draw.randrange(devices), 7 + draw.randrange(streams)
        args = {"device": device, "stream": stream, "correlation": draw.randint(1, correlations)}
        if cat == "gpu_memcpy":
            args["bytes"] = draw.randint(0, 1 << 40)
        if draw.random() < 0.2:
            del args["device"], args["stream"]
        if draw.random() < 0.05:
            args["correlation"] = -1
        bad = draw.random()
        if bad < 0.02:
            add(cat, name, device, stream, args, 0, 0)
        elif bad < 0.04:
            add(cat, name, device, stream, args, length=-draw.randint(1, 50))
        else:
            add(cat, name, device, stream, args)
    for _ in range(draw.choice([0, 0, 3, 12])):
        args = {"cuda_sync_kind": "Stream Wait Event", "device": draw.randrange(devices),
                "stream": 7 + draw.randrange(streams), "correlation": draw.randint(1, correlations),
                "wait_on_stream": 7 + draw.randrange(streams),
                "wait_on_cuda_event_record_corr_id": draw.randint(-1, correlations + 3)}
        if args["wait_on_cuda_event_record_corr_id"] == 0:
            del args["wait_on_cuda_event_record_corr_id"]
        add("cuda_sync", "Stream Wait Event", args["device"], args["stream"], args)
    for _ in range(draw.choice([0, 2, 6])):
        add("overhead", draw.choice(OVERHEADS), -1, 0, {})
    for _ in range(draw.choice([0, 5])):
        add(draw.choice(["cpu_op", "user_annotation", "gpu_user_annotation", "python_function",
                         "cuda_sync"]), "noise", 100, 100, {"External id": 1, "stream": 7})
    draw.shuffle(events)
    whole = {"schemaVersion": 1, "traceEvents": events}
    if draw.random() < 0.5:
        whole["baseTimeNanoseconds"] = draw.randint(0, 1 << 60)
    if draw.random() < 0.3:
        whole = dict(reversed(list(whole.items())))
    return whole


NSYS = {
    "StringIds": "id INTEGER, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,"
    " shortName INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid"
    " INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER, end INTEGER, deviceId INTEGER, contextId"
    " INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER,"
    " eventId INTEGER, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER",
    "PROFILER_OVERHEAD": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,"
    " overheadType INTEGER",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,"
    " overheadType INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
}


def nsys(draw, path):
    """A random export of two processes that use the same correlations."""
    base = sqlite3.connect(path)
    horizon, stretch, correlations = draw.choice([(300, 20, 10), (4000, 100, 40)])
    processes = [(1 << 48) + (pid << 24) for pid in (5, 6)]
    names = APIS + [f"{name}_v{draw.choice([2, 3020, 10000])}" for name in APIS] + KERNELS
    optional = ("MEMSET", "OVERHEAD", "CUDA_EVENT", "SYNCHRONIZATION", "SESSION", "MEMCPY")
    absent = [table for table in NSYS if any(word in table for word in optional)
              and draw.random() < 0.2]
    rows = {table: [] for table in NSYS}
    rows["TARGET_INFO_SESSION_START_TIME"] = [(draw.randint(0, 1 << 60), "", "")]

    def stamps(bad=True):
        begin = draw.randint(1, horizon)
        chance = draw.random() if bad else 1
        return (0, 0) if chance < 0.02 else (begin, begin - 5) if chance < 0.04 else \
            (begin, begin + draw.randint(0, stretch))

    def place(process):
        return draw.randrange(2), draw.randrange(1, 3), 7 + draw.randrange(3), \
            draw.randint(1, correlations), process
    for _ in range(draw.randint(0, 4 * correlations)):
        process = draw.choice(processes)
        rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
            (*stamps(False), 0, process + draw.randint(1, 3), draw.randint(1, correlations),
             draw.randrange(2 * len(APIS)), 0))
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        for _ in range(draw.randint(1, 2 * correlations)):
            first = 2 * len(APIS) + draw.randrange(len(KERNELS)) if kind == "KERNEL" \
                else draw.randint(0, 9999)
            rows[f"CUPTI_ACTIVITY_KIND_{kind}"].append(
                (*stamps(), *place(draw.choice(processes)), first, first))
    for i in range(draw.choice([0, 4, 12])):
        # A number of its own: the call's name must not contradict the type.
        device, context, stream, _, process = place(draw.choice(processes))
        kind, sync = draw.randint(1, 4), draw.randint(1, 6)
        if draw.random() < 0.7:
            call = {1: "cudaEventSynchronize", 2: "cudaStreamWaitEvent",
                    3: "cudaStreamSynchronize", 4: "cudaDeviceSynchronize"}[kind]
            if call not in names:
                names.append(call)
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
                (*stamps(False), 0, process + 1, 1000 + i, names.index(call), 0))
        rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append(
            (*stamps(False), device, context, stream, 1000 + i, process, kind,
             draw.choice([1, 2, exact_model.NO_EVENT]), sync))
    for sync in range(1, 6):
        for process in processes:
            if draw.random() < 0.7:
                rows["CUPTI_ACTIVITY_KIND_CUDA_EVENT"].append((*place(process), 1, sync))
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        for _ in range(draw.choice([0, 3])):
            rows[table].append((*stamps(False), draw.choice(processes) + 1, 0, draw.randint(0, 8)))
    rows["StringIds"] = list(enumerate(names))
    for table, columns in NSYS.items():
        if table in absent:
            continue
        base.execute(f"create table {table} ({columns})")
        for row in rows[table]:
            base.execute(f"insert into {table} values ({','.join('?' * len(row))})", row)
    base.commit()
    base.close()


def write(folder, name, whole):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(dump(whole))
    return path


def with_seed(seed, work):
    try:
        work(random.Random(seed))
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from wrong


def random_kineto(folder):
    def work(draw):
        path = write(folder, "random.json", kineto(draw))
        whole = document(path)
        same(exact_model.figures(path)[0], whole["exact"])
        conserved(whole)
    for seed in range(SEED, SEED + ROUNDS):
        with_seed(seed, work)


def random_nsys(folder):
    def work(draw):
        path = os.path.join(folder, "random.sqlite")
        if os.path.exists(path):
            os.remove(path)
        nsys(draw, path)
        whole = document(path)
        same(exact_model.figures(path)[0], whole["exact"])
        conserved(whole)
    for seed in range(SEED, SEED + ROUNDS):
        with_seed(seed, work)


# --- what changes nothing, and what changes one thing ---

def sources(folder):
    """Documents for the metamorphic tests: (name, document)."""
    for seed in range(SEED, SEED + ROUNDS // 6):
        draw = random.Random(1000 + seed)
        yield f"seed {1000 + seed}", json.loads(dump(kineto(draw)), parse_float=Text)
    for name in ("made_edge_cases.json", "tl_h100_bert_launchbound.json.gz",
                 "tl_mi_vllm_hipgraph.json.gz", "hta_a100_event_sync_multistream.json.gz"):
        if (REAL / name).exists():
            data = (REAL / name).read_bytes()
            data = gzip.decompress(data) if name.endswith("gz") else data
            yield name, json.loads(data, parse_float=Text)


def is_op(event):
    return event.get("ph") == "X" and str(event.get("cat")).lower() in exact_model.OP_CATS


def metamorphic(change):
    """change(document, exact before, draw) -> expected exact; the document is changed in place."""
    def work(folder):
        for name, whole in sources(folder):
            draw = random.Random(SEED)
            before = exact(write(folder, "trace.json", whole))
            changed = copy.deepcopy(whole)
            expected = change(changed, copy.deepcopy(before), draw)
            after = document(write(folder, "trace.json", changed))
            if expected is not None:
                same(expected, after["exact"], f"{name}: ")
            conserved(after)
    return work


def shuffled(folder):
    """Not the exact figures alone: nothing in the whole report depends on the order of a file."""
    for name, whole in sources(folder):
        before = document(write(folder, "trace.json", whole))
        random.Random(SEED).shuffle(whole["traceEvents"])
        same(before, document(write(folder, "trace.json", whole)), f"{name}: ")


def rewritten(whole, before, draw):
    """The same numbers in another spelling."""
    for event in whole["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event and not isinstance(event[key], bool):
                text = str(event[key])
                text = text + "000" if "." in text else text + ".000"
                event[key] = Text(f'"{text}"' if draw.random() < 0.5 else text)
    return before


def shifted(whole, before, draw):
    """Every time by a constant; records with ts 0 and dur 0 are lost wherever they stand, so they
    are left there."""
    by = draw.choice([1, 999, 1_000_000_007])
    for event in whole["traceEvents"]:
        if "ts" not in event:
            continue
        at, _ = exact_model.decimal_ns(event["ts"])
        length, _ = exact_model.decimal_ns(event.get("dur", 0))
        text = str(event["ts"])
        if is_op(event) and at == 0 and length == 0:
            continue
        digits = f"{(at + by) // 1000}.{(at + by) % 1000:03d}"
        if at >= 0 and "." in text:
            digits += text.split(".")[1][3:]  # finer than ns: stays
        event["ts"] = Text(digits)
    for device in before["devices"]:
        device["first_ns"] += by
        device["last_ns"] += by
    return before


def without_calls(whole, before, draw):
    whole["traceEvents"] = [event for event in whole["traceEvents"]
                            if str(event.get("cat", "")).lower() not in exact_model.API_CATS]
    keep = ("gpu_ops", "kernels", "memcpys", "memsets", "memcpy_bytes", "top_kernels", "bad_ops",
            "zero_len_ops", "streams")
    out = {key: before[key] for key in keep}
    out.update(api_calls=0, linked=0, unlinked=before["gpu_ops"], devices=[])
    for device in before["devices"]:
        classes = dict.fromkeys(device["classes"], 0)
        for key in ("compute", "exposed_comm", "exposed_copy"):
            classes[key] = device["classes"][key]
        classes["unknown_unlinked"] = device["idle_ns"]
        out["devices"].append({**{key: device[key] for key in (
            "device", "ops", "first_ns", "last_ns", "span_ns", "busy_ns", "idle_ns")},
            "classes": classes, "launch_bound": False if device["span_ns"] else None})
    return out


def renamed(whole, before, draw):
    """All kernels get a name that says nothing: communication becomes computation."""
    for event in whole["traceEvents"]:
        if is_op(event) and str(event["cat"]).lower() == "kernel":
            event["name"] = "x" + str(len(event["name"]))
    del before["top_kernels"]
    for device in before["devices"]:
        for key in ("compute_ns", "comm_ns", "copy_ns", "comm_compute_overlap_ns"):
            del device[key]
        for key in ("compute", "exposed_comm", "exposed_copy"):
            del device["classes"][key]
    return before


def cut(folder):
    """A file that ends anywhere is analysed up to there, and says so."""
    for name, whole in sources(folder):
        draw = random.Random(name)
        text = dump(whole)
        start = text.index("traceEvents")
        for _ in range(4):
            at = draw.randint(start + 20, len(text) - 3)
            path = os.path.join(folder, "cut.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text[:at])
            found = document(path)
            conserved(found)
            kinds = {check["kind"] for check in found["doctor"]["checks"]}
            if not any(kind.startswith("import_") for kind in kinds):
                raise Wrong(f"{name}: cut at {at}, and nothing says so: {sorted(kinds)}")


TESTS = {
    "the real traces: every key of every line": lambda folder: check_lines(REAL),
    "small traces made by hand": lambda folder: check_lines(OWN),
    "random Kineto traces, against the model": random_kineto,
    "random nsys exports, against the model": random_nsys,
    "the order of events changes nothing": shuffled,
    "the spelling of numbers changes nothing": metamorphic(rewritten),
    "a constant added to every time moves first and last": metamorphic(shifted),
    "without calls all idle time is unlinked": metamorphic(without_calls),
    "names of kernels change the split of communication alone": metamorphic(renamed),
    "a cut anywhere is flagged, and conserves": cut,
}


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [name for name in TESTS if pattern in name]
    print(f"# ORR_TEST_SEED={SEED}, {ROUNDS} rounds")
    print(f"1..{len(chosen)}")
    failed = False
    for number, name in enumerate(chosen, 1):
        if "real traces" in name and not (REAL / "expected.jsonl").exists():
            print(f"ok {number} - {name} # SKIP ../shared/traces is not there")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                TESTS[name](folder)
                print(f"ok {number} - {name}", flush=True)
            except Wrong as wrong:
                failed = True
                print(f"not ok {number} - {name}\n# {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
