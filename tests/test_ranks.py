#!/usr/bin/env python3
"""`orrery analyze` of the ranks of a job, from outside: made sets, whose truth is known, and the
real set when it is there.

    ORRERY=build/release/orrery tests/test_ranks.py [PATTERN]

A made job has clocks that are apart, ranks of different speed, a compute and a communication stream
whose waits are recorded, and windows as profilers write them. ORR_TEST_SEED is the first seed.
Prints TAP. Needs nothing but Python's standard library.
"""
import gzip
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared/traces"
REAL_SET = "param_dlrm_8rank_kineto.tar.gz"
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
SEED = int(os.environ.get("ORR_TEST_SEED", "1"))
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
COMPUTE, COMM = 7, 20


class Wrong(Exception):
    pass


def expect(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what}: got {str(got)[:300]}, wanted {str(wanted)[:300]}")


def run(*arguments, code=0):
    done = subprocess.run([ORRERY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)
    expect(f"exit code of {arguments[0]} ({done.stderr.strip()[:200]})", done.returncode, code)
    return done


def analyze(*paths):
    return json.loads(run("analyze", *paths, "--json").stdout)


# --- made traces ---

class Rank:
    """Events of one process; times in ns of the true clock, written in that of the rank."""

    def __init__(self, number, world, clock=0, base=None):
        self.number, self.world, self.clock, self.base = number, world, clock, base
        self.events, self.correlation, self.called = [], 0, 0

    def stamp(self, ns):
        ns += self.clock
        return f"{ns // 1000}.{ns % 1000:03d}"

    def slice(self, cat, name, tid, begin, end, args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 1000 + self.number,
                            "tid": tid, "ts": self.stamp(begin), "dur": f"{(end - begin) // 1000}."
                            f"{(end - begin) % 1000:03d}", "args": args})

    def call(self, name):
        """The host is far ahead of the device: 1 us a call from time 0 on."""
        self.correlation += 1
        self.slice("cuda_runtime", name, 1, self.called, self.called + 500,
                   {"correlation": self.correlation})
        self.called += 1000
        return self.correlation

    def kernel(self, name, stream, begin, end, **args):
        correlation = self.call("cudaLaunchKernel")
        self.slice("kernel", name, stream, begin, end,
                   {"device": self.number, "stream": stream, "correlation": correlation, **args})

    def wait(self, stream, source):
        record = self.call("cudaEventRecord")
        correlation = self.call("cudaStreamWaitEvent")
        self.slice("cuda_sync", "Stream Wait Event", stream, self.called - 1000, self.called - 900,
                   {"cuda_sync_kind": "Stream Wait Event", "stream": stream, "device": self.number,
                    "correlation": correlation, "wait_on_stream": source,
                    "wait_on_cuda_event_record_corr_id": record})

    def document(self):
        text = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": self.number,
                                                        "world_size": self.world}}
        if self.base is not None:
            text["baseTimeNanoseconds"] = self.base
        text["traceEvents"] = self.events
        return json.dumps(text)


def write(ranks, folder, name="rank{}.json"):
    paths = []
    for rank in ranks:
        path = os.path.join(folder, name.format(rank.number))
        with open(path, "w", encoding="utf-8") as out:
            out.write(rank.document())
        paths.append(path)
    return paths


class Truth:
    """What a made job must come out as."""

    def __init__(self, ranks):
        self.last = [0] * ranks
        self.suffered, self.caused, self.comm = [0] * ranks, [0] * ranks, [0] * ranks
        self.transfers, self.compute = [], 0

    def add(self, starts, end, works):
        arrival = max(starts)
        last = starts.index(arrival)
        second = max(starts[:last] + starts[last + 1:])
        if arrival > second:
            self.last[last] += 1
            self.caused[last] += arrival - second
        for rank, start in enumerate(starts):
            self.suffered[rank] += arrival - start
            self.comm[rank] += end - start
        self.transfers.append(end - arrival)
        self.compute += works[last]


def job(draw, count, steps, world=None, named=False, clocks=True, waits=True):
    """Steps of a computation and an all-reduce of what it made."""
    ranks = [Rank(r, world or count, draw.randint(-10**6, 10**6) * (r > 0) * clocks + 10**9)
             for r in range(count)]
    truth, now = Truth(count), 10**6 + 20_000 * steps
    for step in range(steps):
        works = [draw.randint(1000, 90_000) for _ in ranks]
        starts = [now + work for work in works]
        end = max(starts) + draw.randint(10_000, 30_000)
        truth.add(starts, end, works)
        for rank in ranks:
            fields = {"Collective name": "allreduce", "Process Group Name": "0",
                      "Process Group Ranks": str(list(range(rank.world))), "Seq": 40 + step,
                      "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": rank.world,
                      "dtype": "Float"} if named else {}
            rank.kernel("gemm", COMPUTE, now, starts[rank.number])
            if waits:
                rank.wait(COMM, COMPUTE)
            rank.kernel(ALL_REDUCE, COMM, starts[rank.number], end, **fields)
            if waits:
                rank.wait(COMPUTE, COMM)
        now = end
    for rank in ranks:
        rank.kernel("tail", COMPUTE, now, now + 1000)
    return ranks, truth


