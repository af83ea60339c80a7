#!/usr/bin/env python3
"""Every parallel strategy: numbers of one device, bytes of its collectives as the closed forms.

    ORRERY=build/release/orrery tests/test_strategies.py [PATTERN]

Numbers: scenarios/training/strategies.lua compares losses, gradients and weights itself; here is
the list of what it is run on, on simulated devices, on CPU threads, and on logical CUDA devices of
a fake GPU where the build has one.

Traffic: one training step of scenarios/training/llama.lua; the bytes of each collective in its
trace, by mesh axis, must be those of the table below, to the byte.

Prints TAP. Needs nothing but Python's standard library.
"""
import concurrent.futures
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
FAKE = os.path.join(os.path.dirname(ORRERY), "fake")
SCHEDULES = ("gpipe", "1f1b", "zero_bubble", "bidirectional")

# --- numbers -------------------------------------------------------------------------------------


def strategies():
    """(model, arguments) of every strategy that must give one device's numbers."""
    llama = ["dp=2", "dp=4 microbatches=2", "tp=2 sequence=false", "tp=4 sequence=false", "tp=2",
             "tp=4", "cp=2", "cp=4", "cp=2 context=all_to_all", "cp=4 context=all_to_all",
             "dp=2 recompute=full", "tp=2 recompute=selective", "dp=2 clip=0.5"]
    llama += ["dp=2 pp=2 zero=3 microbatches=2 schedule=zero_bubble",
              "pp=2 microbatches=4 recompute=full schedule=zero_bubble",
              "dp=2 tp=2 pp=2 cp=2 context=all_to_all zero=1 microbatches=2"]
    both = ["dp=2 tp=2 pp=2 microbatches=2", "dp=2 tp=2 pp=2 cp=2 microbatches=2"]
    for zero in (1, 2, 3):
        both += [f"dp=2 zero={zero} microbatches=2", f"dp=4 zero={zero}",
                 f"dp=2 tp=2 zero={zero}"]
    for ranks in (2, 4):
        both += [f"pp={ranks} microbatches=4 schedule={kind}" for kind in SCHEDULES]
        both += [f"pp={ranks} microbatches=4 schedule=interleaved chunks=2"]
    moe = ["dp=2", "tp=2", "tp=4", "tp=2 sequence=false", "tp=4 sequence=false", "cp=2", "cp=4",
           "cp=2 context=all_to_all", "cp=4 context=all_to_all", "ep=2", "ep=4",
           "dp=2 ep=2 tp=2", "ep=2 zero=2", "ep=2 pp=2 microbatches=2 schedule=zero_bubble",
           "ep=2 cp=2", "ep=2 recompute=full", "dp=2 ep=2 tp=2 pp=2 zero=1 microbatches=2"]
    gpt = ["dp=2", "tp=2", "tp=4 sequence=false", "pp=2 microbatches=2", "cp=2 context=all_to_all",
           "tp=2 recompute=selective", "dp=2 tp=2 recompute=full zero=2"]
    for model, lines in (("tiny", llama + both), ("tiny_moe", moe + both), ("tiny_gpt", gpt)):
        for line in lines:
            yield model, line


# What CPU threads and fake CUDA devices run too: one of each kind.
ON_THREADS = {
    "tiny": ["dp=2", "tp=4", "cp=2", "cp=2 context=all_to_all", "dp=4 zero=3",
             "pp=4 microbatches=4 schedule=1f1b", "pp=2 microbatches=4 schedule=zero_bubble",
             "dp=2 tp=2 pp=2 cp=2 microbatches=2"],
    "tiny_moe": ["ep=2", "ep=4", "dp=2 ep=2 tp=2"],
    "tiny_gpt": ["tp=2"],
}


def numbers_case(devices, model, arguments):
    name = f"{model} {arguments} on {devices} gives the numbers of one device"

    def check():
        """On simulated devices with a trace, which expect.clean() looks through for races."""
        with tempfile.TemporaryDirectory() as folder:
            keeps = devices.startswith("sim")
            environment = {**os.environ, "LD_LIBRARY_PATH": FAKE} if "cuda" in devices else None
            trace = ["-o", os.path.join(folder, "run.db")] if keeps else ["--trace", "off"]
            done = subprocess.run([ORRERY, "run", "scenarios/training/strategies.lua",
                                   f"model={model}", *arguments.split(), "--devices", devices,
                                   *trace],
                                  cwd=ROOT, env=environment, capture_output=True, text=True,
                                  timeout=600, check=False)
        text = (done.stdout + done.stderr).strip()
        judged = not keeps or "not judged" not in text
        return done.returncode == 0 and " 0 failed" in text and judged, text
    return name, check


