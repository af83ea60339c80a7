#!/usr/bin/env python3
"""The HTML report, as a file and in a real browser.

    ORRERY=build/release/orrery tests/test_report_html.py [PATTERN]

What the file holds is checked in any case; what a reader sees and does in Debian's chromium, driven
by tests/webdriver.py, where that is there. Screenshots go to a folder `screenshots` beside the
command. Prints TAP. Needs nothing but Python's standard library.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import webdriver

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
PICTURES = pathlib.Path(ORRERY).parent / "screenshots"
REAL = sorted(str(path) for path in (ROOT.parent / "shared/traces").glob("*")
              if path.name.endswith((".json", ".json.gz", ".tar.gz", ".sqlite")))
NARROW = "\u202f"
HOSTILE = ["</script><script>document.title='hit'</script>", "<!--<script>", "]]>", "&lt;b&amp;",
           "<img src=x onerror=\"document.title='hit'\">", "a\u2028b\u2029c", "\"quoted\\\"",
           "'$`{",
           "\u0001\u007f", "{{data}} <!-- data -->", "javascript:alert(1)", "e\u0301\U0001f600"]


class Wrong(Exception):
    """What was not as it should be."""


def expect(true, text):
    if not true:
        raise Wrong(text)


def run(*words, code=0):
    done = subprocess.run([ORRERY, *words], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          check=False)
    expect(done.returncode == code, f"{words}: exit code {done.returncode}: {done.stderr}")
    return done


# ---- traces ----

def profile(names, rank=None, late=0):
    """A trace as PyTorch's profiler writes it: a launch and a kernel of each name, 10 us apart."""
    events = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}}]
    for index, name in enumerate(names, 1):
        begin = 1000 + 10 * index
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77,
                       "tid": 77, "ts": begin, "dur": 4, "args": {"correlation": index}})
        is_comm = name.startswith("nccl")
        events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7,
                       "ts": begin + 5 + (late if is_comm else 0),
                       "dur": 5 - (late if is_comm else 0),
                       "args": {"device": 0, "stream": 7, "correlation": index,
                                "grid": [1, 1, 1], "block": [32, 1, 1]}})
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU <0>"}],
                "traceEvents": events}
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps(document)


