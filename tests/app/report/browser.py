"""A real browser without a window, driven over its DevTools protocol through a pipe."""

import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser():
    """Return where Chromium is, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium; a context that ends it."""

    def __init__(self, timeout=30.0):
        self.timeout, self.events = timeout, []
        self._count, self._unread, self._session = 0, b"", None

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_out, self._write = self._pipe()
        self._read, answer_in = self._pipe()
        argv = [find_browser(), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # it reads commands from descriptor 3, and writes what happens to descriptor 4
        actions = [(os.POSIX_SPAWN_OPEN, k, os.devnull, os.O_RDWR, 0) for k in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, command_out, 3), (os.POSIX_SPAWN_DUP2, answer_in, 4)]
        self._pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
        os.close(command_out)
        os.close(answer_in)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self._session = None
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._write)
        os.close(self._read)
        os.waitpid(self._pid, 0)
        self._profile.cleanup()

    @staticmethod
    def _pipe():
        # above the descriptors that the browser wants
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return high

    def call(self, method, **params):
        """Send a command, and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        deadline = time.monotonic() + self.timeout
        while (answer := self._next(deadline)).get("id") != self._count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self, deadline):
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            chunk = os.read(self._read, 2**20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser does not answer")
            self._unread += chunk
        line, self._unread = self._unread.split(b"\0", 1)
        return json.loads(line)

    def open(self, html, path, width=1280, height=900, scheme="light"):
        """Write a page to a file and show it."""
        Path(path).write_text(html, encoding="utf-8")
        self.shape(width, height, scheme)
        self.events.clear()
        self.call("Page.navigate", url=Path(path).as_uri())
        deadline = time.monotonic() + self.timeout
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next(deadline))

    def shape(self, width, height=900, scheme="light"):
        """Set the size of the window, and whether the reader prefers light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def js(self, expression):
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression):
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + self.timeout
        while not self.js(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.02)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).textContent")

    def place(self, selector, across=0.5, down=0.5):
        """Scroll to an element, and return a point of it."""
        return self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            f"return [b.left + {across} * b.width, b.top + {down} * b.height]; }})()"
        )

    def mouse(self, kind, x, y):
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def complaints(self):
        """Return what the page has logged, thrown or been refused since it was opened."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [e for e in self.events if e.get("method") in kinds]

    def requests(self):
        """Return the addresses that were asked for since the page was opened."""
        sent = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [e["params"]["request"]["url"] for e in sent]
