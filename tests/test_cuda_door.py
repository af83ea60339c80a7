#!/usr/bin/env python3
"""What the command says where a GPU can't be used, one line for each reason, and what doctor says.

The CUDA runtime is replaced by a small library of this test's own, by --cudart: it has every entry
point, and answers the few questions of the probe as the environment tells it to. Nothing here needs
a driver or a GPU, or depends on whether this machine has one.

Run from the repository's root, after `make all cuda`, with ORRERY naming the command. Prints TAP.
"""

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ORRERY = os.path.abspath(os.environ.get("ORRERY", "build/release/orrery"))
CC = os.environ.get("CC", "cc")
FAKE = os.path.join(os.path.dirname(ORRERY), "fake")

# Functions with an answer; all others return ORR_CODE. Types are NVIDIA's.
ANSWERS = r"""
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = number("RUNTIME", CUDART_VERSION);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = number("DRIVER", CUDART_VERSION);
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    *count = number("COUNT", 1);
    return (cudaError_t)number("CODE", 0);
}
const char *cudaGetErrorName(cudaError_t code) {
    return code == cudaErrorUnknown ? "cudaErrorUnknown" : "cudaErrorOther";
}
const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaErrorUnknown ? "unknown error" : "another error";
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int gpu) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, gpu == 0 ? "NVIDIA H200" : "A GPU of no known name");
    properties->totalGlobalMem = 141000000000;
    return (cudaError_t)number("PROPERTIES", 0);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int gpu) {
    (void)gpu;
    *value = which == cudaDevAttrComputeCapabilityMajor   ? 9
             : which == cudaDevAttrMultiProcessorCount    ? 132
             : which == cudaDevAttrMemoryClockRate        ? 3201000
             : which == cudaDevAttrGlobalMemoryBusWidth   ? 6144
                                                          : 0;
    return cudaSuccess;
}
"""

# What the probe says: (environment, the line).
ROWS = [
    ({"CODE": "35", "DRIVER": "0"},
     "no NVIDIA driver found (libcuda.so.1 is not installed or cannot be loaded); CUDA runtime "
     "13.0"),
    ({"CODE": "35", "DRIVER": "12040"},
     "the NVIDIA driver supports CUDA 12.4 but this build needs 13.0"),
    ({"CODE": "34", "DRIVER": "0"},
     "libcuda.so.1 on the library path is the toolkit's link-time stub, not a driver"),
    ({"CODE": "100"},
     "there is an NVIDIA driver, but no CUDA device is visible (CUDA_VISIBLE_DEVICES?)"),
    ({"COUNT": "0"},
     "there is an NVIDIA driver, but no CUDA device is visible (CUDA_VISIBLE_DEVICES?)"),
]


def output(*command, given=None):
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def variable(name):
    return output("make", "-s", "print-" + name).strip()


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def case(self, good, name, *notes):
        self.count += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.count, name))
        for note in [] if good else notes:
            print("# " + str(note).replace("\n", "\n# "))


