#!/usr/bin/env python3
"""orrery view, from outside: who gets the timeline, who does not, and when it ends.

    ORRERY=build/release/orrery tests/test_view.py [PATTERN]

Prints TAP. Needs nothing but Python's standard library, and port 9001 of 127.0.0.1: where that is
taken, the cases are skipped.
"""
import contextlib
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORRERY = os.path.abspath(os.environ.get("ORRERY", str(ROOT / "build/release/orrery")))
ORIGIN = "https://ui.perfetto.dev"
HOST, PORT = "127.0.0.1", 9001
PATIENCE = 60


class Wrong(Exception):
    """What was not as it should be."""


def expect(true, text):
    if not true:
        raise Wrong(text)


def run(*words):
    return subprocess.run([ORRERY, *words], cwd=ROOT, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


class View:
    """A running `orrery view`; its link is awaited."""

    def __init__(self, trace, folder):
        environment = {**os.environ, "TMPDIR": folder}
        # More than one thread, so that a signal may meet another one.
        environment.pop("OPENBLAS_NUM_THREADS", None)
        self.process = subprocess.Popen([ORRERY, "view", trace], cwd=ROOT, env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().split()[-1:]
        self.name = self.link[0].rsplit("/", 1)[-1] if self.link else ""

    def end(self):
        """(exit code, rest of stdout, stderr), once it has ended by itself."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def runs(self):
        return self.process.poll() is None


@contextlib.contextmanager
def viewing(trace, folder):
    view = View(trace, folder)
    try:
        yield view
    finally:
        if view.runs():
            view.process.kill()
        view.process.communicate()


def ask(path, method="GET", **headers):
    """(status, headers, body); a header given as None is left out."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=PATIENCE)
    headers = {"Host": f"{HOST}:{PORT}",
               **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.putrequest(method, path, skip_host=True)
    for name, value in headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def fetch(view, **headers):
    return ask("/" + view.name, Origin=ORIGIN, **headers)


# ---- cases: each has a trace, what its export holds, and a folder for temporary files ----

def whole(trace, exported, folder):
    """the page gets the whole timeline, then it ends and leaves nothing"""
    with viewing(trace, folder) as view:
        expect(view.link == [f"https://ui.perfetto.dev/#!/?url=http://{HOST}:{PORT}/{view.name}"],
               f"link {view.link}")
        expect(not os.listdir(folder), f"a name in the temporary folder: {os.listdir(folder)}")
        status, headers, body = fetch(view)
        expect(status == 200 and body == exported, f"{status}, {len(body)} bytes")
        wanted = {"Access-Control-Allow-Origin": ORIGIN, "Vary": "Origin",
                  "Content-Type": "application/json", "Content-Length": str(len(exported))}
        for name, value in wanted.items():
            expect(headers.get_all(name) == [value], f"{name}: {headers.get_all(name)}")
        code, out, err = view.end()
        expect((code, err) == (0, "") and out.endswith("fetched\n"), f"{code} {out!r} {err!r}")


def origins(trace, exported, folder):
    """another origin, or a page of another site, gets nothing, and it goes on"""
    with viewing(trace, folder) as view:
        path = "/" + view.name
        foreign = ["https://example.org", "http://ui.perfetto.dev", "null", ORIGIN + ".example.org",
                   ORIGIN + "/", "https://UI.perfetto.dev", ""]
        for origin in foreign:
            for method in ("GET", "HEAD", "OPTIONS"):
                status, headers, body = ask(path, method, Origin=origin)
                expect(status == 403 and exported[:100] not in body, f"{method} {origin}: {status}")
                expect("Access-Control-Allow-Origin" not in headers, f"allowed {origin!r}")
                expect(headers["Vary"] == "Origin", "no Vary")
        for site in ("cross-site", "same-site"):
            status, _, _ = ask(path, Sec_Fetch_Site=site)
            expect(status == 403, f"{site}: {status}")
        expect(view.runs(), "it ended")
        status, _, body = ask(path, Sec_Fetch_Site="none")
        expect(status == 200 and body == exported, f"typed into a browser: {status}")
        expect(view.end()[0] == 0, "exit code")


def hosts(trace, exported, folder):
    """a name that resolves to the loopback gets nothing (DNS rebinding)"""
    with viewing(trace, folder) as view:
        for host in ("example.org", f"example.org:{PORT}", HOST, f"{HOST}:80",
                     f"{HOST}:{PORT}.example.org", f"{HOST}:{PORT}@example.org", "", None):
            status, headers, body = ask("/" + view.name, Origin=ORIGIN, Host=host)
            expect(status in (400, 403) and exported[:100] not in body, f"{host!r}: {status}")
            expect("Access-Control-Allow-Origin" not in headers, f"allowed {host!r}")
        status, _, body = fetch(view, Host=f"localhost:{PORT}")
        expect(status == 200 and body == exported, f"localhost: {status}")
        expect(view.end()[0] == 0, "exit code")


def paths(trace, exported, folder):
    """other paths are 404, other methods 405"""
    with viewing(trace, folder) as view:
        for path in ("/", "/index.html", "/" + view.name + "/", "/" + view.name + "x",
                     "/../" + view.name, "/..%2f..%2fetc/passwd", "//" + view.name):
            status, _, body = ask(path, Origin=ORIGIN)
            expect(status == 404 and exported[:100] not in body, f"{path}: {status}")
        for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
            status, headers, _ = ask("/" + view.name, method, Origin=ORIGIN)
            expect(status == 405, f"{method}: {status}")
            expect(headers["Allow"] == "GET, HEAD, OPTIONS", f"{method}: {headers['Allow']}")
        expect(view.runs(), "it ended")


def preflight(trace, exported, folder):
    """the question before the request, also that for private networks"""
    with viewing(trace, folder) as view:
        path = "/" + view.name
        status, headers, body = ask(path, "OPTIONS", Origin=ORIGIN,
                                    Access_Control_Request_Method="GET")
        expect(status == 204 and body == b"", f"{status}")
        expect(headers["Access-Control-Allow-Origin"] == ORIGIN, "no origin")
        expect("GET" in headers["Access-Control-Allow-Methods"], "no method")
        expect("Access-Control-Allow-Private-Network" not in headers, "was not asked for")
        status, headers, _ = ask(path, "OPTIONS", Origin=ORIGIN,
                                 Access_Control_Request_Private_Network="true")
        expect(status == 204 and headers["Access-Control-Allow-Private-Network"] == "true",
               "private network")
        expect(view.runs(), "it ended")


def head_first(trace, exported, folder):
    """HEAD has the length and ends nothing; a range is answered by all"""
    with viewing(trace, folder) as view:
        status, headers, body = ask("/" + view.name, "HEAD", Origin=ORIGIN)
        expect(status == 200 and body == b"", f"{status}")
        expect(headers["Content-Length"] == str(len(exported)), headers["Content-Length"])
        time.sleep(0.2)
        expect(view.runs(), "it ended after HEAD")
        status, headers, body = fetch(view, Range="bytes=10-19")
        expect(status == 200 and body == exported and headers["Accept-Ranges"] == "none",
               f"range: {status}, {len(body)} bytes")
        expect(view.end()[0] == 0, "exit code")


def slow_socket(view):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((HOST, PORT))
    client.sendall(f"GET /{view.name} HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nOrigin: {ORIGIN}\r\n"
                   "\r\n".encode())
    return client


def two_clients(trace, exported, folder):
    """one who is still fetching when another is done gets the rest"""
    with viewing(trace, folder) as view:
        slow = slow_socket(view)
        begin = slow.recv(100)
        status, _, body = fetch(view)
        expect(status == 200 and body == exported, f"the other one: {status}")
        time.sleep(0.3)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        rest = begin
        while chunk := slow.recv(1 << 20):
            rest += chunk
        slow.close()
        expect(rest.split(b"\r\n\r\n", 1)[1] == exported, f"{len(rest)} bytes")
        expect(view.end()[0] == 0, "exit code")


def gone_client(trace, exported, folder):
    """one who leaves in the middle has not fetched it"""
    with viewing(trace, folder) as view:
        client = slow_socket(view)
        client.recv(1000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        idle = socket.create_connection((HOST, PORT))
        idle.sendall(b"GET / HT")
        time.sleep(0.3)
        expect(view.runs(), "it ended")
        status, _, body = fetch(view)
        expect(status == 200 and body == exported, f"afterwards: {status}")
        expect(view.end()[0] == 0, "exit code")
        idle.close()


def garbage(trace, exported, folder):
    """bytes that are no request do no harm"""
    with viewing(trace, folder) as view:
        for text in (b"\0" * 4000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff\xfe" * 99,
                     b"GET /" + b"a" * 99999 + b" HTTP/1.1\r\n\r\n", b"",
                     b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 9999 + b"\r\n",
                     b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nabc"):
            with contextlib.suppress(OSError):
                client = socket.create_connection((HOST, PORT), timeout=5)
                client.sendall(text)
                client.shutdown(socket.SHUT_WR)
                client.recv(1 << 16)
                client.close()
        expect(view.runs(), "it ended")
        expect(fetch(view)[2] == exported, "not served afterwards")
        expect(view.end()[0] == 0, "exit code")


def signals(trace, exported, folder):
    """Ctrl-C ends it, as asked: exit code 0, nothing left"""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for asked in (False, True):
            with viewing(trace, folder) as view:
                client = slow_socket(view) if asked else None
                if client:
                    client.recv(1)
                view.process.send_signal(number)
                code, out, err = view.end()
                expect((code, err) == (0, "") and out.endswith("stopped\n"),
                       f"{number}: {code} {out!r} {err!r}")
                expect(not os.listdir(folder), "something is left")
                if client:
                    client.close()


def busy(trace, exported, folder):
    """a taken port: one line, exit code 5"""
    with viewing(trace, folder) as view:
        done = run("view", trace)
        expect(done.returncode == 5 and not done.stdout, f"{done.returncode} {done.stdout!r}")
        expect(done.stderr.count("\n") == 1 and "9001" in done.stderr, done.stderr)
        expect(view.runs(), "the first one ended")


def bad_input(trace, exported, folder):
    """no trace, no argument: exit codes 3 and 2, and the port is free"""
    other = os.path.join(folder, "page.html")
    pathlib.Path(other).write_text("<html></html>", encoding="utf-8")
    for words, wanted in (([other], 3), ([os.path.join(folder, "none.db")], 3), ([], 2),
                          ([trace, trace], 2), ([trace, "--port", "1"], 2)):
        done = run("view", *words)
        expect(done.returncode == wanted and not done.stdout and done.stderr.count("\n") == 1,
               f"{words}: {done.returncode} {done.stdout!r} {done.stderr!r}")
    os.unlink(other)
    whole(trace, exported, folder)


def loopback(trace, exported, folder):
    """it listens on 127.0.0.1 and nowhere else"""
    with viewing(trace, folder) as view:
        expect(view.runs(), "it ended")
        listening = []
        for family in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                rows = pathlib.Path(f"/proc/net/{family}").read_text(encoding="ascii").split("\n")
                listening += [row.split()[1] for row in rows[1:] if row and row.split()[3] == "0A"]
        here = [address for address in listening if address.endswith(f":{PORT:04X}")]
        expect(here == [f"0100007F:{PORT:04X}"], f"{here}")


CASES = [whole, origins, hosts, paths, preflight, head_first, two_clients, gone_client, garbage,
         signals, busy, bad_input, loopback]


def port_is_free():
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, PORT))
        except OSError:
            return False
    return True


def make_trace(folder):
    """A trace whose timeline is larger than what sockets hold back."""
    trace, target = os.path.join(folder, "run 1.db"), os.path.join(folder, "run.json")
    done = run("run", "scenarios/worked_example/launch_bound.lua", "repeats=100",
               "checked=false", "--timing-only", "-o", trace)
    if done.returncode not in (0, 1) or not os.path.exists(trace):
        raise Wrong(f"no trace: {done.stderr}")
    done = run("export", trace, "-o", target)
    if done.returncode != 0:
        raise Wrong(f"no export: {done.stderr}")
    return trace, pathlib.Path(target).read_bytes()


def main(pattern):
    cases = [case for case in CASES if pattern in case.__name__]
    print(f"1..{len(cases)}", flush=True)
    if not port_is_free():
        for number, case in enumerate(cases, 1):
            print(f"ok {number} - {case.__doc__} # SKIP port {PORT} of {HOST} is taken")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        trace, exported = make_trace(folder)
        for number, case in enumerate(cases, 1):
            problem = None
            with tempfile.TemporaryDirectory() as temporary:
                try:
                    case(trace, exported, temporary)
                except (Wrong, OSError, http.client.HTTPException,
                        subprocess.TimeoutExpired) as error:
                    problem = f"{type(error).__name__}: {error}"
            failed += problem is not None
            print(f"{'not ok' if problem else 'ok'} {number} - {case.__doc__}", flush=True)
            if problem:
                print(f"# {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
