"""A console in this process, and an HTTP client for its pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson

from router.config import Settings
from router.console import ConsoleServer
from router.delivery.wire.api import JetStream
from router.shell.pages import PAGES as SPECS
from tests.support.beside import beside
from tests.support.dead_letters import a_dead_letter, a_failed_message
from tests.support.service import settings_for

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e'\"&"
PAGES = ("/", *(spec.path for spec in SPECS if spec.label))  # those of the navigation


class Console:
    """A running console; `url` has no slash at its end."""

    def __init__(self, server: ConsoleServer, port: int, client: httpx2.AsyncClient) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = client

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(self.url + path, headers=headers)

    async def read(self, path: str) -> str:
        """The HTML of a page that is there."""
        response = await self.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text)
        return response.text

    async def export(self, path: str) -> list[dict[str, Any]]:
        """The rows of the page's table as JSON."""
        response = await self.get(path + ("&" if "?" in path else "?") + "format=json")
        assert response.status_code == 200, response.text
        return orjson.loads(response.content)


def console_settings(url: str, prefix: str = "t", **overrides: object) -> Settings:
    """Settings of a router of one test and of its console; no router's figures are read unless they
    are named.
    """
    return settings_for(
        url, prefix, **{"console__port": 0, "console__metrics": "http://127.0.0.1:1", **overrides}
    )


@asynccontextmanager
async def a_console(settings: Settings, *, begin_after_s: float = 60.0) -> AsyncIterator[Console]:
    """A page begins when its data are there, so that its status is theirs, unless `begin_after_s`
    is less.
    """
    server = ConsoleServer(settings, begin_after_s=begin_after_s)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with beside(server.run(port.set_result)) as task:
        await asyncio.wait({task, port}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        async with httpx2.AsyncClient(timeout=60) as client:
            yield Console(server, await port, client)


async def store_dead_letter(
    jetstream: JetStream, settings: Settings, data: bytes = b'{"n":1}', **facts: Any
) -> None:
    """One more about a decide request. `reason`, `seen` as those of `a_dead_letter`; all else is
    the message's.
    """
    of_letter = {name: facts.pop(name) for name in ("reason", "seen") if name in facts}
    dead_letter = a_dead_letter(
        a_failed_message(data, subject=settings.decide.subject, **facts), **of_letter
    )
    await jetstream.publish(
        dead_letter.subject,
        dead_letter.data,
        {**dead_letter.headers, "Nats-Msg-Id": f"id-{hash((data, str(facts)))}"},
    )