# --- traffic -------------------------------------------------------------------------------------

WORD = 4  # f32


class Model:
    """scenarios/library/configurations.lua, tiny and tiny_moe."""

    def __init__(self, moe):
        self.vocab, self.hidden, self.ffn, self.tokens = 96, 32, 48, 16
        self.heads, self.kv_heads, self.head = 8, 4, 4
        self.layers = 8
        self.experts, self.top_k, self.expert_ffn, self.shared = 8, 2, 24, 24
        self.moe = moe

    def parameters(self):
        """(elements, cut over tp, cut over ep) of every parameter, layer by layer; layer -1 is the
        embedding, layer `layers` the head."""
        h = self.hidden
        q, kv = self.heads * self.head, self.kv_heads * self.head
        yield -1, self.vocab * h, True, False
        for layer in range(self.layers):
            for _ in range(2):
                yield layer, h, False, False                  # norms
            for width in (q, kv, kv, q):
                yield layer, width * h, True, False           # q, k, v, out
            if self.moe:
                yield layer, self.experts * h, False, False   # router
                for _ in range(3):
                    yield layer, self.experts * h * self.expert_ffn, True, True
            for _ in range(3):
                yield layer, h * (self.shared if self.moe else self.ffn), True, False
        yield self.layers, h, False, False
        yield self.layers, self.vocab * h, True, False


