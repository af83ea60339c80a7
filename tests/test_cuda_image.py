#!/usr/bin/env python3
"""What can be known of the kernels' machine code without a GPU.

Every kernel of the table is in the image of its family, for every compute capability that the
makefile's ARCHES names; ptxas spilled no registers; the images are in the plugin as they are; the
plugin exports its one door and needs nothing but the C library. That the code runs on a GPU is not
shown here.

Run from the repository's root, after `make`. Prints TAP. The layout of a fatbin is not documented:
it is a header with its own size, then parts, each with header, size and payload; payloads are ELF
files or PTX, compressed by zstd. If NVIDIA changes it, the first case says so.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile

FATBIN_MAGIC = 0xBA55ED50
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
KIND_PTX, KIND_ELF = 1, 2


def output(*command, given=None):
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def variables(*names):
    """Variables of the makefile, each as a list of words."""
    lines = output("make", "-s", "VARIANT=release", *["print-" + name for name in names])
    return [line.split() for line in lines.split("\n")[:len(names)]]


def kernel_table():
    """[(family, kernel)], from the X list itself."""
    text = output(os.environ.get("CC", "cc"), "-E", "-P", "-I.", "-x", "c", "-",
                  given='#include "runtime/cuda/kernels/kernels.h"\n#define ROW(f, k, t) @f k@\n'
                        "ORR__CUDA_KERNEL_LIST(ROW)\n")
    return re.findall(r"@(\w+) (\w+)@", text)


def decompress(payload):
    """A zstd frame, with what pads it."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    length = ctypes.c_size_t(len(payload))
    size = library.ZSTD_getFrameContentSize(payload, length)
    frame = library.ZSTD_findFrameCompressedSize(payload, length)
    room = ctypes.create_string_buffer(min(size, 1 << 26))
    written = library.ZSTD_decompress(room, ctypes.c_size_t(len(room)), payload,
                                      ctypes.c_size_t(frame))
    if written != size:
        raise ValueError("a part that is no zstd frame")
    return room.raw


def parts(image):
    """[(kind, compute capability, payload)] of a fatbin."""
    magic, _, header, size = struct.unpack_from("<IHHQ", image)
    if magic != FATBIN_MAGIC or header + size > len(image):
        raise ValueError("no fatbin")
    at, end, found = header, header + size, []
    while at < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", image, at)
        capability, = struct.unpack_from("<I", image, at + 28)
        payload = image[at + header:at + header + size]
        if payload.startswith(ZSTD_MAGIC):
            payload = decompress(payload)
        found.append((kind, capability, payload))
        at += header + size
    return found


def kernels_in(cubin):
    """Names of the global functions of an ELF file for a GPU."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(["readelf", "-sW", file.name], capture_output=True, text=True,
                              check=True).stdout
    return set(re.findall(r"FUNC\s+GLOBAL\s.*\s(\w+)$", text, re.M))


def wrong_object(capability, home):
    """The other route, for the smallest family: nvcc's object links by the C compiler, without
    C++'s library."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = folder + "/cuda/basic.object.o"
        made = subprocess.run(["make", "-s", "CUDA_ROUTE=object", "ARCHES=%d" % capability,
                               "BUILD_ROOT=" + folder, kernel], capture_output=True, text=True)
        linked = made.returncode == 0 and subprocess.run(
            [os.environ.get("CC", "cc"), "-shared", "-Wl,-z,defs", kernel, "-L%s/lib64" % home,
             "-lcudart", "-o", folder + "/basic.so"], capture_output=True, text=True)
        if not linked or linked.returncode != 0:
            yield made.stderr + (linked.stderr if linked else "")
            return
        if "libstdc++" in output("readelf", "-dW", folder + "/basic.so"):
            yield "needs libstdc++"
        names = output("nm", "--defined-only", folder + "/basic.so")
        for family, name in kernel_table():
            if family == "basic" and not re.search(r" [Tt] %s$" % name, names, re.M):
                yield "no stub of the kernel %s" % name


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def case(self, name, problems):
        self.count += 1
        self.failed += bool(problems)
        print("%sok %d - %s" % ("not " if problems else "", self.count, name))
        for problem in problems:
            print("# " + problem)


def missing_kernels(table, images, capabilities):
    for family, image in images.items():
        wanted = {kernel for f, kernel in table if f == family}
        code = {c: kernels_in(p) for kind, c, p in image if kind == KIND_ELF}
        for capability in capabilities:
            for kernel in sorted(wanted - code.get(capability, set())):
                yield "%s: no kernel %s for %d" % (family, kernel, capability)
            for kernel in sorted(code.get(capability, set()) - wanted):
                yield "%s: the kernel %s for %d is in no table" % (family, kernel, capability)


def missing_ptx(table, images, capability):
    for family, image in images.items():
        text = b"".join(p for kind, c, p in image if kind == KIND_PTX and c == capability)
        for f, kernel in table:
            if f == family and not re.search(rb"\.entry %s\b" % kernel.encode(), text):
                yield "%s: no PTX of %s for %d" % (family, kernel, capability)


def spills(paths):
    for path in paths:
        name = ""
        for line in open(path, encoding="utf-8"):
            entry = re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line)
            name = "%s for %s" % entry.groups() if entry else name
            spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)
            if spilled and spilled.groups() != ("0", "0"):
                yield "%s: %s" % (name, line.strip())


def not_embedded(images, plugin):
    bytes_of = open(plugin, "rb").read()
    for path in images:
        if open(path, "rb").read() not in bytes_of:
            yield "%s is not in %s" % (path, plugin)


def wrong_doors(plugin):
    exported = [line.split()[-1] for line in
                output("nm", "-D", "--defined-only", plugin).splitlines()]
    if exported != ["orr_backend_get"]:
        yield "exports %s" % exported


def wrong_needs(plugin):
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", plugin))
    allowed = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    for name in needed:
        if name not in allowed:
            yield "needs %s" % name


def main():
    found, paths, plugin, arches, home = variables("CUDA_FOUND", "IMAGES", "PLUGIN", "ARCHES",
                                                   "CUDA_HOME")
    if not found:
        print("1..1\nok 1 - images of kernels # SKIP no CUDA toolkit")
        return 0
    tap, table, plugin = Tap(), kernel_table(), plugin[0]
    capabilities = [int(text) for text in arches]
    names = {os.path.basename(path)[:-len(".fatbin")]: path for path in paths}
    unread, images = [], {}
    for family, path in names.items():
        try:
            images[family] = parts(open(path, "rb").read())
        except (ValueError, struct.error, OSError) as problem:
            unread.append("%s: %s" % (path, problem))
    tap.case("every image can be taken apart", unread)
    tap.case("every family of the table has an image",
             sorted({family for family, _ in table} ^ set(images)))
    tap.case("every kernel of the table, and no other, is in its image for each of %s" %
             capabilities, list(missing_kernels(table, images, capabilities)))
    tap.case("every kernel is there as PTX for later GPUs",
             list(missing_ptx(table, images, capabilities[-1])))
    tap.case("no kernel spills registers",
             list(spills(path[:-len(".fatbin")] + ".ptxas" for path in paths)))
    tap.case("the images are in the plugin as they are", list(not_embedded(paths, plugin)))
    tap.case("the plugin exports its one door only", list(wrong_doors(plugin)))
    tap.case("the plugin needs the C library only", list(wrong_needs(plugin)))
    tap.case("kernels link as nvcc's objects, too (CUDA_ROUTE=object)",
             list(wrong_object(capabilities[0], home[0])))
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
