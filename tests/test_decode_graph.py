#!/usr/bin/env python3
"""What a captured graph gives, predicted from the eager run and measured by running it.

The pair of scenarios/serving/decode_graph.lua at its real size: a mixture of experts that a graph
makes many times faster, and a dense model that it hardly helps. `orrery analyze` looks at the eager
run alone; the same model with graph=true says what is true. Virtual time: the numbers are exact.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORRERY = os.path.abspath(os.environ.get("ORRERY", os.path.join(ROOT, "build/release/orrery")))
SCENARIO = os.path.join(ROOT, "scenarios/serving/decode_graph.lua")

cases = 0
failures = 0


def case(name, good, said):
    global cases, failures
    cases += 1
    print("%s %d - %s: %s" % ("ok" if good else "not ok", cases, name, said))
    failures += not good


def run(folder, model, device, graph):
    """us for each token and the window of the steady steps."""
    path = os.path.join(folder, "run.db")
    done = subprocess.run([ORRERY, "run", SCENARIO, "model=" + model, "graph=" + graph,
                           "--timing-only", "--devices", device, "-o", path],
                          capture_output=True, text=True, check=True)
    token = re.search(r": ([0-9.]+) us a token", done.stdout)
    steady = re.search(r"--begin (\d+) --end (\d+)", done.stdout)
    return path, float(token.group(1)), steady.groups()


def analyze(path, window):
    done = subprocess.run([ORRERY, "analyze", path, "--json", "--begin", window[0], "--end",
                           window[1]], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def pair(folder, model, device, steps=4):
    path, eager, window = run(folder, model, device, "false")
    found = analyze(path, window)["devices"][0]
    saving = found["launch"]["graph_saving_ns"] / steps / 1e3
    tail = found["idle"]["after_last"] / steps / 1e3  # the host frees what the steps used
    _, graph, _ = run(folder, model, device, "true")
    return found, eager, graph, saving, tail


def check(name, model, device, bound, verdict, low, high):
    with tempfile.TemporaryDirectory() as folder:
        found, eager, graph, saving, tail = pair(folder, model, device)
    ratio, real = eager / graph, eager - graph
    case(name + ", launch-bound", found["launch"]["bound"] is bound,
         "%s, %s" % (found["launch"]["bound"], found["launch"]["why"]))
    case(name + ", verdict", found["verdict"] in verdict, found["verdict"])
    case(name + ", speed with a graph", low <= ratio <= high,
         "%.1f us eager, %.1f us with one launch, %.2f-fold" % (eager, graph, ratio))
    case(name + ", saving", abs(saving - real) <= 0.06 * real,
         "%.1f us a token predicted from the eager run, %.1f us in truth, %+.2f %%"
         % (saving, real, 100 * (saving - real) / real))
    case(name + ", saving and what is behind the last op",
         abs(saving + tail - real) <= 1e-3 * eager,
         "%.1f + %.1f us predicted, %.1f us in truth" % (saving, tail, real))


check("mixture of experts", "moe", "sim:h200", True, ["launch_bound"], 7, 12)
check("dense 8B", "dense", "sim:h100", False, ["mixed", "device_bound"], 1.1, 1.3)
print("1..%d" % cases)
sys.exit(failures > 0)
