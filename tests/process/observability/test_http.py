"""The port for operators, asked over a real socket."""

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from router.config import Settings
from router.core.errors import Misconfigured
from router.process.observability import (
    HttpServer,
    MetricRegistry,
    Metrics,
    ReadinessCheck,
    exposition,
    http,
)
from router.process.observability.http import OpenConnections
from router.serve.contract.contract_document import ContractPages
from tests.support.observability import capture_log, http_get, serve_http
from tests.support.waiting import until


async def test_healthz_answers_as_long_as_the_process_does() -> None:
    async with serve_http(MetricRegistry()) as port:
        assert await http_get(port, "/healthz") == (200, b"ok\n")


async def test_readyz_is_503_until_every_check_is_well() -> None:
    checks = {
        "broker": ReadinessCheck(True, "connected"),
        "consumer router-decide-consumer": ReadinessCheck(False, "paused"),
    }
    async with serve_http(MetricRegistry(), lambda: checks) as port:
        status, body = await http_get(port, "/readyz")
        assert status == 503
        assert json.loads(body) == {
            "ready": False,
            "checks": {
                "broker": {"ok": True, "detail": "connected"},
                "consumer router-decide-consumer": {"ok": False, "detail": "paused"},
            },
        }
        checks["consumer router-decide-consumer"] = ReadinessCheck(True, "pulling")
        status, body = await http_get(port, "/readyz")
        assert (status, json.loads(body)["ready"]) == (200, True)


async def test_the_contract_is_a_page_and_what_is_none_is_404() -> None:
    pages = ContractPages(Settings())
    async with serve_http(MetricRegistry(), read_page=pages.read) as port:
        status, document = await http_get(port, "/contract/asyncapi.json")
        assert (status, json.loads(document)["asyncapi"]) == (200, "3.0.0")
        status, schema = await http_get(port, "/contract/schemas/decide.json")
        assert (status, json.loads(schema)["title"]) == (200, "RouteRequest")
        assert [
            (await http_get(port, f"/contract/{name}"))[0]
            for name in ("", "schemas/none.json", "../metrics", "%2e%2e/x")
        ] == [404] * 4
    async with serve_http(MetricRegistry()) as port:
        assert (await http_get(port, "/contract/asyncapi.json"))[0] == 404


async def test_metrics_shows_what_was_counted() -> None:
    metrics = Metrics()
    metrics.replays.value += 3
    async with serve_http(metrics.registry) as port:
        status, body = await http_get(port, "/metrics")
    assert status == 200
    assert b"\nrouter_idempotent_replays_total 3.0\n" in body


async def test_a_cancelled_server_frees_its_port_and_may_run_again() -> None:
    async with serve_http(MetricRegistry()) as port:
        pass
    bound = asyncio.get_running_loop().create_future()
    again = asyncio.create_task(
        HttpServer("127.0.0.1", port, MetricRegistry(), dict).run(bound.set_result)
    )
    assert await bound == port
    again.cancel()
    await asyncio.wait({again})
    assert again.cancelled()


async def test_a_cancelled_server_closes_the_connections_it_has() -> None:
    async with serve_http(MetricRegistry()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok\n")
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()


async def test_half_open_connections_keep_no_client_out_and_are_not_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three times what there may be; the newest is always served, and the oldest go first."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 20)
    with capture_log() as lines:
        async with serve_http(MetricRegistry()) as port, half_open(port, 60) as held:
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await http_get(port, path))[0] == 200
            async with asyncio.timeout(30):
                assert [await reader.read() for reader, _ in held[:40]] == [b""] * 40
            assert not any(reader.at_eof() for reader, _ in held[41:])
    assert lines.all() == []


async def test_an_answer_that_is_not_taken_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(http, "RESPONSE_TIMEOUT_S", 1.0)
    made: list[OpenConnections] = []
    monkeypatch.setattr(
        http, "OpenConnections", lambda *_, **__: made.append(OpenConnections()) or made[-1]
    )
    async with serve_http(Much()) as port:  # type: ignore[arg-type]
        # its reader takes 128 KB and no more
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: made[0].count == 1)
        await until(lambda: made[0].count == 0)
        writer.close()


async def test_a_request_that_does_not_come_and_a_connection_that_is_kept_have_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.5)
    async with (
        serve_http(MetricRegistry()) as port,
        half_open(port, 1) as held,
        asyncio.timeout(30),
    ):
        assert await held[0][0].read() == b""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        # until the end: it is closed although the client would keep it
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()


async def test_a_trickle_between_two_requests_is_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.1)
    async with serve_http(MetricRegistry()) as port, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok\n")
        end = asyncio.ensure_future(reader.read())
        while not end.done():
            writer.write(b"G")
            await asyncio.wait({end}, timeout=0.02)
        writer.close()


def test_the_host_that_holds_most_loses_its_oldest() -> None:
    hosts = OpenConnections(3)
    held = [FakeConnection(host) for host in ("a", "b", "a", "c")]
    held[0].is_answering = True
    for one in held:
        hosts.add(one)  # type: ignore[arg-type]
    assert [one.is_aborted for one in held] == [False, False, True, False]
    hosts.remove(held[2])  # type: ignore[arg-type]
    assert hosts.count == 3


async def test_a_taken_port_is_told_with_what_to_do() -> None:
    async with serve_http(MetricRegistry()) as port:
        with pytest.raises(
            Misconfigured, match=rf"http_port: 127.0.0.1:{port} cannot be bound .*0 for any"
        ):
            await HttpServer("127.0.0.1", port, MetricRegistry(), dict).run()


async def test_the_process_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serve_http(MetricRegistry()):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_a_scrape_of_a_thousand_series_gives_way_to_the_loop_after_every_fifty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy thread keeps the interpreter lock for 5 ms each time. Pauses are counted: how long the
    loop waits depends on the machine.
    """
    metrics = Metrics(label_limit=1000)
    for number in range(1000):
        metrics.decisions["acme", f"policy-{number}", "openai", "weighted", "ok"] += 1
    paused_in: list[int] = []
    monkeypatch.setattr(
        exposition, "time", SimpleNamespace(sleep=lambda _: paused_in.append(threading.get_ident()))
    )
    async with serve_http(metrics.registry) as port:
        _, page = await http_get(port, "/metrics")
    assert page.count(b"policy-") == 1000
    assert len(paused_in) >= 1000 / 50
    assert threading.get_ident() not in paused_in


class Much:
    """More to show than sockets hold."""

    async def exposition(self, content_type: str = "") -> bytes:
        return bytes(32 * 1024 * 1024)


class FakeConnection:
    def __init__(self, host: str) -> None:
        self.host = host
        self.is_answering = self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


@asynccontextmanager
async def half_open(
    port: int, count: int
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Connections that never send a whole request."""
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in held:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
    try:
        yield held
    finally:
        for _, writer in held:
            writer.close()