class Traces:
    """The traces of all cases and what is made of them, in one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.made = {}
        run("run", "scenarios/demo/eight_gpus.lua", "--devices", "sim:h100*8", "-o",
            str(self.folder / "eight.db"))
        steps = [f"step{n % 3}" for n in range(30)]
        steps[5::10] = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"] * 3
        self.write("hostile.json", profile(HOSTILE * 2))
        self.write("rank0.json", profile(steps, 0))
        self.write("rank1.json", profile(steps, 1, 3))
        self.write("many.json", profile(["needle"] * 2 + [f"kernel {n} " + "x" * (n % 300)
                                                         for n in range(12000)]))
        self.write("empty.json", profile([]))

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def report(self, *names):
        """(path of the page, its text, the document of --json); made once."""
        if names not in self.made:
            self.made[names] = self.make(*names)
        return self.made[names]

    def make(self, *names):
        page = self.folder / ("+".join(names) + ".html")
        traces = [str(self.folder / name) for name in names]
        document = json.loads(run("analyze", *traces, "--json", "--html", str(page)).stdout)
        return page, page.read_text(encoding="utf-8"), document


def block(text, name):
    """The text of a data block of a page, or None."""
    found = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)
    expect(len(found) <= 1, f"{len(found)} blocks {name}")
    return found[0] if found else None


# ---- the file ----

def holds_document(traces):
    """the page holds the document of --json, as it is"""
    for name in ("eight.db", "hostile.json", "empty.json"):
        _, text, document = traces.report(name)
        expect(json.loads(block(text, "analysis")) == document, f"{name}: another document")
        again = traces.make(name)[1]
        expect(again == text, f"{name}: not the same bytes twice")


def holds_set(traces):
    """of several ranks it holds both: what is said of all together, and the document of the set"""
    _, text, document = traces.report("rank0.json", "rank1.json")
    expect(json.loads(block(text, "set")) == document, "another document")
    whole = json.loads(block(text, "analysis"))
    expect(len(whole["devices"]) == 2, "not both devices")
    expect(json.loads(block(text, "overview"))["verdict"] in
           run("analyze", *(str(traces.folder / f"rank{n}.json") for n in (0, 1))).stdout,
           "another verdict")


def cells_are_exact(traces):
    """the cells of every device sum to its classes, kind by kind, and fill each cell"""
    for name in ("eight.db", "hostile.json", "many.json", "rank0.json"):
        _, text, document = traces.report(name)
        overview = json.loads(block(text, "overview"))
        cell, count = overview["cell_ns"], overview["cells"]
        expect(cell * count >= document["window_ns"] > cell * (count - 1), "cells and window")
        for device, made in zip(document["devices"], overview["devices"]):
            classes = {**device["busy"], **device["idle"]}
            for kind in overview["kinds"]:
                expect(sum(made["ns"].get(kind, [])) == classes[kind], f"{name} {kind}")
            for index in range(count):
                length = min(cell, document["window_ns"] - index * cell)
                filled = sum(ns[index] for ns in made["ns"].values() if index < len(ns))
                expect(filled == length, f"{name}: cell {index}: {filled} of {length}")
        path = document["critical_path"]
        for kind, ns in path["kinds"].items():
            inside = sum(overview["path"]["ns"].get(kind, []))
            expect(inside <= ns and (inside == ns or path["begin_ns"] < document["begin_ns"] or
                                     path["end_ns"] > document["end_ns"]), f"{name}: path {kind}")


def counters_are_exact(traces):
    """a counter's largest cell is the peak of its device"""
    _, text, document = traces.report("eight.db")
    overview = json.loads(block(text, "overview"))
    peaks = {row["device"]: row["peak_bytes"] for row in document["memory"]}
    seen = 0
    for counter in overview["counters"]:
        cells = [cell for cell, _ in counter["points"]]
        expect(cells == sorted(set(cells)) and cells[-1] < overview["cells"], "cells in order")
        if counter["name"] == "memory bytes":
            seen += 1
            largest = max(value for _, value in counter["points"])
            expect(largest == peaks[counter["device"]], f"{largest} of {peaks}")
    expect(seen == 8, f"{seen} devices")


def is_alone(traces):
    """nothing in the page asks for anything else, and data is no markup"""
    for name in ("eight.db", "hostile.json"):
        _, text, _ = traces.report(name)
        expect("default-src 'none'" in text, "no content policy")
        for data in ("analysis", "overview"):
            bad = set("<>&\u2028\u2029") & set(block(text, data))
            expect(not bad, f"{data}: {bad}")
        bare = re.sub(r"<script.*?</script>|<style>.*?</style>", "", text, flags=re.S)
        links = re.findall(r"(?:src|href|action)\s*=\s*[\"']?([^\"' >]+)", bare)
        expect(all(link.startswith(("#", "data:")) for link in links), f"{links}")
        style = re.search(r"<style>.*?</style>", text, re.S).group(0)
        expect("url(" not in style and "@import" not in style, "the style asks for files")
        expect(len(re.findall(r"<script", text)) == len(re.findall(r"</script>", text)), "scripts")


def is_bounded(traces):
    """a trace with many different kernels makes a small page that says what it leaves out"""
    page, text, document = traces.report("many.json")
    expect(page.stat().st_size < 6_000_000, f"{page.stat().st_size} bytes")
    shown = json.loads(block(text, "analysis"))
    overview = json.loads(block(text, "overview"))
    less = {name: len(rows) - len(shown[name]) for name, rows in document.items()
            if isinstance(rows, list) and len(rows) != len(shown[name])}
    expect(less and overview["left_out"] == less, f"{overview['left_out']} of {less}")
    expect(shown["roofline"] == document["roofline"][:len(shown["roofline"])], "other rows")
    expect(shown["exact"] == document["exact"] or overview["left_out_nested"] > 0, "other figures")


