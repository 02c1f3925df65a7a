"""A real browser: headless Chromium, driven through its debugging pipe, with input that it takes for a person's."""

import base64
import json
import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)")

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --hide-scrollbars --force-color-profile=srgb --window-size=1000,900"
)

_MIDDLE = """(selector) => {
    const element = document.querySelector(selector);
    element.scrollIntoView({block: "center"});
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
}"""


@dataclass
class Pipe:
    """The two ends of the debugging pipe; one request at a time."""

    commands: int
    answers: int
    _number: int = 0
    _rest: bytes = b""

    async def send(self, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        """The result of a command; events meanwhile are dropped."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        os.write(self.commands, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = json.loads(await self._next())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    async def _next(self) -> bytes:
        with anyio.fail_after(30):
            while b"\0" not in self._rest:
                await anyio.wait_readable(self.answers)
                part = os.read(self.answers, 1 << 20)
                assert part, "Chromium has ended"
                self._rest += part
        whole, _, self._rest = self._rest.partition(b"\0")
        return whole


@dataclass
class Tab:
    """One page of the browser."""

    pipe: Pipe
    session: str

    async def send(self, method: str, **params: Any) -> Any:
        return await self.pipe.send(method, params, self.session)

    async def go(self, address: str) -> None:
        await self.send("Page.navigate", url=address)

    async def run(self, script: str) -> Any:
        """What an expression of the page's own script gives."""
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str, seconds: float = 20) -> None:
        """Wait until an expression is true of the page, or gives an element of it."""
        with anyio.fail_after(seconds):
            while True:
                if await self.run(f"!!({script})"):
                    return
                # The page tells nobody when it has drawn.
                await anyio.sleep(0.05)

    async def press(self, selector: str) -> None:
        """Press the mouse on an element, as a person does."""
        x, y = await self.run(f"({_MIDDLE})({json.dumps(selector)})")
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, selector: str, text: str) -> None:
        await self.press(selector)
        await self.send("Input.insertText", text=text)

    async def frame(self) -> "Tab":
        """The one frame of another site in this tab."""
        found = await self.pipe.send("Target.getTargets", {"filter": [{"type": "iframe"}]})
        (target,) = found["targetInfos"]
        attached = await self.pipe.send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        return Tab(self.pipe, attached["sessionId"])

    async def picture(self, *, scheme: str, height: int = 900) -> bytes:
        """What is seen in a `light` or `dark` scheme, as a PNG."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=900, height=height, deviceScaleFactor=1, mobile=False
        )
        await self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shot = await self.send("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def open_tab(folder: Path) -> AsyncGenerator[Tab]:
    """Start the browser with its profile in this folder; it is killed when the block ends."""
    pid, pipe = _started(folder)
    try:
        target = await pipe.send("Target.createTarget", {"url": "about:blank"})
        attached = await pipe.send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        tab = Tab(pipe, attached["sessionId"])
        await tab.send("Emulation.setFocusEmulationEnabled", enabled=True)
        yield tab
    finally:
        os.killpg(pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(os.waitpid, pid, 0)
        for end in (pipe.commands, pipe.answers):
            os.close(end)


def _started(folder: Path) -> tuple[int, Pipe]:
    """Chromium reads commands from its descriptor 3 and answers on 4."""
    assert CHROMIUM is not None
    command_out, command_in = os.pipe()
    answer_out, answer_in = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDWR)
    arguments = [CHROMIUM, *_FLAGS.split(), f"--user-data-dir={folder / 'profile'}", "about:blank"]
    placed = [(nowhere, 0), (nowhere, 1), (nowhere, 2), (command_out, 3), (answer_in, 4)]
    actions = [(os.POSIX_SPAWN_DUP2, *each) for each in placed]
    pid = os.posix_spawn(CHROMIUM, arguments, dict(os.environ), file_actions=actions, setsid=True)
    for end in (command_out, answer_in, nowhere):
        os.close(end)
    return pid, Pipe(command_in, answer_out)
