"""The rules of the house, as tests: one TAP case per rule.

    tests/tidy/tidy.py [ROOT]

Each finding is one line, "file:line: what is wrong; what to do instead". Exceptions are data with a
reason each, in allow.txt beside this file. selftest.py shows that every rule can fail.

Rules 1 to 9 are those of the style guide; 10 keeps machine-local paths and leftovers out.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = 100

# ------------------------------------------------------------------------------------------------
# Data

# What a folder's files may include, as path prefixes, besides the folder itself. Longest prefix
# wins.
LAYERS = {
    "runtime/": [],
    "sim/": ["runtime/"],
    "trace/": ["runtime/"],
    "hazards/": ["runtime/"],
    # A simulated and a real trace are treated alike: the reader, and what describes costs and
    # devices.
    "analyzer/": ["trace/timeline", "trace/reader", "runtime/record.h", "runtime/cost.h",
                  "runtime/device_spec.h", "runtime/operator.h", "runtime/dtype.h",
                  "runtime/shape.h", "runtime/status.h", "runtime/error.h", "runtime/memory.h",
                  "runtime/names.h"],
    "scenarios/": ["runtime/", "sim/"],
    "cli/": ["runtime/", "sim/", "trace/", "hazards/", "analyzer/", "scenarios/"],
    "bench/": ["runtime/", "sim/", "trace/", "hazards/", "analyzer/", "scenarios/", "cli/"],
    "tests/": ["runtime/", "sim/", "trace/", "hazards/", "analyzer/", "scenarios/", "cli/",
               "orrery.h"],
}
# NVIDIA's headers and what is made of them stay in these; all others have the plugin's header.
CUDA_ROOMS = ("runtime/cuda/", "sim/fake_devices/cuda/", "tests/", "bench/")
CUDA_DOOR = "runtime/cuda/plugin.h"
# The words of kernels: the GPU's or the fake devices', which the include path decides.
KERNEL_WORDS = "device.h"
PRODUCTION = ("runtime/", "sim/", "trace/", "hazards/", "analyzer/", "scenarios/", "cli/")

# Calls that the library must not make: (pattern of the identifier, what to do instead).
BANNED = [
    ("clock|clock_gettime|gettimeofday|timespec_get|time|times|localtime\\w*|gmtime\\w*|__rdtsc|"
     "__builtin_ia32_rdtsc\\w*", "ask the backend: verbs->now of runtime/backend.h"),
    ("sleep|usleep|nanosleep|clock_nanosleep|sched_yield|thrd_sleep",
     "wait for a point with a deadline: verbs->wait of runtime/backend.h"),
    ("rand|srand|rand_r|random|srandom|[dejlmn]rand48|arc4random\\w*|getrandom|getentropy",
     "draw from the seeded generator that the host passes in"),
    ("getenv|secure_getenv|setenv|putenv|unsetenv",
     "take an argument; cli/ parses the command line"),
    ("pthread_\\w+|thrd_\\w+|mtx_\\w+|cnd_\\w+|sem_wait|sem_post|sem_init|fork|vfork",
     "leave threads to runtime/cpu/ and the trace's writer"),
    ("exit|_exit|_Exit|quick_exit|abort|atexit",
     "return an enum orr_status; cli/ maps it to an exit code"),
]

# Every file is of one of these kinds; another is dead, or in the wrong place.
KNOWN_FILES = [
    "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", ".gitignore",
    ".clang-format", ".ci/run", "scripts/*", "docs/*.md", "docs/*.png", "docs/*.svg", "*/README.md",
    "*.c", "*.h", "trace/*.sql", "analyzer/*.html", "analyzer/*.css", "analyzer/*.js",
    "analyzer/*.sql", "analyzer/report_html/*.LICENSE.txt", "analyzer/report_html/lock.json",
    "sim/fake_devices/*.lua", "scenarios/*.lua", "scenarios/*.csv", "scenarios/*.jsonl",
    "tests/*.sh", "tests/*.py", "tests/*.js", "tests/*.supp", "tests/tidy/*",
    "tests/golden/*.golden", "tests/data/*", "tests/*/*", "runtime/cuda/*.cu",
    "runtime/cuda/*.S", "runtime/cuda/*.map", "sim/fake_devices/cuda/*.map",
    "bench/*.md", "bench/*.cpp",
]

# Words that belong to somebody's machine, not to the project. Written so that this line does not
# match.
LOCAL = re.compile(
    r"(?<![\w.])/(?:wor[k]|far[m])/|/tmp/tea[m]\b|/roo[t]/[.]|\bsub-?agen[t]s?\b|\bhelpe[r]s?\b|"
    r"(?:^|[\s/\"'`(])[.]librar[y]\b(?!\s*=)|"
    r"\b(?:pypi[.]or[g]|registry[.]npmj[s]|deb[.]debia[n][.]org|crates[.]i[o]|proxy[.]golan[g])\b",
    re.IGNORECASE)


class Allowances:
    """allow.txt: a line `rule | file pattern | what, a pattern | reason`; each must be used."""

    def __init__(self, path):
        self.entries = []
        self.errors = []
        if not os.path.exists(path):
            return
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split("|")]
            if len(parts) != 4 or not all(parts):
                self.errors.append("%s:%d: expected rule | file | what | reason" % (path, number))
                continue
            self.entries.append({"line": number, "rule": parts[0], "file": parts[1],
                                 "what": parts[2], "used": False})

    def allows(self, rule, path, what):
        hit = False
        for entry in self.entries:
            if (entry["rule"] == str(rule) and fnmatch.fnmatchcase(path, entry["file"])
                    and fnmatch.fnmatchcase(what, entry["what"])):
                entry["used"] = hit = True
        return hit

    def unused(self, unbuilt=lambda file: False):
        """Those that nothing needed, but for files that are not built here."""
        return ["allow.txt:%d: nothing needs this allowance; remove it" % entry["line"]
                for entry in self.entries if not entry["used"] and not unbuilt(entry["file"])]


# ------------------------------------------------------------------------------------------------
# Reading the tree

def blank(text, keep_strings=False):
    """C text with comments (and the insides of strings) turned into spaces; positions stay."""
    def spaces(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found if keep_strings else found[0] + " " * (len(found) - 2) + found[-1]
        return re.sub(r"[^\n]", " ", found)
    token = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(token, spaces, text, flags=re.S)


class Tree:
    def __init__(self, root, allow=None):
        self.variables = {}
        self.root = root
        self.allow = Allowances(allow or os.path.join(root, "tests/tidy/allow.txt"))
        self.files = sorted(self._list())
        self.cache = {}
        self.skips = []

    def _list(self):
        """Files that git tracks or would; without git, all but build/."""
        if os.path.exists(self.root + "/.git") and shutil.which("git"):
            git = output("git", "-C", self.root, "ls-files", "-co", "--exclude-standard")
            if git:
                return [f for f in git.splitlines()
                        if os.path.isfile(os.path.join(self.root, f))]
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__")]
            found += [os.path.relpath(os.path.join(folder, name), self.root) for name in names]
        return [f for f in found if not f.startswith(("run.db", "run.json", "crash-"))]

    def text(self, path):
        if path not in self.cache:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self.cache[path] = file.read()
        return self.cache[path]

    def of(self, *suffixes, under=()):
        return [f for f in self.files
                if f.endswith(suffixes) and (not under or f.startswith(under))]

    def make(self, *arguments):
        return subprocess.run(["make", "-C", self.root, "--no-print-directory", "-s",
                               "VARIANT=release", *arguments], capture_output=True, text=True)

    def variable(self, name):
        if name not in self.variables:
            self.variables[name] = self.make("print-" + name).stdout.split()
        return self.variables[name]

    def has_cuda(self):
        """Whether the backend for GPUs is built here: there is a toolkit."""
        return bool(self.variable("CUDA_FOUND"))

    def is_unbuilt(self, name):
        """Whether an object is of the CUDA backend or the fakes, and there is no toolkit."""
        source = os.path.splitext(name)[0] + ".c"
        folders = ("runtime/cuda", "sim/fake_devices/cuda")
        return name.endswith(".o") and not self.has_cuda() and any(
            "%s/%s" % (folder, source) in self.files for folder in folders)

    def archives(self):
        """The release library and, with a toolkit, the CUDA backend and the fake devices, built;
        None when something does not build (then other tests say why)."""
        names = self.variable("STATIC") + self.variable("CUDA_ARCHIVE") + self.variable(
            "FAKE_ARCHIVE")
        if self.make(*names).returncode != 0:
            return None
        return [os.path.join(self.root, name) for name in names]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


# ------------------------------------------------------------------------------------------------
# The rules: each yields findings

def rule_1_layers(tree):
    """includes go downwards only, by paths from the repository root"""
    for path in tree.of(".c", ".h", ".cu"):
        text = blank(tree.text(path), keep_strings=True)
        home = max((p for p in LAYERS if path.startswith(p)), key=len, default="")
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', text, re.M):
            target, where = match.group(1), "%s:%d" % (path, line_of(text, match.start()))
            if target == KERNEL_WORDS and path.startswith("runtime/cuda/kernels/"):
                continue
            if (target.startswith("runtime/cuda/") and target != CUDA_DOOR
                    and not path.startswith(CUDA_ROOMS)):
                yield '%s: "%s" is private to the CUDA backend; write "%s"' % (
                    where, target, CUDA_DOOR)
            # An embedded file's header, or an embedded folder's, is made by the build.
            source = re.sub(r"(\.(?:sql|lua|html|css|js))\.h$|/embed\.h$", r"\1", target)
            if not os.path.exists(os.path.join(tree.root, source)) or target.startswith("."):
                near = [h for h in tree.files if h.endswith("/" + os.path.basename(target))]
                yield '%s: "%s" is not a path from the repository root; write "%s"' % (
                    where, target, near[0] if near else "folder/file.h")
            elif home and not target.startswith(tuple([home] + LAYERS[home])):
                if not tree.allow.allows(1, path, target):
                    yield '%s: %s must not include "%s"; it may include %s' % (
                        where, home, target, ", ".join([home] + LAYERS[home]))


def rule_2_headers(tree):
    """every header compiles alone with the warnings of the makefile"""
    result = tree.make("-k", "WERROR=1", "headers")
    if result.returncode != 0:
        for line in result.stderr.splitlines():
            if "error:" in line:
                yield "%s; include what it uses" % line
        yield "make headers failed"


def rule_3_conditions(tree):
    """no simulation in any #if, no test hooks in production files"""
    words = re.compile(r"SIM|SIMULAT\w*|VIRTUAL|(?:UNIT)?TEST(?:S|ING)?|MOCK\w*|FAKE|FUZZ\w*", re.I)
    hooks = re.compile(r"\b\w*(?:_for_test(?:s|ing)?|_test_hook|test_only)\b")
    for path in tree.of(".c", ".h", ".cu", under=PRODUCTION):
        lines = blank(tree.text(path)).splitlines()
        for number, line in enumerate(lines, 1):
            condition = re.match(r"\s*#\s*(?:el)?if(?:n?def)?\b(.*)", line)
            guard = re.match(r"\s*#\s*ifndef\s+(\w+_H)\s*$", line)
            if condition and not guard:
                for name in re.findall(r"[A-Za-z_]\w*", condition.group(1)):
                    if any(words.fullmatch(part) for part in name.split("_")):
                        yield "%s:%d: #if on %s; pass a backend or an argument instead" % (
                            path, number, name)
            hook = hooks.search(line)
            if hook and not tree.allow.allows(3, path, hook.group(0)):
                yield "%s:%d: test hook %s; use a seam (backend, memory, sink) from the test" % (
                    path, number, hook.group(0))