class Plan:
    """A plan and its closed forms: (axis, kind) -> bytes of one step, over all groups."""

    def __init__(self, model, arguments):
        values = dict(word.split("=") for word in arguments.split())
        for axis in ("dp", "ep", "cp", "tp", "pp", "microbatches", "zero"):
            setattr(self, axis, int(values.get(axis, 0 if axis == "zero" else 1)))
        self.sequence = values.get("sequence", "true") == "true" and self.tp > 1
        self.context = values.get("context", "ring")
        self.recompute = values.get("recompute", "none")
        self.model = Model(model == "tiny_moe")
        self.table = {}

    def add(self, axis, kind, count):
        if count:
            self.table[axis, kind] = self.table.get((axis, kind), 0) + count

    def groups(self, axis):
        """How many communicators an axis has in one stage."""
        return self.dp * self.ep * self.cp * self.tp // getattr(self, axis)

    def activation(self):
        """Bytes of one microbatch's activation in a tensor-parallel group: one sequence a rank."""
        m = self.model
        return m.tokens // self.cp * m.hidden * WORD

    def tensor_parallel(self):
        """Shoeybi et al. 2019: two all-reduces a layer and direction. Korthikanti et al. 2022: each
        is a reduce-scatter and an all-gather; gathered inputs are gathered again in backward."""
        if self.tp == 1:
            return
        m, groups = self.model, self.groups("tp")
        again = 2 if self.recompute == "full" else 1   # layers run forward twice
        tokens = m.tokens // self.cp
        count, size = self.microbatches * groups, self.activation()
        if self.sequence:
            # forward: two of each a layer; the embedding scatters, the head gathers
            gathers = (2 * m.layers * again + 1) + (2 * m.layers + 1)       # and of gradients
            gathers += 2 * m.layers + 1                                     # inputs once more
            scatters = (2 * m.layers * again + 1) + (2 * m.layers + 1)
            self.add("tp", "all_gather", gathers * count * size)
            self.add("tp", "reduce_scatter", scatters * count * size)
        else:
            reduces = 2 * m.layers * (again + 1) + 2
            self.add("tp", "all_reduce", reduces * count * size)
        # the loss: largest logit, sum of exponentials, the target's logit of each token
        self.add("tp", "all_reduce", 3 * tokens * WORD * count)

    def data_parallel(self):
        """One all-reduce of all gradients; ZeRO: reduce-scatter and all-gather instead."""
        m = self.model
        for _, elements, by_tp, by_ep in m.parameters():
            local = elements * WORD // (self.tp if by_tp else 1)
            axes = [a for a in ("dp", "ep", "cp") if getattr(self, a) > 1]
            if by_ep:
                local //= self.ep
                axes = [a for a in axes if a != "ep"]
            part = local
            for axis in axes:
                self.reduce(axis, part)
                # scattered over one axis, a rank has its share left to scatter over the next
                part //= getattr(self, axis) if self.zero else 1
            if self.sequence and not by_tp:
                # a norm's weight saw a part of the tokens on each rank
                self.add("tp", "all_reduce", local * self.groups("tp"))

    def reduce(self, axis, local):
        groups = self.groups(axis)
        if self.zero == 0:
            self.add(axis, "all_reduce", local * groups)
            return
        times = 1 if self.zero == 1 else self.microbatches
        gathers = 2 * self.microbatches if self.zero == 3 else 1
        self.add(axis, "reduce_scatter", local * groups * times)
        self.add(axis, "all_gather", local * groups * gathers)

    def pipeline(self):
        """An activation forward and its gradient back, between neighbours. All ranks of a stage
        send at once; the bytes of such a group are one rank's."""
        if self.pp == 1:
            return
        size = self.activation() // (self.tp if self.sequence else 1)
        self.add("pp", "send_receive", 2 * (self.pp - 1) * self.microbatches * size)

    def context_parallel(self):
        """Heads against tokens (Jacobs et al. 2023): queries, keys, values and results, forward and
        back; a rank's part of one sequence each. Or a ring."""
        if self.cp == 1:
            return
        m = self.model
        again = 2 if self.recompute == "full" else 1
        token = m.head * WORD * (m.tokens // self.cp) // self.tp  # of all heads, a rank's
        count = m.layers * self.microbatches * self.groups("cp")
        if self.context == "all_to_all":
            self.add("cp", "all_to_all", (again + 1) * count * token * 2 * (m.heads + m.kv_heads))
            return
        # keys and values go around but for the last step (Liu et al. 2023), in backward again, with
        # their gradients, which go all the way home
        steps = (again + 1) * (self.cp - 1) + self.cp
        self.add("cp", "send_receive", steps * count * token * 2 * m.kv_heads)

    def expert_parallel(self):
        """Slots of all experts there and back (Lepikhin et al. 2020), and their gradients. Without
        a capacity factor an expert has a slot for each of the rank's tokens."""
        if self.ep == 1:
            return
        m = self.model
        again = 2 if self.recompute == "full" else 1
        slots = m.experts * (m.tokens // self.cp) * m.hidden * WORD
        count = m.layers * self.microbatches * self.groups("ep")
        self.add("ep", "all_to_all", 2 * (again + 1) * count * slots)

    def expected(self):
        self.tensor_parallel()
        self.context_parallel()
        self.expert_parallel()
        self.data_parallel()
        self.pipeline()
        return self.table


TRAFFIC = [
    ("tiny", "dp=2"), ("tiny", "dp=2 microbatches=2"), ("tiny", "tp=2 sequence=false"),
    ("tiny", "tp=4 sequence=false"), ("tiny", "tp=2 sequence=true"), ("tiny", "tp=4"),
    ("tiny", "dp=2 zero=1"), ("tiny", "dp=2 zero=2 microbatches=2"),
    ("tiny", "dp=2 zero=3 microbatches=2"), ("tiny", "dp=4 zero=3"),
    ("tiny", "tp=2 recompute=full sequence=false"), ("tiny", "tp=2 recompute=full"),
    ("tiny", "pp=2 microbatches=4"), ("tiny", "pp=4 microbatches=4"),
    ("tiny", "dp=2 tp=2 pp=2 microbatches=2"), ("tiny", "cp=2 context=all_to_all"),
    ("tiny", "cp=4 context=all_to_all recompute=full"), ("tiny", "cp=2"), ("tiny", "cp=4"),
    ("tiny_moe", "dp=2"), ("tiny_moe", "ep=2"), ("tiny_moe", "ep=4"), ("tiny_moe", "dp=2 ep=2"),
    ("tiny_moe", "ep=2 recompute=full"), ("tiny_moe", "dp=2 ep=2 zero=2 microbatches=2"),
    ("tiny_moe", "ep=2 cp=2 context=all_to_all"), ("tiny_moe", "dp=2 ep=2 zero=3"),
]


def axis_of(name):
    """A mesh's communicators are named after their axis and a number; between meshes are stages."""
    return "pp" if " and " in name else re.sub(r" \d+$", "", name)


def measured(trace):
    with sqlite3.connect(f"file:{trace}?mode=ro", uri=True) as database:
        rows = database.execute(
            "SELECT m.name, c.kind, sum(c.bytes) FROM collective c JOIN communicator m"
            " ON m.id = c.communicator GROUP BY m.name, c.kind")
        table = {}
        for name, kind, count in rows:
            key = axis_of(name), kind
            table[key] = table.get(key, 0) + count
        return table


def traffic_case(model, arguments):
    name = f"{model} {arguments} sends as many bytes as the closed forms say"

    def check():
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "run.db")
            done = subprocess.run([ORRERY, "run", "scenarios/training/llama.lua",
                                   f"model={model}", *arguments.split(), "steps=1", "--devices",
                                   "sim:h100*16", "--timing-only", "-o", trace],
                                  cwd=ROOT, capture_output=True, text=True, timeout=600,
                                  check=False)
            if done.returncode != 0:
                return False, done.stdout + done.stderr
            got, wanted = measured(trace), Plan(model, arguments).expected()
        lines = [f"{key[0]} {key[1]}: {got.get(key, 0)} bytes, expected {wanted.get(key, 0)}"
                 for key in sorted(set(got) | set(wanted)) if got.get(key) != wanted.get(key)]
        return not lines, "\n".join(lines)
    return name, check


# --- a diffusion transformer's traffic -----------------------------------------------------------

# scenarios/library/dit.lua: blocks, hidden, image tokens, text tokens, numbers of a token, bytes.
DIFFUSION_SIZES = {"tiny": (2 + 2, 64, 16, 8, 2 * 2 * 4, 4),
                   "flux": (19 + 38, 3072, 4096, 512, 2 * 2 * 16, 2)}


def diffusion_expected(model, ranks, steps, cache, guided):
    """Every block exchanges q, k and v of all tokens for heads, and its result back (Jacobs et al.
    2023); both streams are gathered between double and single blocks and behind them, the velocity
    in each step. With a cache the blocks run in every `cache`-th step only."""
    blocks, hidden, image, text, token, word = DIFFUSION_SIZES[model]
    evaluations = 2 if guided else 1
    full = -(-steps // max(1, cache)) * evaluations
    exchanged = full * blocks * (image + text) // ranks * 4 * hidden * word
    gathered = full * 2 * (image + text) * hidden * word
    return {("sp", "all_to_all"): exchanged,
            ("sp", "all_gather"): gathered + steps * evaluations * image * token * word}


def diffusion_case(model, ranks, steps, cache=0, guided=False):
    arguments = f"model={model} steps={steps} cache={cache} guidance={3.5 if guided else 0.0}"
    name = f"dit {arguments} on {ranks} devices sends as many bytes as the closed forms say"

    def check():
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "run.db")
            done = subprocess.run([ORRERY, "run", "scenarios/models/dit.lua", *arguments.split(),
                                   "--devices", f"sim:h100*{ranks}", "--timing-only", "-o", trace],
                                  cwd=ROOT, capture_output=True, text=True, timeout=600,
                                  check=False)
            if done.returncode != 0:
                return False, done.stdout + done.stderr
            got = measured(trace)
        wanted = diffusion_expected(model, ranks, steps, cache, guided)
        return got == wanted, f"{got}, expected {wanted}"
    return name, check


DIFFUSION = [("tiny", 2, 3), ("tiny", 4, 4, 3), ("tiny", 2, 2, 0, True), ("flux", 8, 1)]


# --- TAP -----------------------------------------------------------------------------------------


def cases():
    for model, arguments in TRAFFIC:
        yield traffic_case(model, arguments)
    for arguments in DIFFUSION:
        yield diffusion_case(*arguments)
    for model, arguments in strategies():
        yield numbers_case("sim:h100*16", model, arguments)
    for model, lines in ON_THREADS.items():
        for arguments in lines:
            yield numbers_case("cpu*16", model, arguments)
            if os.path.exists(os.path.join(FAKE, "libcudart.so.13")):
                yield numbers_case("cuda:0*16", model, arguments)


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [case for case in cases() if pattern in case[0]]
    print(f"1..{len(chosen)}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        for number, ((name, _), (passed, text)) in enumerate(
                zip(chosen, pool.map(lambda case: case[1](), chosen)), 1):
            failed += not passed
            print(f"{'' if passed else 'not '}ok {number} - {name}", flush=True)
            if not passed:
                print("\n".join("# " + line for line in text.strip().splitlines()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
