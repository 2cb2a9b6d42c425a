"""Debian's chromium without a window, spoken to over two pipes by the DevTools protocol: nothing is
installed for it.

https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import base64
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import until

CHROMIUM = shutil.which("chromium")
NO_CHROMIUM = (
    "THERE IS NO CHROMIUM HERE: the console was looked at by no browser (apt-get install chromium)"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--no-first-run",
)
KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": ("Space", 32, " ")}
MOST_TABS = 80
NAVIGATED = -32_000  # the code of an evaluation whose document was replaced before it ended
WITHIN_S = 300.0  # axe reads the longest page of the docs in a minute on a busy machine


class BrowserPage:
    """One page. `problems`: what the browser wrote to its console: a violated policy, an error of a
    script.
    """

    def __init__(self, reader: asyncio.StreamReader, pipe: int) -> None:
        self.problems: list[str] = []
        self._reader = reader
        self._pipe = pipe
        self._count = 0
        self._session: str | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded: set[str] = set()  # documents, by the id of what loaded them
        self._has_loaded = asyncio.Event()

    async def listen(self) -> None:
        while True:
            message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
            elif message["method"] == "Page.lifecycleEvent" and message["params"]["name"] == "load":
                self._loaded.add(message["params"]["loaderId"])
                self._has_loaded.set()
            elif message["method"] in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.problems.append(json.dumps(message["params"])[:500])

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        message = await self._ask(method, params)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    async def _ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        os.write(
            self._pipe,
            json.dumps({"id": self._count, "method": method, "params": params, **session}).encode()
            + b"\0",
        )
        async with asyncio.timeout(WITHIN_S):
            return await answer

    async def attach(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        self._session = (
            await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        )["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call("Page.setLifecycleEventsEnabled", enabled=True)

    async def show(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        is_dark: bool = False,
        has_scripts: bool = True,
    ) -> None:
        """Open an address and wait for it to be loaded: this one, for the page before may be loaded
        only now.
        """
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Emulation.setScriptExecutionDisabled", value=not has_scripts)
        loader = (await self.call("Page.navigate", url=url))["loaderId"]
        async with asyncio.timeout(WITHIN_S):
            while loader not in self._loaded:
                self._has_loaded.clear()
                await self._has_loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """The value of JavaScript, awaited; asked again where the document was replaced meanwhile."""
        message: dict[str, Any] = {}

        async def is_answered() -> bool:
            message.clear()
            message.update(
                await self._ask(
                    "Runtime.evaluate",
                    {"expression": expression, "awaitPromise": True, "returnByValue": True},
                )
            )
            return message.get("error", {}).get("code") != NAVIGATED

        await until(is_answered, what=expression)
        assert "error" not in message, message
        assert "exceptionDetails" not in message["result"], message["result"]
        return message["result"]["result"].get("value")

    async def press(self, key: str, modifiers: int = 0) -> None:
        """A key as a person presses it: Tab, Enter, Space, or a letter. `modifiers`: 2 for Ctrl."""
        code, number, text = KEYS.get(
            key, (f"Key{key.upper()}", ord(key[0].upper()), "" if modifiers else key)
        )
        given = {
            "key": key if key != "Space" else " ",
            "code": code,
            "windowsVirtualKeyCode": number,
            "modifiers": modifiers,
        }
        commands = ["selectAll"] if (key, modifiers) == ("a", 2) else []
        await self.call(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            text=text,
            commands=commands,
            **given,
        )
        await self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def tab_to(self, selector: str) -> None:
        """Press Tab until an element has the focus; fails where no number of presses leads there.

        Not before the document is whole: one that is replaced or read just now has not got all that
        Tab leads to, or no body.
        """
        await until(lambda: self.evaluate("document.readyState === 'complete'"), within_s=WITHIN_S)
        for _ in range(MOST_TABS):
            await self.press("Tab")
            if await self.evaluate(f"document.activeElement?.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    async def take_picture(self, file: Path, scale: float | None = None) -> None:
        """PNG, or WebP, which is small, as the name of the file says; `scale` below 1: smaller."""
        options: dict[str, object] = (
            {"format": "webp", "quality": 55} if file.suffix == ".webp" else {"format": "png"}
        )
        if scale is not None:
            width, height = await self.evaluate("[innerWidth, innerHeight]")
            options["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        picture = base64.b64decode((await self.call("Page.captureScreenshot", **options))["data"])
        await asyncio.to_thread(file.write_bytes, picture)


@asynccontextmanager
async def a_browser() -> AsyncIterator[BrowserPage]:
    """Chromium with one page, and a profile of its own."""
    assert CHROMIUM is not None
    profile = tempfile.mkdtemp(prefix="router-test-browser-")
    its_in, our_out = os.pipe()
    our_in, its_out = os.pipe()
    # bash puts them to 3 and 4; dash knows no number above 9
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (its_in, its_out)]
    shell = f'exec "$0" "$@" 3<&{ends[0]} 4>&{ends[1]} 2>/dev/null'
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, CHROMIUM, *FLAGS, f"--user-data-dir={profile}", pass_fds=ends
    )
    for end in (its_in, its_out, *ends):
        os.close(end)
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_in, "rb")
    )
    page = BrowserPage(reader, our_out)
    listening = asyncio.create_task(page.listen())
    try:
        await page.attach()
        yield page
    finally:
        listening.cancel()
        process.terminate()
        await process.wait()
        transport.close()
        os.close(our_out)
        shutil.rmtree(profile, ignore_errors=True)
