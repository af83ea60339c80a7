"""Shows that every rule of tidy.py can fail: a small clean tree passes all of them, and each change
below, which breaks one rule, is reported by that rule with the words given. Prints TAP."""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import tidy  # noqa: E402

HEADER = """/* What is true. */
#ifndef ORR_RUNTIME_TRUTH_H
#define ORR_RUNTIME_TRUTH_H

/* The truth about `value`. */
int orr_truth_of(int value);
/* Both of these are about names. */
const char *orr_truth_name(void);
const char *orr_truth_short_name(void);

#endif
"""
SOURCE = """#include "runtime/truth.h"

static const char *const names[] = {"truth", "clock() and exit() in a string"};

/* A comment may say getenv(). */
int orr_truth_of(int value) {
    return value != 0;
}

const char *orr_truth_name(void) {
    return names[0];
}

const char *orr_truth_short_name(void) {
    return names[1];
}
"""
SIM = """#include "runtime/truth.h"
#include "sim/leave.h"

/* A member may be called exit. */
struct table {
    int (*exit)(int code);
};

int orr_sim_leave(const struct table *table);

int orr_sim_leave(const struct table *table) {
    return table->exit(orr_truth_of(1));
}
"""
TEST = """#include "runtime/truth.h"

static void truth_is_true(void **state) {
    (void)state;
    (void)orr_truth_of(1);
}

int main(void) {
    truth_is_true(0);
    return 0;
}
"""
CLEAN = {
    "runtime/truth.h": HEADER,
    "runtime/truth.c": SOURCE,
    "sim/leave.c": SIM,
    "sim/leave.h": "/* Empty. */\n",
    "tests/test_truth.c": TEST,
    "scenarios/library/mesh.lua": "return {}\n",
    "scenarios/demo/one.lua": 'local mesh = require "mesh"\n',
    "tests/golden/demo/one.golden": "$ true\n",
    "README.md": "# A tree\n",
}


def local(word):
    """The word of rule 10, without the mark that keeps it out of this file."""
    return word.replace("~", "")


# (rule, file, its new text or a function of the old one, words that the finding must have)
BROKEN = [
    (1, "runtime/truth.c", lambda s: '#include "sim/leave.h"\n' + s, "must not include"),
    (1, "analyzer/look.c", '#include "sim/leave.h"\n', "analyzer/ must not include"),
    (1, "sim/leave.c", lambda s: s.replace("runtime/", "", 1), 'write "runtime/truth.h"'),
    (1, "sim/leave.c", lambda s: s.replace("runtime/", "../runtime/"), 'write "runtime/truth.h"'),
    (1, "cli/gpu.c", '#include "runtime/cuda/api.h"\n', 'write "runtime/cuda/plugin.h"'),
    (1, "runtime/cuda/kernels/one.cu", '#include "sim/leave.h"\n', "must not include"),
    (2, "runtime/truth.h", lambda s: s.replace("int value", "size_t value"), "size_t"),
    (2, "runtime/truth.h", lambda s: s.replace("(void)", "()", 1), "prototype"),
    (3, "runtime/truth.c", lambda s: s + "#ifdef ORR_SIM\n#endif\n", "#if on ORR_SIM"),
    (3, "runtime/truth.c", lambda s: s + "#if !defined(UNIT_TEST)\n#endif\n", "#if on UNIT_TEST"),
    (3, "runtime/truth.c", lambda s: s.replace("names", "names_for_testing"), "use a seam"),
    (4, "runtime/truth.c", lambda s: s.replace("value != 0", "clock()"), "verbs->now"),
    (4, "runtime/truth.c", lambda s: s.replace("value != 0", "clock_gettime(0, 0)"), "verbs->now"),
    (4, "runtime/truth.c", lambda s: s.replace("value != 0", "usleep(1)"), "verbs->wait"),
    (4, "runtime/truth.c", lambda s: s.replace("value != 0", "rand()"), "seeded generator"),
    (4, "runtime/truth.c", lambda s: s.replace("value != 0", 'getenv("X")'), "take an argument"),
    (4, "sim/leave.c", lambda s: s.replace("table->exit(", "exit("), "orr_status"),
    (4, "sim/leave.c", lambda s: s.replace("table->exit(", "pthread_self("), "runtime/cpu/"),
    (5, "runtime/truth.c", lambda s: s + "int truth(void);\nint truth(void) {\n    return 1;\n}\n",
     "exports truth"),
    (6, "runtime/truth.c", lambda s: s.replace("return", "static int n;\n    return n++ +", 1),
     "writable global n"),
    (6, "runtime/truth.c", lambda s: s + "int orr_count;\n", "writable global orr_count"),
    (6, "runtime/truth.c", lambda s: s + "_Thread_local int orr_mine = 1;\n",
     "writable global orr_mine"),
    (7, "README.md", lambda s: s + "x" * 101 + "\n", "101 columns"),
    (7, "scenarios/demo/one.lua", lambda s: s + "\tx = 1\n", "a tab"),
    (7, "README.md", lambda s: s + "x \n", "space at the end"),
    (7, "README.md", lambda s: s + "x", "no end"),
    (7, "runtime/truth.c", lambda s: s.replace("value != 0", "value!=0"), "not formatted"),
    (8, "left/over.c", "int x;\n", "not compiled"),
    (8, "runtime/unused.h", "/* Nothing. */\n", "nothing includes it"),
    (8, "runtime/cuda/left.map", "{ local: *; };\n", "the makefile does not use it"),
    (8, "notes.txt", "remember\n", "not a kind of file"),
    (8, "scripts/forgotten", "#!/bin/sh\n", "nothing mentions it"),
    (8, "scenarios/library/lost.lua", "return {}\n", 'nothing says require "lost"'),
    (8, "tests/golden/demo/two.golden", "$ true\n", "no scenarios/demo/two.lua"),
    (8, "tests/test_truth.c", lambda s: s.replace("    truth_is_true(0);\n", ""), "is in no list"),
    (8, "tests/test_truth.c", lambda s: s.replace("int main", "int orr_main"), "has no main()"),
    (9, "runtime/truth.h", lambda s: s.replace("/* The truth about `value`. */\n", ""),
     "orr_truth_of has no comment"),
    (9, "runtime/truth.h", lambda s: s.replace("/* Both of these are about names. */\n", "\n"),
     "orr_truth_short_name has no comment"),
    (10, "README.md", lambda s: s + "See /wo~rk/main.\n".replace("~", ""), "belongs to"),
    (10, "README.md", lambda s: s + local("A sub~agent did it.\n"), "belongs to"),
    (10, "README.md", lambda s: s + local("Small hel~pers.\n"), "belongs to"),
    (10, "README.md", lambda s: s + local("From .lib~rary/x.\n"), "belongs to"),
]
NEEDS_CLANG_FORMAT = "not formatted"


