"""A real Chromium for tests: found on this machine, or installed where a continuous integration runs as root.

It is spoken to in the DevTools protocol over a pipe: nothing listens on a port, nothing more has to be installed. Names
are not resolved, but for those that a test makes point here: a page reaches this machine and nothing else.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALLING = 240
"""Seconds after which an installation is given up."""

TIMEOUT = 60
"""Seconds until a browser that does not answer is given up."""

FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
)

# The browser speaks on the descriptors 3 and 4: the two ends of ours are moved there before it starts.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for wanted, end in zip((3, 4), ends):
    os.dup2(end, wanted)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""


@cache
def chromium() -> str | None:
    """The path of a Chromium; None where there is none and none can be installed."""
    return _found() or (install() if os.environ.get("CI") and os.geteuid() == 0 else None)


def _found() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def install() -> str | None:
    """Debian's package, for one process at a time; offline this fails at once."""
    if shutil.which("apt-get") is None:
        return None
    deadline = time.monotonic() + INSTALLING
    with (Path(tempfile.gettempdir()) / "holdfast-tests-chromium.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return None
                time.sleep(1)
        if found := _found():
            return found
        quick = ("-q", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20")
        for command in (("update",), ("install", "-y", "--no-install-recommends", "chromium")):
            if not _runs(["apt-get", *quick, *command], deadline - time.monotonic()):
                return None
    return _found()


def _runs(command: list[str], seconds: float) -> bool:
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, env=quiet, stdin=subprocess.DEVNULL, capture_output=True, timeout=max(1, seconds), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextmanager
def launched(*names: str) -> Iterator[Browser]:
    """A browser for as long as it is needed, for which `names` point at this machine; without one the test is left out
    by name."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium is installed (looked for " + ", ".join(PROGRAMS) + ")")
    profile = tempfile.TemporaryDirectory(prefix="holdfast-browser-", ignore_cleanup_errors=True)
    with profile as folder, Browser(program, Path(folder), names) as browser:
        yield browser


class Browser:
    """One running Chromium with an empty profile."""

    def __init__(self, program: str, profile: Path, names: tuple[str, ...] = ()) -> None:
        self._sent = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        theirs, self._out = os.pipe()
        self._in, theirs_too = os.pipe()
        here = [f"MAP {name} 127.0.0.1" for name in names]
        rules = ", ".join([*here, "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"])
        flags = [*FLAGS, f"--host-resolver-rules={rules}", f"--user-data-dir={profile}"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs), str(theirs_too), program, *flags, "about:blank"],
            pass_fds=(theirs, theirs_too),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(theirs_too)

    def __enter__(self) -> Self:
        try:
            self.ask("Browser.getVersion")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.ask("Browser.close")
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)
        finally:
            self._process.wait()
            os.close(self._in)
            os.close(self._out)

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Send a command and wait for its answer; what happens meanwhile is kept in `events`."""
        self._sent += 1
        number = self._sent
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        said = json.dumps(message).encode() + b"\0"
        while said:
            said = said[os.write(self._out, said) :]
        for told in self._messages():
            if told.get("id") == number:
                assert "error" not in told, (method, told["error"])
                return told["result"]
            self.events.append(told)
        raise AssertionError(f"{method}: the browser ended")

    def wait(self, method: str, session: str) -> None:
        """Until something has happened on a page, if it has not yet."""
        if any(each.get("method") == method and each.get("sessionId") == session for each in self.events):
            return
        for told in self._messages():
            self.events.append(told)
            if told.get("method") == method and told.get("sessionId") == session:
                return
        raise AssertionError(f"the browser ended before {method}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + TIMEOUT
        while True:
            while b"\0" in self._rest:
                first, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(first)
            assert select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0], "the browser is silent"
            more = os.read(self._in, 1 << 20)
            if not more:
                return
            self._rest += more

    def open(
        self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> Visit:
        """Load a page in a window of its own and wait until it is complete."""
        return Visit(self, url, width, height, dark, scripts)


class Visit:
    """A loaded page: what it asked for, what it complained about, what can be found out about it."""

    def __init__(self, browser: Browser, url: str, width: int, height: int, dark: bool, scripts: bool) -> None:
        self._browser = browser
        self._context = context = browser.ask("Target.createBrowserContext")["browserContextId"]
        target = browser.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        if not scripts:
            self.ask("Emulation.setScriptExecutionDisabled", value=True)
        self.ask("Page.navigate", url=url)
        browser.wait("Page.loadEventFired", self._session)
        if scripts:
            self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._browser.ask("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser.events = [each for each in self._browser.events if each.get("sessionId") != self._session]

    def ask(self, method: str, **parameters: Any) -> Any:
        return self._browser.ask(method, self._session, **parameters)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of the promise it is."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def happened(self, method: str) -> list[dict[str, Any]]:
        """What the browser told of this page so far, of one kind."""
        those = (each for each in self._browser.events if each.get("sessionId") == self._session)
        return [each["params"] for each in those if each.get("method") == method]

    @property
    def requested(self) -> list[str]:
        """Every address the page asked for, itself included."""
        return [each["request"]["url"] for each in self.happened("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings: of the console, of scripts, of the browser about the page."""
        said = [each["exceptionDetails"]["text"] for each in self.happened("Runtime.exceptionThrown")]
        said += [f"{each['type']}: {each['args']}" for each in self.happened("Runtime.consoleAPICalled")]
        return said + [f"{each['entry']['level']}: {each['entry']['text']}" for each in self.happened("Log.entryAdded")]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The page as a PNG, all of it or what the window shows."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self, path: Path) -> None:
        """The page as it is printed, on A4."""
        sheets = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        path.write_bytes(base64.b64decode(sheets["data"]))
