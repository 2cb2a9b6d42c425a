"""Captured log lines, parsed scrapes, a server that is asked over HTTP."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import structlog
from prometheus_client.parser import text_string_to_metric_families

from router.process.observability import HttpServer, MetricRegistry, Readiness, logs, render
from router.process.observability.http import ReadPage, read_no_page
from tests.support.beside import beside


class LogLines:
    """What was written, a JSON object a line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.all() if line["event"] == event]

    def only(self) -> dict[str, object]:
        (line,) = self.all()
        return line


@contextmanager
def capture_log(level: str = "info", style: str = "json") -> Iterator[LogLines]:
    lines = LogLines()
    with restore_logging():
        logs.configure(level, style, lines.stream)
        yield lines


@contextmanager
def restore_logging() -> Iterator[None]:
    """For what configures them: afterwards they are as they were."""
    root = logging.getLogger()
    handlers, threshold = root.handlers[:], root.level
    # `configure` closes what is there: not the test runner's own
    root.handlers = [logging.NullHandler()]
    try:
        yield
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, threshold


def parse_scrape(registry: MetricRegistry) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """A scrape by sample name and labels, read by Prometheus' own parser."""
    scrape: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(render(registry.snapshot()).decode()):
        for sample in family.samples:
            scrape.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return scrape


@asynccontextmanager
async def serve_http(
    registry: MetricRegistry, readiness: Readiness = dict, read_page: ReadPage = read_no_page
) -> AsyncIterator[int]:
    """A server on a free port; yields the port."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with beside(
        HttpServer("127.0.0.1", 0, registry, readiness, read_page).run(port.set_result)
    ):
        yield await port


async def http_get(port: int, path: str, accept: str = "*/*") -> tuple[int, bytes]:
    """Status and body of one GET, without a client library."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n".encode()
    )
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body