def is_replaced(traces):
    """a report is replaced, somebody else's file is not, and a failure leaves nothing"""
    trace, page = str(traces.folder / "eight.db"), traces.folder / "page.html"
    for text in ("<html>mine</html>", "x" * 2000):
        page.write_text(text, encoding="utf-8")
        done = run("analyze", trace, "--html", str(page), code=4)
        expect(page.read_text(encoding="utf-8") == text, "overwritten")
        expect(done.stderr.count("\n") == 1 and "page.html" in done.stderr, done.stderr)
    page.write_text("", encoding="utf-8")
    run("analyze", trace, "--html", str(page))
    first = page.read_bytes()
    run("analyze", str(traces.folder / "hostile.json"), "--html", str(page))
    expect(page.read_bytes() != first, "not replaced")
    nowhere = traces.folder / "no folder" / "page.html"
    run("analyze", trace, "--html", str(nowhere), code=4)
    before = sorted(os.listdir(traces.folder))
    run("analyze", str(traces.folder / "none.json"), "--html", str(traces.folder / "n.html"),
        code=3)
    expect(sorted(os.listdir(traces.folder)) == before, "something was left behind")


def is_locked(traces):
    """the chart library is the one that the lock names, and its licence is in every page"""
    folder = ROOT / "analyzer/report_html"
    lock = json.loads((folder / "lock.json").read_text(encoding="utf-8"))["uPlot"]
    _, text, _ = traces.report("eight.db")
    for name, wanted in lock["files"].items():
        data = (folder / name).read_bytes()
        expect(hashlib.sha256(data).hexdigest() == wanted["sha256"], f"{name} is another one")
        expect(data.decode().strip() in text, f"{name} is not in the page")
    expect(f"uPlot (v{lock['version']})" in text, "another version")


# ---- in a browser ----

TABLE = """
const box = document.querySelector(`[data-table="${arguments[0]}"]`);
return {head: [...box.querySelectorAll("th")].map((cell) => cell.textContent.trim()),
        rows: [...box.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) =>
            ({text: cell.textContent, title: cell.title}))),
        sorts: [...box.querySelectorAll("th")].map((cell) => cell.ariaSort)};
"""
CORNERS = """
const box = document.querySelector(arguments[0]);
box.scrollIntoView({block: "center"});
const {left, top, width, height} = box.getBoundingClientRect();
return [left, top, width, height];
"""


class Page:
    """A browser with one report open."""

    def __init__(self, browser, traces, *names):
        self.browser = browser
        self.path, _, self.document = traces.report(*names)
        browser.size(1280, 900)
        browser.requests()
        browser.console()
        browser.open(self.path.as_uri())

    def run(self, script, *arguments):
        return self.browser.run(script, *arguments)

    def table(self, name):
        return self.run(TABLE, name)

    def picture(self, name, whole=False):
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        self.browser.screenshot(path, whole)
        expect(path.stat().st_size > 5000, f"{path} is empty")

    def quiet(self):
        """No error and no request but for the page itself, so far."""
        said = self.browser.console()
        expect(not said, f"the console says {said}")
        asked = [url for url in self.browser.requests()
                 if not url.startswith(("chrome://", "data:"))]
        expect(all(url == self.path.as_uri() for url in asked), f"asked for {asked}")
        expect(self.run("return document.body.dataset.ready") == "yes", "not drawn to the end")

    def zoom(self):
        return [float(part) for part in
                (self.run("return document.body.dataset.zoom") or "").split()]


def opens(browser, traces):
    """every report opens without an error and without a request"""
    for names in (["eight.db"], ["hostile.json"], ["rank0.json", "rank1.json"], ["many.json"],
                  ["empty.json"], ["rank0.json"]):
        page = Page(browser, traces, *names)
        page.quiet()
        expect(not page.run("return [...document.querySelectorAll('.note')].map((one) => "
                            "one.textContent).filter((text) => text.includes('could not be made'))"
                            ), f"{names}: a section failed")
        expect("undefined" not in page.run("return document.body.innerText") and
               "NaN" not in page.run("return document.body.innerText"), f"{names}: undefined, NaN")
        expect(not page.run("return [...document.querySelectorAll('th, dt')].filter((one) => "
                            "one.textContent.trim().endsWith('-ns')).length"),
               f"{names}: a head names ns, but its values name their own unit")
        page.picture(names[0].split(".")[0])