class Place:
    """A folder with the stand-in, a scenario, and copies of it that lack something."""

    def __init__(self, folder, include):
        self.folder = folder
        self.names = re.findall(r"@(\w+)@", output(
            CC, "-E", "-P", "-I.", *["-isystem" + path for path in include], "-x", "c", "-",
            given='#include "runtime/cuda/api.h"\n#define NAME(f) @f@\n'
                  "ORR__CUDA_RUNTIME_LIST(NAME)\n"))
        self.include = include
        self.cudart = self.build_stand_in("libcudart.so.13")
        with open(self.path("one.lua"), "w", encoding="utf-8") as file:
            file.write("print(1)\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def build_stand_in(self, name, without=()):
        with open(self.path("answers.c"), "w", encoding="utf-8") as file:
            file.write(ANSWERS)
        with open(self.path("rest.c"), "w", encoding="utf-8") as file:
            for function in self.names:
                if function not in without and not re.search(r"\b%s\(" % function, ANSWERS):
                    file.write("int %s(void);\nint %s(void) {\n    return 999;\n}\n" %
                               (function, function))
        subprocess.run([CC, "-shared", "-fPIC", "-o", self.path(name), self.path("answers.c"),
                        self.path("rest.c")] + ["-isystem" + path for path in self.include],
                       check=True)
        return self.path(name)

    def run(self, *words, environment=None, command=ORRERY):
        clean = {k: v for k, v in os.environ.items()
                 if k not in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([command, *words], capture_output=True, text=True,
                                cwd=self.folder, env={**clean, **(environment or {})})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        result.cpu_s = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        return result


def is_refused(result, line):
    """Exit code 5, this one line, no answer; and quickly, whatever else the machine does."""
    return (result.returncode == 5 and result.stderr == "orrery: %s\n" % line
            and result.stdout == "" and result.cpu_s < 1)


def told(result):
    return "exit code %d, %.2f s, said: %s%s" % (result.returncode, result.cpu_s, result.stdout,
                                                 result.stderr)


def rows(tap, place):
    for environment, line in ROWS:
        said = " ".join("%s=%s" % pair for pair in environment.items())
        result = place.run("run", "one.lua", "--devices", "cuda:0*4", "--cudart", place.cudart,
                           environment=environment)
        tap.case(is_refused(result, "--devices 'cuda:0*4': " + line), "a run is refused: " + said,
                 told(result))
        result = place.run("doctor", "--cudart", place.cudart, environment=environment)
        tap.case(result.returncode == 0 and
                 result.stdout.endswith("\ncuda           not usable: %s\n" % line),
                 "doctor says the same: " + said, told(result))
        result = place.run("doctor", "--json", "--cudart", place.cudart, environment=environment)
        cuda = json.loads(result.stdout)["cuda"]
        tap.case(not cuda["usable"] and cuda["why"] == line and cuda["gpus"] == [],
                 "and so does its JSON: " + said, told(result))


def others(tap, place):
    result = place.run("run", "one.lua", "--devices", "cuda:0", "--cudart", place.cudart,
                       environment={"CODE": "999"})
    tap.case(result.returncode == 5 and result.stderr.startswith(
        "orrery: --devices 'cuda:0': cudaGetDeviceCount: error 999 (cudaErrorUnknown): unknown "
        "error; ") and result.stderr.count("\n") == 1, "another error: call, number, name, text",
             told(result))
    tap.case(not os.path.exists(place.path("run.db")), "a refused run leaves no trace")
    result = place.run("run", "one.lua", "--devices", "cuda:0,5", "--cudart", place.cudart)
    tap.case(is_refused(result, "--devices 'cuda:0,5': no GPU 5: 1 is visible, from 0 on"),
             "a GPU that isn't there", told(result))


def empty_path(tap, place):
    for words in (("doctor",), ("run", "one.lua", "--devices", "cuda:0")):
        result = place.run(*words, "--cudart", "")
        tap.case(result.returncode == 2 and result.stderr.startswith("orrery: --cudart '': "),
                 "an empty path is wrong usage: " + words[0], told(result))


def no_figures(tap, place):
    """A GPU whose properties can't be had: the reason, and no line of zeros."""
    result = place.run("doctor", "--cudart", place.cudart, environment={"PROPERTIES": "999"})
    tap.case(result.returncode == 0 and "\nGPU" not in result.stdout and
             "not usable: cudaGetDeviceProperties: error 999" in result.stdout,
             "a GPU that can't be described", told(result))


def earlier_trace(tap, place):
    """A run whose devices can't be opened is refused after the trace's name is taken."""
    place.run("run", "one.lua", "--devices", "sim:h100", "-o", "kept.db")
    with open(place.path("kept.db"), "rb") as file:
        before = file.read()
    for name in ("kept.db", "fresh.db"):
        result = place.run("run", "one.lua", "--devices", "cuda:0*2", "--collectives", "nccl", "-o",
                           name, environment={"LD_LIBRARY_PATH": FAKE})
        tap.case(is_refused(result, "NCCL wants a GPU for each device, but devices 0 and 1 share "
                            "GPU 0, which it refuses with ncclInvalidUsage (5): use --collectives "
                            "emulated, or a GPU for each"), "NCCL on a shared GPU", told(result))
    with open(place.path("kept.db"), "rb") as file:
        tap.case(file.read() == before, "an earlier trace stays")
    tap.case(not os.path.exists(place.path("fresh.db")) and
             not os.path.exists(place.path("kept.db.previous")), "and nothing is left besides")


def serial_profile(tap, place):
    result = place.run("run", "one.lua", "--devices", "cuda:0", "--serial-profile", "-o",
                       "profile.db", environment={"LD_LIBRARY_PATH": FAKE})
    database = sqlite3.connect(place.path("profile.db"))
    rows = database.execute("SELECT value FROM meta WHERE key IN ('cuda_driver', 'cuda_runtime')")
    tap.case(rows.fetchall() == [("13.0",), ("13.0",)],
             "a serial profile's trace has the versions of what measured", told(result))
    database.close()


# Words of ORRERY_FAKE_CUDA that are none, and what is said of them.
WORDS = [
    ("gpus=0", "'gpus=0': expected a number from 1 to 64"),
    ("gpus=two", "'gpus=two': expected a number from 1 to 64"),
    ("seed=1 gpus=2 gpus=2", "'gpus=2': gpus= is there twice"),
    ("engine=fast", "'engine=fast': expected threads or simulated"),
    ("cpus=2", "'cpus=2': expected gpus=, engine=, memory=, driver=, faults=, seed=, jitter=, "
     "blocks= or drops="),
    ("faults=cudaNone:1:2", "fault plan: no function or kernel 'cudaNone'"),
]


def words_of_the_fake(tap, place):
    for words, line in WORDS:
        result = place.run("run", "one.lua", "--devices", "cuda:0",
                           environment={"LD_LIBRARY_PATH": FAKE, "ORRERY_FAKE_CUDA": words})
        tap.case(is_refused(result, "--devices 'cuda:0': cudaGetDeviceCount: error 3 "
                            "(cudaErrorInitializationError): ORRERY_FAKE_CUDA: " + line),
                 "the fake refuses " + words, told(result))


def too_many(tap, place):
    result = place.run("run", "one.lua", "--devices", "cuda:0*100000", "--cudart", place.cudart)
    tap.case(is_refused(result, "--devices 'cuda:0*100000': 100000 devices share the memory of GPU "
                        "0, which is too small for so many"), "too many devices on a GPU",
             told(result))


def libraries(tap, place):
    def refused(path, text):
        result = place.run("run", "one.lua", "--devices", "cuda:0", "--cudart", path)
        tap.case(is_refused(result, "--devices 'cuda:0': no CUDA runtime: %s: %s" % (path, text)),
                 text, told(result))
    refused(place.path("none.so"), "cannot open shared object file: No such file or directory")
    refused(place.build_stand_in("lacks.so", without=("cudaGraphLaunch",)),
            "has no cudaGraphLaunch, so it is no CUDA runtime of version 13")
    result = place.run("run", "one.lua", "--devices", "cuda:0", "--cudart", place.cudart,
                       environment={"RUNTIME": "12040"})
    tap.case(is_refused(result, "--devices 'cuda:0': no CUDA runtime: %s: is CUDA runtime 12.4, "
                        "but this build needs 13.x" % place.cudart), "another major version",
             told(result))
    for name in ("a", "b/lib64"):
        os.makedirs(place.path(name))
    shutil.copy(place.cudart, place.path("a"))
    with open(place.path("b/lib64/libcudart.so.13"), "w", encoding="utf-8") as file:
        file.write("no library\n")
    for name, environment in (
            ("LD_LIBRARY_PATH", {"LD_LIBRARY_PATH": "/nowhere:" + place.path("a"),
                                 "CUDA_HOME": place.path("b")}),
            ("CUDA_HOME", {"CUDA_HOME": place.path("home")}),
            ("CUDA_PATH, after a CUDA_HOME that is of no use",
             {"CUDA_HOME": place.path("b"), "CUDA_PATH": place.path("home")})):
        os.makedirs(place.path("home/lib64"), exist_ok=True)
        shutil.copy(place.cudart, place.path("home/lib64"))
        result = place.run("doctor", "--json", environment=environment)
        found = json.loads(result.stdout)["cuda"]["libraries"][0]["path"]
        wanted = place.path("a" if "LD_" in name else "home/lib64") + "/libcudart.so.13"
        tap.case(found == wanted, "the runtime is found by " + name, told(result))


def healthy(tap, place):
    result = place.run("doctor", "--cudart", place.cudart, environment={"COUNT": "2"})
    lines = result.stdout.splitlines()
    wanted = ["GPU 0          NVIDIA H200, 141 GB, 4.92 TB/s, 132 multiprocessors, compute "
              "capability 9.0, like sim:h200",
              "GPU 1          A GPU of no known name, 141 GB, 4.92 TB/s, 132 multiprocessors, "
              "compute capability 9.0",
              "cuda           usable: --devices cuda:0, and so on"]
    tap.case(result.returncode == 0 and lines[-3:] == wanted, "doctor lists GPUs", told(result))
    result = place.run("doctor", "--json", "--cudart", place.cudart)
    cuda = json.loads(result.stdout)["cuda"]
    tap.case(cuda["usable"] and cuda["why"] is None and cuda["driver"] == "13.0" and
             cuda["gpus"][0]["machine"] == "h200", "and as JSON", told(result))
    result = place.run("doctor", "run.db")
    tap.case(result.returncode == 3 and "run.db: No such file" in result.stderr,
             "doctor of a trace is about the trace", told(result))


def no_plugin(tap, place):
    shutil.copy(ORRERY, place.path("alone"))
    os.chmod(place.path("alone"), 0o755)
    result = place.run("run", "one.lua", "--devices", "cuda:0", command=place.path("alone"))
    tap.case(is_refused(result, "--devices 'cuda:0': this build has no CUDA backend: there is no "
                        "orrery-cuda.so in %s, nor in its ../lib/orrery" % place.folder),
             "a build without the plugin", told(result))
    result = place.run("doctor", command=place.path("alone"))
    tap.case(result.returncode == 0 and "CUDA plugin    none\n" in result.stdout,
             "doctor of such a build", told(result))
    with open(place.path("orrery-cuda.so"), "w", encoding="utf-8") as file:
        file.write("no library\n")
    result = place.run("run", "one.lua", "--devices", "cuda:0", command=place.path("alone"))
    tap.case(result.returncode == 5 and "the CUDA backend can't be loaded" in result.stderr,
             "a plugin that is none", told(result))


def makefile(tap):
    def make(*words):
        return subprocess.run(["make", "-s", *words], capture_output=True, text=True)
    result = make("CUDA=1", "CUDA_PATH=/nowhere", "print-PLUGIN")
    tap.case(result.returncode == 2 and result.stderr.count("\n") == 1 and
             "there is no toolkit" in result.stderr, "make CUDA=1 without a toolkit is an error",
             result.stderr)
    for words in (("CUDA=0",), ("CUDA=auto", "CUDA_PATH=/nowhere")):
        result = make(*words, "print-PLUGIN", "print-CUDA_SOURCES", "print-COMMAND")
        tap.case(result.stdout.split() == [os.path.relpath(ORRERY)] or
                 result.stdout.split()[-1].endswith("orrery") and len(result.stdout.split()) == 1,
                 "make %s builds the command and no plugin" % " ".join(words), result.stdout)
    result = make("-n", "CUDA=auto", "CUDA_PATH=/nowhere", "all")
    tap.case("no CUDA toolkit: built without GPUs (/nowhere)" in result.stdout,
             "make without a toolkit says so")
    for words, line in ((("CUDA=0",), "CUDA=0 leaves GPUs out"),
                        (("CUDA=auto", "CUDA_PATH=/nowhere"),
                         "there is no CUDA toolkit in /nowhere")):
        result = make(*words, "cuda", "device-check")
        tap.case(result.stdout == "nothing to build: %s\nskipped: %s\n" % (line, line),
                 "make cuda and device-check say so: " + " ".join(words), result.stdout)


def main():
    tap = Tap()
    makefile(tap)
    folder = os.path.realpath(tempfile.mkdtemp())
    try:
        if variable("CUDA_FOUND"):
            home = variable("CUDA_HOME")
            place = Place(folder, [home + "/include", home + "/extras/CUPTI/include"])
            rows(tap, place)
            others(tap, place)
            empty_path(tap, place)
            no_figures(tap, place)
            earlier_trace(tap, place)
            serial_profile(tap, place)
            words_of_the_fake(tap, place)
            too_many(tap, place)
            libraries(tap, place)
            healthy(tap, place)
            no_plugin(tap, place)
        else:
            tap.count += 1
            print("ok %d - the door # SKIP no CUDA toolkit" % tap.count)
    finally:
        shutil.rmtree(folder)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
