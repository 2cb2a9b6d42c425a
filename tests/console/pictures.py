"""Pictures of every page beside a router at work: `python -m tests.console.pictures
docs/pictures/console`. Light, dark, on a phone. With addresses behind it (`/contract/rules`) those
alone are taken.

They are to be looked at; docs/how-to/console-pictures.md shows them. Each is a WebP file of at most
60 KB, or this fails.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from router.config import Settings, load
from router.config.connect import connect_by
from router.contracts.alert import ALERT_SUBJECT
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
from router.core.clock import now_ms
from router.delivery.wire.api import JetStream
from router.sdk import Client
from tests.support.broker import Broker
from tests.support.browser import BrowserPage, a_browser
from tests.support.budgets import a_worker
from tests.support.cli import serve_router
from tests.support.console import Console, a_console
from tests.support.console_data import TENANTS, ConsoleData, fill_console
from tests.support.console_pages import ADDRESSES, OTHER_VIEWS, name_picture

LOOKS = {"light": {}, "dark": {"is_dark": True}, "phone": {"width": 390, "height": 844}}
MOST_BYTES = 60_000
SCALE = 0.65  # of what is not on a phone
DRAWN = (
    "document.fonts.ready.then(() => new Promise(drawn => requestAnimationFrame(() => "
    "requestAnimationFrame(drawn)))).then(() => true)"
)
WORK_S = 25  # before the first picture: the charts have something to draw


async def main(directory: Path, paths: Sequence[str]) -> None:
    broker = Broker().start()
    try:
        with serve_router("--nats-url", broker.url, "--http-port", "0") as served:
            settings = load(
                None,
                {
                    "nats.url": broker.url,
                    "console.port": 0,
                    "console.metrics": served.ready["http"],
                },
                {},
            ).settings
            await _fill(settings)
            async with a_worker(settings), a_console(settings) as console, a_browser() as browser:
                with _at_work(broker.url):
                    await browser.show(console.url + "/")  # routers are read while it is looked at
                    await asyncio.sleep(WORK_S)
                    await _take_all(console, browser, directory, paths)
    finally:
        broker.stop()


async def _fill(settings: Settings) -> None:
    connection = await connect_by(settings.nats)
    await fill_console(
        JetStream(connection),
        settings,
        ConsoleData(letters=4_000, violations=900, policies=24, assignments=200),
    )
    await connection.close()


@contextmanager
def _at_work(url: str) -> Iterator[None]:
    """Requests, some of which are refused, as long as the block lasts."""
    task = asyncio.create_task(_work(url))
    try:
        yield
    finally:
        task.cancel()


async def _work(url: str) -> None:
    async with Client(url) as client:
        for number in range(1_000_000):
            if number % 200 == 0:
                await _send_signs_of_life(url)
            policy = "nowhere" if number % 31 == 0 else "default"
            with suppress(Exception):
                await client.decide(
                    tenant_id=TENANTS[number % 3],
                    message_type="chat",
                    payload={"text": "hello"},
                    policy_id=policy,
                    push=True,
                )
            await asyncio.sleep(0.02)


async def _send_signs_of_life(url: str) -> None:
    """Heartbeats of workers, and an alert."""
    connection = await connect_by(load(None, {"nats.url": url}, {}).settings.nats)
    for number, status in enumerate(("idle", "busy", "busy", "draining")):
        beat = {
            "worker_id": f"worker-{number}",
            "tenant_id": TENANTS[number],
            "status": status,
            "load": number / 4,
            "timestamp": now_ms(),
        }
        await connection.publish(HEARTBEAT_SUBJECTS[0], orjson.dumps(beat))
    alert = {
        "severity": "warning",
        "component": "router",
        "message": "4,000 dead letters in ROUTER_DLQ",
    }
    await connection.publish(ALERT_SUBJECT.replace("{severity}", "warning"), orjson.dumps(alert))
    await connection.close()


async def _take_all(
    console: Console, browser: BrowserPage, directory: Path, paths: Sequence[str]
) -> None:
    for path in paths:
        for look, options in LOOKS.items():
            await browser.show(console.url + path, **options)  # type: ignore[arg-type]
            await browser.evaluate(DRAWN)
            file = directory / f"{name_picture(path)}.{look}.webp"
            await browser.take_picture(file, scale=1.0 if look == "phone" else SCALE)
            assert file.stat().st_size <= MOST_BYTES, file


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target, sys.argv[2:] or (*ADDRESSES, *OTHER_VIEWS)))
