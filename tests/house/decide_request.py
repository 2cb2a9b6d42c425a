"""The files of router/ that a decide request passes: `python -m tests.house.decide_request`.

    a thread with nats-py ── REQUESTS, one by one ──> nats-server ──> a router in this thread, profiled

A file counts if functions of it are called for nearly every request, from the socket to the ack.
What a timer calls is called between few of them. A file of constants and types is not passed.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from uuid import uuid4

import nats
import orjson

from router.process.embedded import EmbeddedServer
from tests.house.measure import REPOSITORY
from tests.support.requests import a_body
from tests.support.service import a_router, settings_for

REQUESTS = 200
WARM_UP = 20
NEARLY_EVERY = 0.9
ROUTER = f"{REPOSITORY}/router/"


@cache
def find_files() -> list[str]:
    """Below router/, sorted: `delivery/consume/processor.py`."""
    counts = asyncio.run(count_requests())
    return sorted(
        file.removeprefix(ROUTER)
        for file, count in counts.items()
        if count >= NEARLY_EVERY * REQUESTS
    )


def list_transport(files: list[str]) -> list[str]:
    return [file for file in files if file.startswith("delivery/")]


async def count_requests() -> Counter[str]:
    """Each file of router/, and for how many requests functions of it were called."""
    with tempfile.TemporaryDirectory(prefix="decide-") as store:
        server = EmbeddedServer(Path(store))
        try:
            url = await server.start()
            settings = settings_for(url)
            async with a_router(settings):
                await asyncio.to_thread(ask, url, settings.decide.subject, WARM_UP, lambda: None)
                return await profile(url, settings.decide.subject)
        finally:
            await server.stop()


async def profile(url: str, subject: str) -> Counter[str]:
    called: list[set[str]] = [set()]  # a set for each request

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROUTER):
            called[-1].add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        await asyncio.to_thread(ask, url, subject, REQUESTS, lambda: called.append(set()))
    finally:
        sys.setprofile(None)
    return Counter(file for files in called for file in files)


def ask(url: str, subject: str, count: int, on_answer: Callable[[], None]) -> None:
    asyncio.run(_ask(url, subject, count, on_answer))


async def _ask(url: str, subject: str, count: int, on_answer: Callable[[], None]) -> None:
    client = await nats.connect(url)
    for _ in range(count):
        headers = {
            "tenant_id": "acme",
            "version": "1",
            "trace_id": uuid4().hex,
            "Nats-Msg-Id": uuid4().hex,
        }
        answer = await client.request(subject, orjson.dumps(a_body()), headers=headers, timeout=30)
        assert b"provider_id" in answer.data, answer.data
        on_answer()
    await client.close()


def main() -> None:
    files = find_files()
    print(
        "\n".join(files),
        f"files: {len(files)}, of them transport: {len(list_transport(files))}",
        sep="\n",
    )


if __name__ == "__main__":
    main()