def rule_4_calls(tree):
    """no clock, sleep, rand, getenv, thread, exit or abort outside named files"""
    for path in tree.of(".c", ".h", ".cu", under=PRODUCTION):
        text = blank(tree.text(path))
        for names, instead in BANNED:
            # Not a member (x->exit, x.time), not (*exit)(...) of a table, not a longer name.
            for match in re.finditer(r"(?<![\w.>*])(%s)\s*\(" % names, text):
                if not tree.allow.allows(4, path, match.group(1)):
                    yield "%s:%d: %s(); %s" % (
                        path, line_of(text, match.start()), match.group(1), instead)


def rule_5_exports(tree):
    """exported symbols start with orr_; those of the fake devices may have names of NVIDIA's"""
    archives = tree.archives()
    if archives is None:
        yield "the library does not build; see make lib"
        return
    member, prefixes = "", ("orr_",)
    for line in output("nm", "-g", "--defined-only", *archives).splitlines():
        if line.endswith(".a:"):  # of several archives only
            prefixes = ("orr_", "cuda", "cublas", "nccl", "cupti") if "fake_cuda" in line else (
                "orr_",)
        elif line.endswith(":"):
            member = line[:-1]
        parts = line.split()
        if len(parts) == 3 and not parts[2].startswith(prefixes):
            if not tree.allow.allows(5, member, parts[2]):
                yield "%s: exports %s; make it static or name it orr_%s" % (
                    member, parts[2], parts[2])


