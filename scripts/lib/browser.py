"""Chromium without a window, by its debugging pipe: opens pages, presses keys, asks what is in them, and takes pictures.

The browser is the machine's, or Debian's package, which is unpacked into target/tools/chromium. It gets a profile of its own.

Must not: reach a network, or leave a process or a profile behind.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

import debian
import fetching
import processes
from tools import ROOT

FOLDER = ROOT / "target" / "tools" / "chromium"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
IN_PACKAGE = ("usr/lib/chromium/chromium-headless-shell", "usr/lib/chromium/chromium")
WAIT_S = 60


def find(may_fetch=True):
    """The browser's program. A fetching.Failure says why there is none."""
    named = os.environ.get("LAZYGUARD_BROWSER")
    for name in filter(None, (named, *NAMES)):
        if path := shutil.which(name):
            return path
    unpacked = [FOLDER / name for name in IN_PACKAGE]
    if may_fetch and not any(path.is_file() for path in unpacked):
        debian.unpack(["chromium-headless-shell"], FOLDER, "Chromium, for the tests of pages")
    for path in unpacked:
        if path.is_file():
            return str(path)
    raise fetching.Failure(3, "there is no Chromium to test pages with (Debian: apt install chromium; or LAZYGUARD_BROWSER=PROGRAM)")


class Browser:
    """One page at a time."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="lazyguard-browser-")
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        environment = dict(os.environ, HOME=self.profile)
        if program.startswith(str(FOLDER)):
            # Some libraries find their own by a path of the installed package, as PulseAudio's do.
            libraries = FOLDER / "usr" / "lib" / "x86_64-linux-gnu"
            environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in (libraries, *sorted(libraries.iterdir())) if path.is_dir())
        # The pipe is at descriptors 3 and 4, which the shell puts there.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", "--proxy-server=127.0.0.1:1", f"--user-data-dir={self.profile}",
            "--remote-debugging-pipe", "about:blank",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", command, program, *options], pass_fds=(to_browser, from_browser), env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.answers = processes.Answers(self.read, b"\0")
        self.number, self.events = 0, []
        try:
            target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
            self.session = None
            self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    session, scripts = None, True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        for descriptor in (self.write, self.read):
            os.close(descriptor)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until):
        try:
            return json.loads(self.answers.next(until - time.monotonic()))
        except (TimeoutError, EOFError):
            raise RuntimeError("the browser does not answer") from None

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + WAIT_S
        while True:
            answer = self.message(until)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def emulate(self, width=1280, height=900, scheme="light", media="", scripts=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.scripts = scripts

    def open(self, path):
        """Opens a file, and waits until it is loaded and drawn; how long that took, in seconds, where scripts are run."""
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        until = time.monotonic() + WAIT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(until))
        if not self.scripts:
            return None
        timing = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)))"
        return self.ask(timing) / 1000

    def ask(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, key, times=1):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"Tab": 9, "Enter": 13, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def complaints(self):
        """What the console and the log have said, exceptions, and what the page has asked of a network."""
        self.ask("1")
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.consoleAPICalled":
                found.append(f"console: {about['args']}")
            elif method == "Runtime.exceptionThrown":
                found.append(f"exception: {about['exceptionDetails'].get('exception', {}).get('description')}")
            elif method == "Log.entryAdded":
                found.append(f"log: {about['entry']['text']}")
            elif method == "Network.requestWillBeSent" and about["request"]["url"].split(":")[0] not in ("file", "about"):
                found.append(f"request: {about['request']['url']}")
        return found

    def picture(self, path, whole=True):
        """A PNG of the page, or of what is seen of it."""
        size = {}
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            size = {"clip": {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 16000), "scale": 1}}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **size)["data"]
        path.write_bytes(base64.b64decode(data))

    def printed(self):
        """The page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