def shows_numbers(browser, traces):
    """the numbers of the page are those of --json"""
    page = Page(browser, traces, "eight.db")
    document = page.document
    text = run("analyze", str(traces.folder / "eight.db")).stdout.split("\n", 1)[0]
    shown = page.run("return document.querySelector('h1').textContent + ': ' + "
                     "document.querySelector('.verdict .why').textContent")
    expect("verdict: " + shown == text, f"{shown!r} for {text!r}")
    table = page.table("operators")
    at = table["head"].index("time")
    wanted = sorted((f"{row['time_ns']} ns" for row in document["roofline"]),
                    key=lambda exact: -int(exact.split()[0]))
    expect([row[at]["title"] for row in table["rows"]] == wanted[:len(table["rows"])], "times")
    table = page.table("devices")
    for row, device in zip(table["rows"], document["devices"]):
        texts = [cell["text"] for cell in row]
        busy = f"{100 * device['busy_ns'] / device['window_ns']:.2f}{NARROW}%"
        expect(texts[0] == str(device["id"]) and busy in texts and device["why"] in texts,
               f"{texts} of {device['id']}")
    shares = page.run("return [...document.querySelectorAll('.fact')].map((one) => "
                      "one.innerText.split('\\n').filter(Boolean))")
    facts = {fact[0]: fact[1] for fact in shares}
    windows = sum(device["window_ns"] for device in document["devices"])
    comm = sum(device["exposed_comm_ns"] for device in document["devices"])
    expect(facts["exposed communication"] == f"{100 * comm / windows:.2f}{NARROW}%", f"{facts}")
    expect(facts["residual"] == f"0{NARROW}ns", f"{facts}")
    expect("Simulated" in page.run("return document.querySelector('.label').textContent"),
           "times of a model are not called so")


def sorts_and_filters(browser, traces):
    """a click on a head sorts, another one turns it round; a word filters"""
    page = Page(browser, traces, "many.json")
    head = '[data-table="operators"] th:nth-child({}) button'
    count = page.table("operators")["head"].index("longest") + 1
    times = lambda: [int(row[count - 1]["title"].split()[0])
                     for row in page.table("operators")["rows"]]
    page.run("document.querySelector(arguments[0]).click()", head.format(count))
    expect(times() == sorted(times(), reverse=True), "not descending")
    expect(page.table("operators")["sorts"].count("descending") == 1, "aria-sort")
    page.browser.click(head.format(1))
    first = [row[0]["text"] for row in page.table("operators")["rows"]]
    page.browser.click(head.format(1))
    turned = [row[0]["text"] for row in page.table("operators")["rows"]]
    expect(first[0].startswith("kernel 0") and turned[0] != first[0], f"{first[0]} {turned[0]}")
    page.browser.type('[data-table="operators"] input', "NEED dle")
    rows = page.table("operators")["rows"]
    expect(len(rows) == 1 and rows[0][0]["text"] == "needle", f"{len(rows)} rows")
    status = page.run("return document.querySelector('[data-table=\"operators\"] .status')"
                      ".textContent")
    expect(status.startswith("1 of "), status)
    page.run("const field = document.querySelector('[data-table=\"operators\"] input');"
             "field.value = ''; field.dispatchEvent(new Event('input'))")
    page.browser.click('[data-table="operators"] .more')
    left = page.run("return readDocument('overview').left_out.roofline")
    expect(len(page.table("operators")["rows"]) == len(page.document["roofline"]) - left, "not all")
    expect("left out" in page.run("return document.querySelector('#verdict').textContent"),
           "it does not say what is left out")
    page.quiet()


