#!/usr/bin/env python3
"""The program of the device check as it is built, over the shared library of the fake devices.

All steps in their quick sizes, each with its line and none failed; without any CUDA runtime, one
line and exit status 77; wrong words are usage errors. Nothing here says anything about a GPU.

Run from the repository's root, after `make cuda` and a make of the program. Prints TAP.
"""

import csv
import os
import subprocess
import sys
import tempfile

STEPS = ["probe", "images", "numbers", "order", "overlap", "clocks", "launches", "points",
         "limits", "model"]
# What measures time has nothing to say of a fake device.
SKIPPED = {"overlap", "points", "model"}

WRONG = [
    (["--only", "12"], "--only wants steps from 0 to 9, but has '12'"),
    (["--only", "1,,2"], "--only wants steps from 0 to 9, but has ''"),
    (["--only", "two"], "--only wants steps from 0 to 9, but has 'two'"),
    (["--only", "00000000000000000001"],
     "--only wants steps from 0 to 9, but has '000000000000000'"),  # as much as is kept
    (["--only"], "no value for '--only'"),
    (["--seed", "x"], "--seed wants a number, not 'x'"),
    (["--seed", "18446744073709551616"], "--seed wants a number, not '18446744073709551616'"),
    (["--programs", "0"], "--programs wants a number from 1 to 1000000, not '0'"),
    (["--programs", "3 4"], "--programs wants a number from 1 to 1000000, not '3 4'"),
    (["-o", "--quick"], "no value for '-o'"),
    (["--fast"], "there is no option '--fast'"),
    (["results.csv"], "there is no option 'results.csv'"),
]


def variables(*names):
    lines = subprocess.run(["make", "-s", "VARIANT=release", *["print-" + name for name in names]],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    return lines[:len(names)]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def case(self, good, name, *notes):
        self.count += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.count, name))
        for note in [] if good else notes:
            print("# " + str(note).replace("\n", "\n# "))


def run(program, *words, fake=None):
    clean = {k: v for k, v in os.environ.items()
             if k not in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")}
    if fake:
        clean["LD_LIBRARY_PATH"] = fake
    result = subprocess.run([program, *words], capture_output=True, text=True, env=clean)
    result.told = "exit status %d\n%s%s" % (result.returncode, result.stdout, result.stderr)
    return result


def all_steps(tap, program, fake, folder):
    results, machine = os.path.join(folder, "all.csv"), os.path.join(folder, "measured.lua")
    result = run(program, "--quick", "-o", results, "--machine", machine, fake=fake)
    tap.case(result.returncode == 0, "all steps, and none failed", result.told)
    with open(results, encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    wrong = [row for row in rows if len(row) != 5 or "" in row or row[0] not in ("check", "figure")]
    tap.case(rows and not wrong, "each line is five fields, none of them empty", wrong)
    said = {(int(row[1]), row[3]) for row in rows if row[0] == "check"}
    for number, name in enumerate(STEPS):
        wanted = "skip" if name in SKIPPED else "pass"
        tap.case((number, wanted) in said and (number, "fail") not in said,
                 "step %d, %s: %s" % (number, name, wanted), result.told)
    tap.case(not os.path.exists(machine), "a fake device's times make no machine")


def one_step(tap, program, fake, folder):
    results = os.path.join(folder, "one.csv")
    result = run(program, "--quick", "--only", "7", "-o", results, fake=fake)
    with open(results, encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    tap.case(result.returncode == 0 and {row[1] for row in rows} == {"7"}
             and any(row[3] == "skip" for row in rows), "one step knows of the fake by itself",
             result.told)


def no_gpu(tap, program, folder):
    result = run(program, "--cudart", os.path.join(folder, "none.so"))
    tap.case(result.returncode == 77 and result.stderr == "" and result.stdout.count("\n") == 1
             and result.stdout.startswith("skipped: no CUDA runtime: "), "no CUDA runtime: skipped",
             result.told)
    result = run(program, "--quick", "--only", "1")
    one_line = result.stdout.startswith("skipped: ") and result.stdout.count("\n") == 1
    tap.case(result.returncode == 77 and one_line or
             result.returncode == 0 and "skipped: " not in result.stdout,
             "what this machine has: skipped by one line, or checked", result.told)


def words(tap, program):
    for given, line in WRONG:
        result = run(program, *given)
        tap.case(result.returncode == 2 and result.stdout == "" and
                 result.stderr.startswith("orrery-device-check: %s\nusage: " % line),
                 "wrong words: " + " ".join(given), result.told)
    result = run(program, "--help")
    tap.case(result.returncode == 0 and result.stderr == "" and
             result.stdout.startswith("usage: orrery-device-check "), "help", result.told)


def main():
    tap = Tap()
    program, fake = variables("DEVICE_CHECK", "FAKE_LIBRARY")
    if program:
        with tempfile.TemporaryDirectory() as folder:
            all_steps(tap, program, os.path.dirname(fake), folder)
            one_step(tap, program, os.path.dirname(fake), folder)
            no_gpu(tap, program, folder)
        words(tap, program)
    else:
        tap.count += 1
        print("ok 1 - the device check # SKIP no CUDA toolkit")
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
