"""Self-registration against a router's admin service, played by the test: who is asked, what for,
and how often.
"""

import asyncio
import json
from math import inf
from typing import Any

import pytest

from router.delivery.wire.frames import Headers
from router.extensions.model import parse_entry
from router.sdk.extension import Extension, post, pre, provider, server, validator
from router.sdk.extension.server import PUT, entry_of
from tests.support.broker import Broker
from tests.support.extension_author import (
    ExtensionClient,
    a_request,
    an_extension_client,
    an_id,
    serve_extension,
)
from tests.support.observability import LogLines
from tests.support.waiting import until

OK = {"ok": True, "version": 1}
CONFLICT = {"ok": False, "error": {"code": "conflict", "message": "another write came first"}}
REFUSED = {"ok": False, "error": {"code": "unauthorized", "message": "A valid api_key is required"}}


class Admin:
    """Answers each request with the next of its answers, the last one again and again."""

    def __init__(self, asker: ExtensionClient, *answers: dict[str, Any]) -> None:
        self._asker = asker
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.headers: list[Headers] = []
        self._sid = 0

    async def open(self) -> "Admin":
        self._sid = await self._asker.connection.subscribe_direct(PUT, self._hear)
        await self._asker.connection.flush()
        return self

    async def close(self) -> None:
        await self._asker.connection.unsubscribe(self._sid)

    def _hear(self, _subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self.asked.append(json.loads(data))
        self.headers.append(headers or {})
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self._asker.connection.publish_nowait(reply, json.dumps(answer).encode())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WAITS_S", (0.01,))
    monkeypatch.setattr(server, "RECONNECT_CHECK_S", 0.005)


@pytest.mark.parametrize("decorator", [pre, validator, post, provider])
def test_what_is_asked_for_is_a_registry_entry(decorator) -> None:
    extension = decorator("mine", version="v2", timeout_ms=200, retry=1)(lambda _: None)
    entry = parse_entry(entry_of(extension, {"blue": 30}))
    assert (entry.subject, entry.timeout_ms, entry.retry) == (extension.subject, 200, 1)
    assert [(one.id, one.weight) for one in entry.instances] == [("blue", 30)]


def test_metadata_of_an_extension_is_that_of_its_entry() -> None:
    metadata = {"apis": ["embeddings"], "models": ["small"]}
    options = {"blocking": False, "timeout_ms": None, "retry": None}
    extension = Extension(lambda _: None, "provider", "mine", "v1", **options, metadata=metadata)
    assert parse_entry(entry_of(extension, {})).metadata == metadata


async def test_the_log_says_how_an_entry_that_is_kept_is_changed(
    nats_url: str, asker: ExtensionClient, lines: LogLines
) -> None:
    admin = await Admin(asker, CONFLICT).open()
    async with serve_extension(nats_url, pre(an_id())(lambda _: None), register=True):
        await until(lambda: lines.of("extension.registered"))
    await admin.close()
    (line,) = lines.of("extension.registered")
    assert (line["is_new"], "router extension register" in str(line["hint"])) == (False, True)


async def test_the_router_is_asked_to_write_only_what_is_missing(
    nats_url: str, asker: ExtensionClient
) -> None:
    admin = await Admin(asker, OK).open()
    one = pre(an_id())(lambda _: None)
    async with serve_extension(nats_url, one, register=True, api_key="k"):
        await until(lambda: admin.asked)
    await admin.close()
    (asked,) = admin.asked
    assert (asked["id"], asked["type"], asked["subject"], asked["replaces"]) == (
        one.id,
        "pre",
        one.subject,
        0,
    )
    assert admin.headers[0]["api_key"] == "k"


@pytest.mark.parametrize("answer", [CONFLICT, REFUSED])
async def test_what_stands_already_or_is_refused_is_not_asked_for_again(
    answer: dict[str, Any], nats_url: str, asker: ExtensionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(_connection: object, seconds: float, _lives: int) -> None:
        pauses.append(seconds)
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "_pause", pause)
    admin = await Admin(asker, answer).open()
    first, second = pre(an_id())(lambda _: None), pre(an_id())(lambda _: None)
    async with serve_extension(nats_url, first, second, register=True):
        await until(lambda: pauses)
        assert (await asker.ask(first.subject, a_request())).code is None
    assert pauses == [inf]  # until a reconnect
    await admin.close()
    assert [asked["id"] for asked in admin.asked] == [first.id, second.id]


async def test_without_a_router_it_is_served_and_asks_again(
    nats_url: str, asker: ExtensionClient
) -> None:
    one = pre(an_id())(lambda _: None)
    async with serve_extension(nats_url, one, register=True):
        assert (await asker.ask(one.subject, a_request())).code is None
        admin = await Admin(asker, OK).open()
        await until(lambda: admin.asked)
        await admin.close()


@pytest.mark.parametrize("answer", [["ok"], "ok", None, {"ok": False, "error": "no"}])
async def test_an_answer_of_another_form_does_not_end_the_server(
    answer: Any, nats_url: str, asker: ExtensionClient
) -> None:
    admin = await Admin(asker, answer).open()
    one = pre(an_id())(lambda _: None)
    async with serve_extension(nats_url, one, register=True):
        await until(lambda: admin.asked)
        await asker.connection.flush()
        assert (await asker.ask(one.subject, a_request())).code is None
        if not isinstance(answer, dict):
            await until(lambda: len(admin.asked) >= 2)  # it is no router's: asked again
    await admin.close()


async def test_after_a_reconnect_the_registry_hears_of_it_again() -> None:
    with Broker() as broker:
        async with an_extension_client(broker.url) as asker:
            admin = await Admin(asker, OK).open()
            async with serve_extension(broker.url, pre(an_id())(lambda _: None), register=True):
                await until(lambda: len(admin.asked) == 1)
                broker.kill()
                broker.start()
                await until(lambda: len(admin.asked) >= 2)