def zooms(browser, traces):
    """dragging zooms all charts over time, keys move, the button shows all again"""
    page = Page(browser, traces, "eight.db")
    window = page.document["window_ns"]
    expect(page.zoom() == [], "zoomed at first")
    left, top, width, height = page.run(CORNERS, "#timeline-chart .u-over")
    page.browser.drag((left + width * 0.25, top + height / 2), (left + width * 0.5, top + 20))
    low, high = page.zoom()
    expect(abs(low / window - 0.25) < 0.02 and abs(high / window - 0.5) < 0.02, f"{low} {high}")
    scales = page.run("return charts.timed.map((one) => [one.plot.scales.x.min, "
                      "one.plot.scales.x.max])")
    expect(len(scales) >= 2 and all(scale == scales[0] for scale in scales), f"{scales}")
    page.picture("zoomed")
    page.browser.hover((left + width / 2, top + 45))
    tip = page.run("return [document.getElementById('tip').hidden, "
                   "document.getElementById('tip').innerText]")
    expect(not tip[0] and "device" in tip[1], f"{tip}")
    page.run("document.getElementById('timeline-chart').focus()")
    page.browser.type("#timeline-chart", "+")
    expect(abs(page.zoom()[1] - page.zoom()[0]) < 0.6 * (high - low), "plus does not zoom")
    page.browser.click(".unzoom")
    expect(page.zoom() == [], "not the whole window again")
    page.quiet()


def roofline_answers(browser, traces):
    """keys go from point to point of the roofline, and say what it is"""
    page = Page(browser, traces, "eight.db")
    page.run("document.getElementById('roofline-chart').focus()")
    said = set()
    for _ in range(3):
        page.browser.type("#roofline-chart", "\ue014")  # arrow to the right
        said.add(page.run("return document.querySelector('#operators p[aria-live]').textContent"))
    names = {row["op"] for row in page.document["roofline"]}
    expect(all(any(text.startswith(name + ";") for name in names) for text in said), f"{said}")
    expect(all("FLOP/B" in text and "of the roof" in text for text in said), f"{said}")
    page.quiet()


def colours(browser, traces):
    """dark as the system says, or as the button says"""
    page = Page(browser, traces, "eight.db")
    paper = lambda: page.run("return getComputedStyle(document.querySelector('section'))"
                             ".backgroundColor")
    light = paper()
    page.browser.click("#theme")
    expect(paper() == light, "light is not light")
    page.browser.click("#theme")
    dark = paper()
    expect(dark != light, "the button does nothing")
    page.picture("dark")
    page.browser.click("#theme")
    browser.devtools("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark"}])
    expect(paper() == dark, "does not follow the system")
    browser.devtools("Emulation.setEmulatedMedia", features=[])
    page.quiet()


def fits(browser, traces):
    """at 360 pixels nothing is wider than the page; on paper there are no buttons"""
    for names in (["eight.db"], ["rank0.json", "rank1.json"], ["hostile.json"]):
        page = Page(browser, traces, *names)
        browser.size(360, 740)
        page.run("return new Promise((done) => setTimeout(done, 150))")
        width = page.run("return document.documentElement.scrollWidth")
        expect(width <= 360, f"{names}: {width} pixels wide")
        expect(page.run("return [...document.querySelectorAll('.chart canvas')].every((one) => "
                        "one.getBoundingClientRect().right <= 360)"), f"{names}: a chart is wider")
        page.picture(names[0].split(".")[0] + "-360")
        page.quiet()
    browser.size(1280, 900)
    page = Page(browser, traces, "eight.db")
    browser.devtools("Emulation.setEmulatedMedia", media="print")
    shown = page.run("return ['nav', '#theme', '.tools', '.more'].filter((name) => "
                     "[...document.querySelectorAll(name)].some((one) => one.offsetParent))")
    expect(shown == [], f"on paper: {shown}")
    browser.devtools("Emulation.setEmulatedMedia", media="")
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser.pdf(PICTURES / "report.pdf")
    expect((PICTURES / "report.pdf").read_bytes().startswith(b"%PDF"), "no PDF")
    page.quiet()


