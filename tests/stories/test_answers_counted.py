"""Each answer that a requester hears is counted by its outcome, once, and what the runbook looks
for stands in the log.
"""

from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.message import Message
from router.core.outcome import Outcome
from router.operate.admin import request_guard
from router.serve import consumer_metrics
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    ask,
    is_settled,
    read_dead_letters,
    read_metric,
    wrap_decide_handler,
)
from tests.support.waiting import until

DECISIONS = "router_decisions_total"


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, _level: str) -> Any:
        return lambda event, **facts: self.lines.append((event, facts))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.lines if name == event]


async def test_each_answer_is_counted_by_its_outcome(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Validation, a foreign tenant, a request that the stream refuses in silence, an id that was
    taken.
    """
    settings = settings_for(
        nats_url,
        prefix,
        tenants_allowed="acme",
        metrics__tenant_label_allowlist="acme",
        reply__inbox_wait_ms=2_000,
    )
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("good")))["ok"] is True
        assert (await ask(nc, settings, b'{"message":{"tenant_id":"acme"}}'))["error"][
            "code"
        ] == "invalid_request"
        assert (await ask(nc, settings, b"no request at all"))["error"]["code"] == "invalid_request"
        foreign = a_request("foreign").replace(b"acme", b"evil")
        assert (await ask(nc, settings, foreign))["error"]["code"] == "unauthorized"
        silenced = await ask(nc, settings, a_request("ttl", trace_id="t-1"), {"Nats-TTL": "60s"})
        assert silenced["error"]["code"] == "invalid_request"
        assert silenced["context"] == {"request_id": "r-ttl", "trace_id": "t-1"}
        await inboxes.publish(nc, settings, "first", a_request("first"), Nats_Msg_Id="taken")
        await inboxes.publish(nc, settings, "second", a_request("second"), Nats_Msg_Id="taken")
        await until(lambda: len(inboxes) == 2)
        conflict = orjson.loads(inboxes.answers("second")[0])
        assert (conflict["error"]["details"]["cause"], conflict["context"]["request_id"]) == (
            "message_id_taken",
            "r-second",
        )
        await until(lambda: is_settled(nc, settings))

        async def counted(outcome: str, **labels: str) -> float:
            return await read_metric(router.ready.http, DECISIONS, outcome=outcome, **labels)

        assert await counted("ok") == 2
        assert await counted("unauthorized") == 1
        assert (
            await counted("invalid_request"),
            await counted("invalid_request", tenant="acme"),
        ) == (4, 3)


async def test_a_request_that_the_router_could_not_handle_is_counted_as_internal_once(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the alert on failing decisions looks at: the answer, not each attempt."""

    def failing(_message: Message) -> Outcome:
        raise RuntimeError("whatever it is asked")

    wrap_decide_handler(monkeypatch, lambda _: failing)
    settings = settings_for(nats_url, prefix, decide__backoff_ms="10,10")
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("doomed")))["error"]["code"] == "internal"
        await until(lambda: is_settled(nc, settings))
        assert await read_metric(router.ready.http, DECISIONS, outcome="internal") == 1
        assert await read_metric(router.ready.http, DECISIONS) == 1


async def test_a_refused_reply_address_is_counted_once_and_told(
    nc: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two routers, both of which hear the request, and one of which decides it."""
    lines = Lines()
    monkeypatch.setattr(request_guard, "log", lines)
    async with a_router(settings) as one, a_router(settings) as other:
        headers = {"Reply-To": "$JS.API.STREAM.PURGE.X" + "x" * 1_000}
        await nc.publish(settings.decide.subject, a_request("away"), headers=headers)
        await until(lambda: is_settled(nc, settings))

        async def total() -> float:
            return sum(
                [
                    await read_metric(router.ready.http, "router_reply_refused_total")
                    for router in (one, other)
                ]
            )

        await until(lambda: total())
        assert await total() == 1
    (told,) = lines.of("reply.refused")
    assert told["address"].startswith("$JS.API.STREAM.PURGE.X")
    assert len(told["address"]) <= 128


async def test_a_refused_subject_is_told(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(
        nats_url, prefix, subject_allowlist="elsewhere", decide__backoff_ms="10,10"
    )
    lines = Lines()
    monkeypatch.setattr(consumer_metrics, "log", lines)
    async with a_router(settings):
        await nc.publish(settings.decide.subject, a_request("refused"))
        await until(lambda: read_dead_letters(nc, settings))
    (told, *_) = lines.of("subject.refused")
    assert told["subject"] == settings.decide.subject