def rule_6_globals(tree):
    """no writable globals"""
    archives = tree.archives()
    if archives is None:
        yield "the library does not build; see make lib"
        return
    member = ""
    for line in output("objdump", "-t", *archives).splitlines():
        named = re.match(r"(\S+\.o):\s+file format", line)
        if named:
            member = named.group(1)
        # "0000000000000000 l     O .bss\\t0000000000000004 count"
        found = re.match(r"[0-9a-f]+ .{7} (\S+)\t[0-9a-f]+\s+(?:\.hidden )?(\S+)$", line)
        if not found or found.group(2) == found.group(1):
            continue
        section, name = found.groups()
        # Constants that hold addresses are in .data.rel.ro: written by the loader only.
        writable = (re.match(r"\.(data|bss|tdata|tbss|init_array|fini_array|ctors)\b", section)
                    and not section.startswith(".data.rel.ro")) or section == "*COM*"
        if writable and not tree.allow.allows(6, member, name):
            yield "%s: writable global %s; keep it in a struct that is passed, or make it const" % (
                member, name)


def clang_format():
    """The command of clang-format 14, or None: another version settles spacing otherwise."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            if re.search(r"version 14\.", output(name, "--version")):
                return name
    return None


def rule_7_spacing(tree):
    """100 columns, no tabs outside the makefile, no trailing space, formatted by clang-format 14"""
    code = (".c", ".h", ".cu", ".S", ".map", ".lua", ".sql", ".sh", ".py", ".js", ".css",
            ".md", "Makefile", ".ci/run")
    for path in tree.files:
        if not (path.endswith(code) or path.startswith("scripts/")):
            continue
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            where = "%s:%d" % (path, number)
            columns = len(line.expandtabs(4))
            long_text = path.endswith(".md") and (line.startswith("|") or "http" in line)
            if columns > COLUMNS and not long_text and not tree.allow.allows(7, path, "columns"):
                yield "%s: %d columns; break the line at %d" % (where, columns, COLUMNS)
            if "\t" in line and path != "Makefile":
                yield "%s: a tab; use spaces" % where
            if line != line.rstrip():
                yield "%s: space at the end of the line; remove it" % where
        if tree.text(path) and not tree.text(path).endswith("\n"):
            yield "%s: the last line has no end; add a newline" % path
    command = clang_format()
    if command is None:
        tree.skips.append("clang-format 14 is not here: formatting was not checked")
        return
    sources = [os.path.join(tree.root, f) for f in tree.of(".c", ".h", ".cu")]
    if not sources:
        return
    result = subprocess.run([command, "--dry-run", "-Werror", *sources], capture_output=True,
                            text=True, cwd=tree.root)
    seen = set()
    for line in result.stderr.splitlines():
        found = re.match(r"(.*?):(\d+):\d+: error:", line)
        if found and found.group(1) not in seen:
            seen.add(found.group(1))
            yield "%s:%s: not formatted; run clang-format -i (make format)" % (
                os.path.relpath(os.path.join(tree.root, found.group(1)), tree.root), found.group(2))


def rule_8_dead(tree):
    """no dead files, no test left out"""
    listed = set()
    for name in ("LIB_SOURCES", "CLI_SOURCES", "TEST_SOURCES", "FUZZ_SOURCES",
                 "TEST_SHARED_SOURCES", "BENCH_SOURCES", "BENCH_SHARED_SOURCES", "CUDA_SOURCES",
                 "FAKE_SOURCES", "KERNELS", "DEVICE_SOURCES"):
        listed.update(tree.variable(name))
    if not tree.has_cuda():
        tree.skips.append("no CUDA toolkit: whether its files are compiled was not checked")
    embedded = set(tree.variable("EMBED"))
    mentions = {}

    def mentioned(word, but):
        """Whether a text file other than `but` contains the word."""
        if word not in mentions:
            mentions[word] = [f for f in tree.files if word in tree.text(f)]
        return any(f != but for f in mentions[word])

    included = set()
    for path in tree.of(".c", ".h", ".cpp", ".cu"):
        included.update(re.findall(r'#\s*include\s+"([^"]+)"', tree.text(path)))
    if KERNEL_WORDS in included:
        included.update(f for f in tree.files if f.endswith("/" + KERNEL_WORDS))
    needs_cuda = re.compile(r"^runtime/cuda/|^sim/fake_devices/cuda/|^tests/(?:test_)?cuda|"
                            r"^tests/device/|^bench/bench_cuda")
    for path in tree.files:
        if not any(fnmatch.fnmatchcase(path, kind) for kind in KNOWN_FILES):
            yield "%s: not a kind of file that is kept here; remove it, or move it" % path
        elif tree.allow.allows(8, path, "dead"):
            continue
        elif needs_cuda.search(path) and not tree.has_cuda():
            continue
        elif path.endswith((".c", ".cu")) and path not in listed and not mentioned(
                os.path.basename(path), path):
            yield "%s: not compiled; move it to a folder of the makefile's, or remove it" % path
        elif path.endswith(".h") and path not in included:
            yield "%s: nothing includes it; remove it or use it" % path
        elif path.endswith((".S", ".map")) and not mentioned(os.path.basename(path), path):
            yield "%s: the makefile does not use it; remove it" % path
        elif (path.endswith((".sql", ".html", ".css", ".js")) and path not in embedded
              and not mentioned(os.path.basename(path), path)):
            yield "%s: neither embedded nor mentioned; remove it" % path
        elif path.startswith("scenarios/library/") and path.endswith(".lua"):
            name = os.path.splitext(os.path.basename(path))[0]
            if not any(f != path and re.search(r"[\"'./]%s[\"']" % re.escape(name), tree.text(f))
                       for f in tree.of(".lua", ".c")):
                yield '%s: nothing says require "%s"; remove it or use it' % (path, name)
        elif path.startswith(("scripts/", "docs/")) or (
                path.startswith("tests/") and path.endswith((".sh", ".py", ".js", ".supp"))) or (
                    path.startswith("tests/data/")):
            # The folder of a fuzzer's inputs has the fuzzer's name.
            inputs = "tests/%s.c" % os.path.basename(os.path.dirname(path)) in tree.files
            if not inputs and not mentioned(os.path.basename(path), path):
                yield "%s: nothing mentions it; remove it or link to it" % path
        elif path.endswith(".golden"):
            name = os.path.relpath(path, "tests/golden")[:-len(".golden")]
            if not any("scenarios/%s%s" % (name[:n], kind) in tree.files for kind in
                       (".lua", ".jsonl") for n in range(len(name), 0, -1)
                       if n == len(name) or name[n] == "."):
                yield "%s: there is no scenarios/%s.lua; remove it" % (path, name)
    tests = set(tree.variable("TESTS"))
    for path in tree.of(".c", under=("tests/test_",)):
        if needs_cuda.search(path) and not tree.has_cuda():
            continue
        name = os.path.basename(path)[:-2]
        if not any(os.path.basename(binary) == name for binary in tests):
            yield "%s: not in the makefile's TESTS" % path
        text = blank(tree.text(path))
        if not re.search(r"\bint\s+main\s*\(", text):
            yield "%s: has no main(); give it one, or another name than test_*" % path
        for case in re.findall(r"^static void (\w+)\(void \*\*", text, re.M):
            if len(re.findall(r"\b%s\b" % case, text)) < 2:
                yield "%s: the case %s is in no list; add it to a group" % (path, case)


def rule_9_comments(tree):
    """each public function has a comment"""
    for path in tree.of(".h", under=PRODUCTION):
        text = tree.text(path)
        code = blank(text).split("\n")
        raw = text.split("\n")
        described = False
        for index, line in enumerate(code):
            found = re.match(r"(?!\s|#|typedef\b|\}).*?\b(orr_(?!_)\w+)\s*\(", line)
            if not found or re.match(r"(struct|enum|union)\s+\w+\s*\{", line):
                continue
            end = index
            while end < len(code) - 1 and not re.search(r"[;{]", code[end]):
                end += 1
            start = index
            while (start > 0 and code[start - 1].strip()
                   and not re.search(r"[;}]\s*$|^\s*#", code[start - 1])):
                start -= 1
            above = raw[start - 1].strip() if start else ""
            if above.endswith("*/") or above.startswith("//"):
                described = True
            elif not above or above.startswith("#"):
                described = False
            # else a declaration right above: the comment of the group, if any, holds for this one
            # too
            if re.search(r"//|/\*", raw[end][raw[end].rfind(";") + 1:]):
                continue
            if not described and not tree.allow.allows(9, path, found.group(1)):
                yield "%s:%d: %s has no comment; say what it does, who owns what, which errors" % (
                    path, index + 1, found.group(1))


def rule_10_local(tree):
    """no machine-local paths or leftovers"""
    for path in tree.files:
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            found = LOCAL.search(line)
            if found and not tree.allow.allows(10, path, found.group(0).strip()):
                yield "%s:%d: %r belongs to a machine or a work session; say it without" % (
                    path, number, found.group(0).strip())


RULES = [rule_1_layers, rule_2_headers, rule_3_conditions, rule_4_calls, rule_5_exports,
         rule_6_globals, rule_7_spacing, rule_8_dead, rule_9_comments, rule_10_local]


def main(root):
    tree = Tree(root)
    failed = 0
    print("1..%d" % (len(RULES) + 1))
    for number, rule in enumerate(RULES, 1):
        tree.skips = []
        findings = list(rule(tree))
        failed += bool(findings)
        print("%sok %d - %s" % ("not " if findings else "", number, rule.__doc__))
        for text in findings:
            print("# " + text)
        for text in tree.skips:
            print("# skipped: " + text)
    stale = tree.allow.errors + tree.allow.unused(tree.is_unbuilt)
    failed += bool(stale)
    print("%sok %d - every allowance is needed and has a reason" % (
        "not " if stale else "", len(RULES) + 1))
    for text in stale:
        print("# " + text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else HERE + "/../..")))