def check_stragglers(document, truth, ranks):
    analysis = document["rank_analysis"]
    expect("aligned", analysis["clock"]["aligned"], True)
    rows = analysis["stragglers"]
    expect("times last", [row["times_last"] for row in rows], truth.last)
    expect("suffered", [row["wait_suffered_ns"] for row in rows], truth.suffered)
    expect("caused", [row["wait_caused_ns"] for row in rows], truth.caused)
    expect("comm", [row["comm_ns"] for row in rows], truth.comm)
    expect("offsets", [row["offset_ns"] for row in analysis["clock"]["offsets"]],
           [rank.clock - ranks[0].clock for rank in ranks])
    expect("residuals", {row["residual_max_ns"] for row in analysis["clock"]["offsets"][1:]}, {0})
    expect("transfers", [row["transfer_ns"] for row in analysis["collectives"]], truth.transfers)
    worst = truth.caused.index(max(truth.caused))
    if analysis["missing"]:
        expect("straggler", analysis["straggler"], None)
    elif max(truth.caused) > 0:
        expect("straggler", analysis["straggler"]["rank"], worst)


def check_whole(document):
    for device in document["rank_analysis"]["devices"]:
        expect(f"residual of rank {device['rank']}", device["residual_ns"], 0)
        parts = device["compute_ns"] + device["exposed_comm_ns"] + device["exposed_copy_ns"] + \
            sum(device["idle"].values())
        expect(f"classes of rank {device['rank']}", parts, device["window_ns"])
    path = document["rank_analysis"]["critical_path"]
    expect("path's residual", path["residual_ns"], 0)
    expect("path by kinds", sum(path["kinds"].values()), path["length_ns"])
    expect("path by ranks", sum(row["time_ns"] for row in path["ranks"]) + path["unknown_rank_ns"],
           path["length_ns"])


# --- tests ---

TESTS = {}


def test(function):
    TESTS[function.__name__.replace("_", " ")] = function
    return function


@test
def made_jobs_come_out_as_they_are(folder):
    for seed in range(SEED, SEED + 8):
        draw = random.Random(seed)
        print(f"# seed {seed}")
        ranks, truth = job(draw, draw.randint(2, 6), draw.randint(1, 12), named=seed % 2 == 0)
        document = analyze(*write(ranks, folder))
        check_stragglers(document, truth, ranks)
        check_whole(document)
        expect("format", document["format"], "kineto-set")
        expect("rank_set", document["rank_set"], document["exact"])
        expect("documents", [d["format"] for d in document["ranks"]], ["kineto"] * len(ranks))


@test
def the_path_follows_the_slowest_rank(folder):
    ranks, truth = job(random.Random(SEED), 4, 10)
    path = analyze(*write(ranks, folder))["rank_analysis"]["critical_path"]
    expect("compute on it", path["kinds"]["compute"], truth.compute + 1000)
    expect("communication on it", path["kinds"]["comm"], sum(truth.transfers))
    if path["hops"] < 3:
        raise Wrong(f"{path['hops']} changes of rank")


@test
def waits_that_are_not_recorded_are_inferred_apart(folder):
    ranks, truth = job(random.Random(SEED), 4, 10, waits=False)
    document = analyze(*write(ranks, folder))
    check_whole(document)
    recorded = document["rank_analysis"]["critical_path"]
    inferred = document["rank_analysis"]["inferred_path"]
    expect("changes of rank, as recorded", recorded["hops"], 0)
    # Each computation but the first waits for the all-reduce before, each all-reduce for its own.
    expect("inferred waits", inferred["inferred_waits"], 4 * (10 + 10))
    expect("compute on it", inferred["kinds"]["compute"], truth.compute + 1000)
    expect("communication on it", inferred["kinds"]["comm"], sum(truth.transfers))
    expect("length", inferred["length_ns"], recorded["length_ns"])
    ranks, truth = job(random.Random(SEED), 2, 3)
    expect("where waits are recorded", analyze(*write(ranks, folder))["rank_analysis"]
           ["inferred_path"], None)


