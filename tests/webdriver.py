"""A browser for tests: chromedriver, spoken to in plain WebDriver over HTTP.

    from webdriver import Browser, missing
    if missing(): ...                        # the reason why there is no browser, or None
    with Browser(width=1280, height=900) as browser:
        browser.open("file:///tmp/report.html")
        browser.run("return document.title")

Needs Debian's chromium and chromium-driver, nothing else.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

PATIENCE = 60


def missing():
    """Why no browser can be started, or None."""
    for command in ("chromium", "chromedriver"):
        if not shutil.which(command):
            return f"no {command} here (scripts/setup --browser installs it)"
    return None


class Failed(Exception):
    """The browser could not do what was asked."""


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.TemporaryDirectory()
        self.log = os.path.join(self.folder.name, "driver.log")
        self.driver = subprocess.Popen(["chromedriver", "--port=0", f"--log-path={self.log}"],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        self.base, self.session = "", ""
        try:
            self._start(width, height, dark)
        except BaseException:
            self.close()
            raise

    def _start(self, width, height, dark):
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found.group(1)}"
                break
        if not self.base:
            raise Failed("chromedriver did not start")
        arguments = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                     "--disable-dev-shm-usage", f"--user-data-dir={self.folder.name}/profile",
                     f"--window-size={width},{height}", "--force-device-scale-factor=1"]
        if os.geteuid() == 0:  # as root it has no sandbox
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--force-dark-mode")
        options = {"binary": shutil.which("chromium"), "args": arguments}
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + answer["sessionId"]

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(f"{path}: {error.read().decode(errors='replace')[:600]}") from error

    def command(self, method, path, body=None):
        return self._ask(method, self.session + path, body)

    def devtools(self, name, **parameters):
        return self.command("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, url):
        self.command("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        found = self.command("POST", "/element", {"using": "css selector", "value": selector})
        return next(iter(found.values()))

    def click(self, selector):
        self.command("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.command("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def drag(self, from_point, to_point):
        """With the mouse, between two points of the window."""
        def move(point, duration):
            return {"type": "pointerMove", "duration": duration, "x": int(point[0]),
                    "y": int(point[1])}
        self.command("POST", "/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [move(from_point, 0), {"type": "pointerDown", "button": 0},
                        move(to_point, 120), {"type": "pointerUp", "button": 0}]}]})

    def hover(self, point):
        self.command("POST", "/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [{"type": "pointerMove", "duration": 0, "x": int(point[0]),
                         "y": int(point[1])}]}]})

    def size(self, width, height):
        """Of what the page sees, as a phone or a desktop would show it."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=width < 600)

    def console(self):
        """What the page said since the last call: errors, warnings."""
        return self.command("POST", "/se/log", {"type": "browser"})

    def requests(self):
        """URLs asked for since the last call, of any scheme."""
        urls = []
        for entry in self.command("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def screenshot(self, path, whole=False):
        """A PNG of the window, or of the whole page."""
        data = self.devtools("Page.captureScreenshot", format="png",
                             captureBeyondViewport=whole)["data"] if whole else \
            self.command("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        data = self.command("POST", "/print", {"background": True, "page": {
            "width": 21.0, "height": 29.7}, "shrinkToFit": True})
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        try:
            if self.session:
                self.command("DELETE", "")
        except (Failed, OSError):
            pass
        self.driver.terminate()
        self.driver.wait(timeout=PATIENCE)
        self.driver.stdout.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