def plant(folder, changes):
    """Writes the clean tree with some files changed; the makefile is the real one."""
    shutil.copy(os.path.join(ROOT, "Makefile"), folder)
    shutil.copy(os.path.join(ROOT, ".clang-format"), folder)
    shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
    files = dict(CLEAN)
    # The clean tree has to mention the scripts, which the real README.md does.
    for name in os.listdir(folder + "/scripts"):
        files["README.md"] += "- scripts/%s\n" % name
    for path, change in changes.items():
        files[path] = change(files[path]) if callable(change) else change
    for path, text in files.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def findings(rule, changes, allow=None):
    folder = tempfile.mkdtemp()
    try:
        plant(folder, changes)
        if allow is not None:
            with open(folder + "/allow.txt", "w", encoding="utf-8") as file:
                file.write(allow)
        tree = tidy.Tree(folder, folder + "/allow.txt")
        tree.files = [f for f in tree.files if f != "allow.txt"]
        found = list(tidy.RULES[rule - 1](tree))
        return found, tree
    finally:
        shutil.rmtree(folder)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def case(self, good, name, notes=()):
        self.count += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.count, name))
        for note in [] if good else notes:
            print("# " + note)

    def skip(self, name, reason):
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, name, reason))


def main():
    # The archive and the stamps of the planted trees go into the trees.
    os.environ.pop("BUILD_ROOT", None)
    os.environ.pop("MAKEFLAGS", None)
    tap = Tap()
    for number, rule in enumerate(tidy.RULES, 1):
        found, _ = findings(number, {})
        tap.case(not found, "rule %d accepts a clean tree" % number, found)
    for number, path, change, words in BROKEN:
        name = "rule %d reports: %s" % (number, words.replace("#", ""))
        if words == NEEDS_CLANG_FORMAT and tidy.clang_format() is None:
            tap.skip(name, "clang-format 14 is not here")
            continue
        found, tree = findings(number, {path: change})
        if number == 8 and path.startswith("runtime/cuda/") and not tree.has_cuda():
            tap.skip(name, "no CUDA toolkit")
            continue
        tap.case(any(words in text for text in found), name,
                 ["%s was changed; found: %s" % (path, found)])
    change = {"runtime/truth.c": lambda s: s.replace("value != 0", "clock()")}
    found, tree = findings(4, change, "4 | runtime/truth.c | clock | it measures\n")
    tap.case(not found and not tree.allow.unused(), "an allowance holds for its file and call",
             found)
    found, tree = findings(4, change, "4 | runtime/truth.c | exit | it leaves\n")
    tap.case(len(found) == 1 and len(tree.allow.unused()) == 1,
             "an allowance for something else changes nothing and is reported", found)
    _, tree = findings(4, change, "4 | runtime/truth.c | clock |\n")
    tap.case(len(tree.allow.errors) == 1, "an allowance without a reason is reported")
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