@test
def the_order_of_files_does_not_matter(folder):
    ranks, _ = job(random.Random(SEED), 5, 6)
    paths = write(ranks, folder)
    first = analyze(*paths)
    random.Random(SEED).shuffle(paths)
    second = analyze(*paths)
    for document in (first, second):
        for part in (document, document["exact"], document["rank_set"]):
            del part["file"]
    expect("document of shuffled files", second, first)


@test
def an_archive_is_its_files(folder):
    ranks, truth = job(random.Random(SEED), 3, 5)
    archive = os.path.join(folder, "job.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        for rank in reversed(ranks):
            data = gzip.compress(rank.document().encode()) if rank.number == 1 else \
                rank.document().encode()
            entry = tarfile.TarInfo(f"job/rank{rank.number}.json" + ".gz" * (rank.number == 1))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    document = analyze(archive)
    expect("file", document["exact"]["file"], "job.tar.gz")
    check_stragglers(document, truth, ranks)


@test
def a_rank_without_a_trace_is_named_and_no_verdict_given(folder):
    ranks, truth = job(random.Random(SEED), 4, 6, named=True)
    kept = [rank for rank in ranks if rank.number != 2]
    document = analyze(*write(kept, folder))
    expect("missing", document["rank_analysis"]["missing"], [2])
    expect("straggler", document["rank_analysis"]["straggler"], None)
    if "have no trace (2)" not in document["rank_analysis"]["straggler_why"]:
        raise Wrong(document["rank_analysis"]["straggler_why"])
    # Group size is that of the job, not of the traces.
    text = run("analyze", *write(kept, folder)).stdout
    if "without a trace: 2" not in text:
        raise Wrong(text[:500])


@test
def windows_of_different_length_match_by_number_and_not_by_ordinal(folder):
    for named in (True, False):
        ranks, truth = job(random.Random(SEED), 2, 6, named=named)
        # Rank 1's profiler began two steps later.
        first = [e for e in ranks[1].events if e["cat"] == "kernel"][4]["ts"]
        kept = {e["args"]["correlation"] for e in ranks[1].events
                if e["cat"] == "kernel" and float(e["ts"]) >= float(first)}
        ranks[1].events = [e for e in ranks[1].events
                           if e["cat"] == "cuda_sync" or e["args"]["correlation"] in kept]
        document = analyze(*write(ranks, folder))
        analysis = document["rank_analysis"]
        expect("by plain ordinal", document["exact"]["collectives"], None)
        expect("counts", document["exact"]["comm_per_rank"], [6, 4])
        if named:
            expect("matched", analysis["collective_count"], 4)
            expect("transfers", [c["transfer_ns"] for c in analysis["collectives"]],
                   truth.transfers[2:])
            expect("numbers", [c["seq"] for c in analysis["collectives"]], [42, 43, 44, 45])
        else:
            expect("matched", analysis["collective_count"], 0)
            expect("stragglers", analysis["stragglers"], None)
            why = analysis["matching"]["refusals"][0]["why"]
            if "counts differ: 6 on rank 0, 4 on rank 1" not in why:
                raise Wrong(why)


@test
def a_pipeline_is_matched_by_pairs(folder):
    ranks = [Rank(r, 3, 10**9) for r in range(3)]
    fields = {"Process Group Name": "pp", "Process Group Ranks": "[0, 1, 2]", "Group size": 3}
    for rank in ranks:
        for micro in range(4):
            at = 10**6 + 10_000 * (micro + rank.number)
            if rank.number > 0:
                rank.kernel(SEND_RECV, COMM, at - 500, at + 700, **fields,
                            **{"Collective name": "recv", "Src Rank": rank.number - 1})
            rank.kernel("gemm", COMPUTE, at + 1000, at + 9000)
            if rank.number < 2:
                rank.kernel(SEND_RECV, COMM, at + 10_000, at + 10_700, **fields,
                            **{"Collective name": "send", "Dst Rank": rank.number + 1})
    analysis = analyze(*write(ranks, folder))["rank_analysis"]
    expect("pairs", [c["matched_by"] for c in analysis["collectives"]], ["pair"] * 8)
    expect("refusals", analysis["matching"]["refusals"], [])


@test
def bubbles_of_a_pipeline_are_what_the_schedule_makes(folder):
    """Forward only: stage r computes microbatch i from WORK * (r + i); nothing else takes time."""
    work, stages, micros, steps = 10_000, 3, 4, 2
    ranks = [Rank(r, stages, 777_000 * r + 10**9) for r in range(stages)]
    fields = {"Process Group Name": "pp", "Process Group Ranks": "[0, 1, 2]", "Group size": 3}
    span = work * (stages + micros - 1)
    for rank in ranks:
        for step in range(steps):
            begin = 10**6 + step * (span + 5000)
            called = rank.called
            for micro in range(micros):
                at = begin + work * (rank.number + micro)
                if rank.number > 0:
                    rank.kernel(SEND_RECV, COMM, at - 300, at, **fields,
                                **{"Collective name": "recv", "Src Rank": rank.number - 1})
                rank.kernel("gemm", COMPUTE, at, at + work)
                if rank.number + 1 < stages:
                    rank.kernel(SEND_RECV, COMM, at + work - 300, at + work, **fields,
                                **{"Collective name": "send", "Dst Rank": rank.number + 1})
            rank.slice("user_annotation", f"ProfilerStep#{step + 5}", 1, called, rank.called, {})
        end = 10**6 + steps * (span + 5000)
        rank.kernel(ALL_REDUCE, COMM, end, end + 1000)  # what clocks are aligned by
    rows = analyze(*write(ranks, folder))["rank_analysis"]["bubbles"]
    expect("rows", [(row["rank"], row["step"]) for row in rows],
           [(r, s + 5) for r in range(stages) for s in range(steps)])
    for row in rows:
        expect("window", row["window_ns"], span)
        expect("compute", row["compute_ns"], work * micros)
        expect("transfer", row["transfer_ns"], 300 if row["rank"] > 0 else 0)
        expect("bubble", row["bubble_ns"], span - work * micros - row["transfer_ns"])
        expect("classes", sum(row["classes"].values()), row["bubble_ns"])
        expect("stages and microbatches", (row["stages"], row["microbatches"]), (stages, micros))
        expect("ideal", row["ideal_share"], round((stages - 1) / (micros + stages - 1), 6))


@test
def clocks_with_a_base_of_their_own_are_brought_together(folder):
    ranks, truth = job(random.Random(SEED), 3, 5, clocks=False)
    for rank in ranks:
        rank.base = 1_700_000_000_000_000_000 + 5_000_000 * rank.number
        shift = 5_000 * rank.number
        for event in rank.events:  # the same instants, told from another zero
            whole, part = event["ts"].split(".")
            event["ts"] = f"{int(whole) - shift}.{part}"
    document = analyze(*write(ranks, folder))
    check_stragglers(document, truth, ranks)
    expect("bases", [row["base_ns"] for row in document["rank_analysis"]["clock"]["offsets"]],
           [0, 5_000_000, 10_000_000])
    expect("offsets by ordinal", document["exact"]["offset_ns"], [0, 0, 0])


@test
def the_same_rank_twice_is_refused(folder):
    ranks, _ = job(random.Random(SEED), 2, 3)
    paths = write(ranks, folder)
    document = analyze(paths[0], paths[0])
    expect("collectives", document["exact"]["collectives"], None)
    if "rank 0 is there twice" not in document["rank_analysis"]["matching"]["refused"]:
        raise Wrong(document["rank_analysis"]["matching"]["refused"])


@test
def traces_without_gpu_work_are_fine(folder):
    ranks = [Rank(r, 2) for r in range(2)]
    document = analyze(*write(ranks, folder))
    expect("devices", document["rank_analysis"]["devices"], [])
    run("analyze", *write(ranks, folder))


@test
def sixty_four_ranks(folder):
    ranks, truth = job(random.Random(SEED), 64, 20, named=True)
    document = analyze(*write(ranks, folder))
    check_stragglers(document, truth, ranks)
    check_whole(document)


@test
def in_our_own_runs_the_straggler_is_the_slow_device(folder):
    trace = os.path.join(folder, "run.db")
    run("run", ROOT / "scenarios/faults/straggler.lua", "by=3", "-o", trace)
    analysis = analyze(trace)["rank_analysis"]
    expect("one clock", (analysis["clock"]["one_clock"], analysis["clock"]["aligned"]),
           (True, True))
    expect("straggler", analysis["straggler"]["rank"], 1)
    expect("matched by", {c["matched_by"] for c in analysis["collectives"]}, {"recorded"})
    # Three steps, of 200 us where the device is not slow.
    caused = analysis["straggler"]["wait_caused_ns"]
    if not 3 * 390_000 < caused <= 3 * 400_000:
        raise Wrong(f"rank 1 causes {caused}")
    if "rank 1 arrives last in 3 of 3" not in run("analyze", trace).stdout:
        raise Wrong("the text does not say so")


@test
def traces_of_several_sorts_are_no_set(folder):
    trace = os.path.join(folder, "run.db")
    run("run", ROOT / "scenarios/faults/straggler.lua", "-o", trace)
    ranks, _ = job(random.Random(SEED), 2, 2)
    done = run("analyze", trace, write(ranks, folder)[0], code=3)
    if "orrery and kineto" not in done.stderr:
        raise Wrong(done.stderr)


@test
def times_at_the_end_of_the_world_do_not_wrap(folder):
    ranks, _ = job(random.Random(SEED), 3, 4)
    stamps = ("9223372036854775.807", "-9223372036854775.808", "1e300")
    for rank, base, stamp in zip(ranks, (-(1 << 63), 0, (1 << 63) - 1), stamps):
        rank.base = base
        for at, event in enumerate(rank.events):
            if at % 7 == 3 * rank.number:
                event["ts"] = stamp
    document = analyze(*write(ranks, folder))
    for device in document["rank_analysis"]["devices"]:
        expect("residual", device["residual_ns"], 0)
    for rank in document["ranks"]:
        for device in rank["devices"]:
            expect("residual", device["residual_ns"], 0)
    run("analyze", *write(ranks, folder))


@test
def a_rank_whose_file_is_cut_is_told_and_not_guessed(folder):
    ranks, truth = job(random.Random(SEED), 3, 6)
    paths = write(ranks, folder)
    size = os.path.getsize(paths[1])
    os.truncate(paths[1], size * 2 // 3)
    text = run("analyze", *paths).stdout
    for words in ("counts differ: 6 on rank 0", "import_cut: rank 1: "):
        if words not in text:
            raise Wrong(f"{words!r} is not in the report:\n{text[:2000]}")
    analysis = analyze(*paths)["rank_analysis"]
    expect("straggler", (analysis["straggler"], analysis["stragglers"]), (None, None))
    # With sequence numbers, what is there is matched.
    ranks, truth = job(random.Random(SEED), 3, 6, named=True)
    paths = write(ranks, folder)
    os.truncate(paths[1], os.path.getsize(paths[1]) * 2 // 3)
    transfers = [c["transfer_ns"] for c in analyze(*paths)["rank_analysis"]["collectives"]]
    expect("transfers", transfers, truth.transfers[:len(transfers)])
    if not 0 < len(transfers) < 6:
        raise Wrong(f"{len(transfers)} of 6 are matched")


@test
def a_set_that_was_imported_says_the_same(folder):
    if " import " not in run("--help").stdout.replace("\n", " "):
        print("# no verb import here")
        return
    ranks, truth = job(random.Random(SEED), 4, 6, world=4)
    paths = write(ranks, folder)
    before = analyze(*paths)
    database = os.path.join(folder, "set.db")
    run("import", *paths, "-o", database)
    after = analyze(database)
    for key in ("times_last", "wait_suffered_ns", "wait_caused_ns", "comm_ns", "transfer_ns"):
        expect(key, [row[key] for row in after["rank_analysis"]["stragglers"]],
               [row[key] for row in before["rank_analysis"]["stragglers"]])
    expect("path", after["critical_path"]["kinds"],
           before["rank_analysis"]["critical_path"]["kinds"])
    expect("window", after["window_ns"], before["window_ns"])
    database = os.path.join(folder, "part.db")
    run("import", *paths[:1], *paths[2:], "-o", database)
    analysis = analyze(database)["rank_analysis"]
    expect("missing", (analysis["missing"], analysis["straggler"]), ([1], None))


@test
def the_real_set_has_its_known_figures(_):
    lines = [json.loads(line) for line in open(REAL / "expected.jsonl", encoding="utf-8")]
    wanted = {line["file"]: line for line in lines}
    document = analyze(REAL / REAL_SET)
    expect("exact", document["exact"], wanted[REAL_SET])
    expect("rank_set", document["rank_set"], wanted[REAL_SET])
    for rank in document["ranks"]:
        expect(rank["exact"]["file"], rank["exact"], wanted[rank["exact"]["file"]])
    analysis = document["rank_analysis"]
    expect("times last", [row["times_last"] for row in analysis["stragglers"]],
           [0, 0, 0, 0, 1, 2, 0, 5])
    expect("straggler", analysis["straggler"]["rank"], 7)
    for row in analysis["clock"]["offsets"]:
        if not -2000 <= row["offset_ns"] <= 0 or (row["residual_max_ns"] or 0) > 5000:
            raise Wrong(f"offset {row}")
    check_whole(document)


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [name for name in TESTS if pattern in name]
    print(f"# ORR_TEST_SEED={SEED}")
    print(f"1..{len(chosen)}")
    failed = False
    for number, name in enumerate(chosen, 1):
        if "real set" in name and not (REAL / REAL_SET).exists():
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
