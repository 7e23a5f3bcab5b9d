"""A real Chromium, told what to do through its debugging pipe: no port, no driver, no package.

Commands are JSON with a zero byte after each, read from file descriptor 3 and answered on 4
(https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
LONGEST_S = 180.0
"""A command that is not answered by then has failed; a busy machine is slow."""


def chromium() -> str | None:
    """Where the browser is, under any of its usual names."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a headless browser, and every event that it sent."""

    def __init__(self, path: str, profile: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Above 3 and 4, so that neither is overwritten by the other on its way to its place.
        far_in, far_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out))
        self._pid = os.posix_spawn(
            path,
            [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, far_in, 3),
                (os.POSIX_SPAWN_DUP2, far_out, 4),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
        for end in (theirs_in, theirs_out, far_in, far_out):
            os.close(end)
        self._in, self._out, self._unread, self._asked = ours_in, ours_out, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in pages if target["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, wait for its answer; what happens meanwhile is kept in `events`."""
        self._asked += 1
        command = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        until_s = time.monotonic() + LONGEST_S
        while True:
            message = self._next(until_s, method)
            if message.get("id") == self._asked:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self.events.append(message)

    def open(self, page: Path, *, width: int, dark: bool = False, media: str = "screen") -> None:
        """Load a file at a width in pixels, with what the reader prefers, and wait until it is there."""
        self.events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.emulate(dark=dark, media=media)
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until_s = time.monotonic() + LONGEST_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(until_s, "load"))

    def emulate(self, *, dark: bool = False, media: str = "screen") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page, whatever the page itself allows."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def seen(self, *methods: str) -> list[dict[str, Any]]:
        """The events of these kinds since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def screenshot(self, file: Path) -> None:
        """The whole page, not just what fits."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """The page on A4 paper."""
        self.emulate(media="print")
        printed = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(printed["data"])

    def close(self) -> None:
        """End the browser and all that it started: they are a process group of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)

    def _next(self, until_s: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until_s - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser did not answer {waiting_for!r} within {LONGEST_S:.0f} s")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError(f"the browser ended while it was asked for {waiting_for!r}")
            self._unread += part
        message, self._unread = self._unread.split(b"\0", 1)
        return dict(json.loads(message))


@contextlib.contextmanager
def browser(path: str, profile: Path) -> Iterator[Browser]:
    """A browser that is gone afterwards."""
    started = Browser(path, profile)
    try:
        yield started
    finally:
        started.close()