def names_are_texts(browser, traces):
    """names from a trace are shown as they are, and nothing in them runs"""
    page = Page(browser, traces, "hostile.json")
    expect(page.run("return document.title").startswith("hostile.json "), "something ran")
    shown = {row[0]["text"] for row in page.table("operators")["rows"]}
    for name in HOSTILE:
        expect(any(name in text or name == "\u0001\u007f" for text in shown), f"{name!r} {shown}")
    expect(page.run("return document.querySelectorAll('main img, main script').length") == 0,
           "a name became an element")
    page.quiet()


def shows_ranks(browser, traces):
    """of a set: who is last, by the table of stragglers"""
    page = Page(browser, traces, "rank0.json", "rank1.json")
    table, rows = page.table("stragglers"), page.document["rank_analysis"]["stragglers"]
    last = table["head"].index("times last")
    shown = {row[0]["text"]: row[last]["text"] for row in table["rows"]}
    expect(shown == {str(row["rank"]): str(row["times_last"]) for row in rows}, f"{shown}")
    page.quiet()


def abstains(browser, traces):
    """what a trace cannot answer is unknown, with the reason, and never 0"""
    page = Page(browser, traces, "rank0.json")
    answers = page.document["doctor"]["answers"]
    memory = page.run("return document.getElementById('memory').innerText")
    expect(answers["memory"]["reason"] and answers["memory"]["reason"] in memory, memory)
    page = Page(browser, traces, "empty.json")
    expect("unknown" in page.run("return document.querySelector('h1').textContent"), "a verdict")
    page.quiet()


def opens_real_ones(browser, traces):
    """reports about traces of others' programs open likewise"""
    for path in REAL:
        name = os.path.basename(path)
        shutil.copy(path, traces.folder / name)
        page = Page(browser, traces, name)
        page.quiet()
        text = page.run("return document.body.innerText")
        for bad in ("undefined", "NaN", "[object", "could not be made"):
            expect(bad not in text, f"{name}: {bad}")
        expect(page.run("return document.documentElement.scrollWidth") <= 1280, f"{name}: wide")
        residual = page.run("return [...document.querySelectorAll('.fact')].find((one) => "
                            "one.innerText.startsWith('residual')).innerText")
        expect(f"0{NARROW}ns" in residual, f"{name}: {residual}")


FILE_CASES = [holds_document, holds_set, cells_are_exact, counters_are_exact, is_alone, is_bounded,
              is_replaced, is_locked]
BROWSER_CASES = [opens, shows_numbers, sorts_and_filters, zooms, roofline_answers, colours, fits,
                 names_are_texts, shows_ranks, abstains, opens_real_ones]


def problem_of(case, *arguments):
    try:
        case(*arguments)
    except (Wrong, webdriver.Failed, OSError, KeyError, IndexError, ValueError, TypeError,
            subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"[:2000]
    return None


def tell(number, case, problem):
    print(f"{'not ok' if problem else 'ok'} {number} - {case.__doc__}", flush=True)
    if problem:
        print("# " + problem.replace("\n", "\n# "), flush=True)
    return problem is not None


def started():
    """(browser, ""), or (None, why there is none)."""
    reason = webdriver.missing()
    if reason:
        return None, reason
    try:
        return webdriver.Browser(), ""
    except (webdriver.Failed, OSError) as error:
        return None, "the browser does not start: " + str(error).split("\n", 1)[0][:200]


def main(pattern):
    cases = [case for case in FILE_CASES + BROWSER_CASES if pattern in case.__name__]
    print(f"1..{len(cases)}", flush=True)
    failed = number = 0
    with tempfile.TemporaryDirectory() as folder:
        traces = Traces(folder)
        for case in (case for case in cases if case in FILE_CASES):
            number += 1
            failed += tell(number, case, problem_of(case, traces))
        seen = [case for case in cases if case in BROWSER_CASES]
        browser, reason = started() if seen else (None, "")
        if not browser:
            for case in seen:
                number += 1
                print(f"ok {number} - {case.__doc__} # SKIP {reason}")
            return 1 if failed else 0
        with browser:
            for case in seen:
                number += 1
                if case is opens_real_ones and not REAL:
                    print(f"ok {number} - {case.__doc__} # SKIP there are none here")
                    continue
                failed += tell(number, case, problem_of(case, browser, traces))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
