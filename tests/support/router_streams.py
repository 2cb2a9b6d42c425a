"""A router's streams, written and read: results, usage events, assignments, alerts."""

import json
from typing import Any

import orjson
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from router.config import Settings
from router.contracts.assignment_record import build_record
from router.contracts.decision import Decision
from router.contracts.stored_record import record_bytes
from router.contracts.usage import USAGE_SUBJECT
from router.core import ids
from tests.support.policy import a_request as a_route_request
from tests.support.stories import Json, MessageRecorder, has_acked_all
from tests.support.workers import NOW_MS, a_body

FAST = {"effects__publish_timeout_ms": 300, "effects__retry_ms": 50, "results__ack_wait_ms": 400}


def a_result(name: object, **fields: Any) -> bytes:
    """A good result with ids of its own."""
    return orjson.dumps(
        a_body(
            **{
                "assignment_id": f"a-{name}",
                "request_id": f"r-{name}",
                "timestamp": NOW_MS,
                **fields,
            }
        )
    )


def headers_of(name: object, **headers: str) -> dict[str, str]:
    """A whole and good contract; a header set to something else breaks it."""
    return {
        "Nats-Msg-Id": f"m-{name}",
        "tenant_id": "acme",
        "version": "1",
        "trace_id": f"t-{name}",
        **headers,
    }


async def publish_result(
    nc: Client, settings: Settings, data: bytes, headers: dict[str, str] | None = None
) -> None:
    """Store one result, as a worker does."""
    await nc.jetstream().publish(settings.results.subject, data, headers=headers)


async def store_assignment(  # noqa: PLR0917 - tests name what matters
    nc: Client,
    settings: Settings,
    name: object,
    provider: str = "openai",
    tenant: str = "acme",
    reservation: str | None = None,
) -> Json:
    """Make an assignment known, as a router does that pushes one; the ids that its result names."""
    request = a_route_request(f"r-{name}", tenant)
    decision = Decision(
        provider, "weighted", 50, 800, 0.01, {"policy_id": "default", "policy_version": "1"}
    )
    record = record_bytes(
        build_record(
            f"a-{name}",
            request,
            decision,
            subject=settings.assignment.subjects[0],
            traceparent=None,
            content=None,
            requested_at_ms=0,
            reservation=reservation,
        )
    )
    await nc.jetstream().publish(
        f"$KV.{settings.buckets.assignments_known.name}.{ids.key(f'a-{name}')}", record
    )
    return {"assignment_id": f"a-{name}", "request_id": f"r-{name}", "tenant_id": tenant}


async def read_stream(nc: Client, stream: str) -> list[tuple[str, bytes, dict[str, str]]]:
    """What stands in a stream, oldest first: (subject, data, headers); nothing when there is no
    such stream.
    """
    jsm = nc.jsm()
    try:
        state = (await jsm.stream_info(stream)).state
    except NotFoundError:
        return []
    messages = []
    for sequence in range(max(1, state.first_seq), state.last_seq + 1):
        message = await jsm.get_msg(stream, sequence)
        messages.append((message.subject or "", message.data or b"", message.headers or {}))
    return messages


async def read_usage(nc: Client, settings: Settings) -> list[Json]:
    """The usage events."""
    stored = await read_stream(nc, settings.streams.usage.name)
    assert {subject for subject, _, _ in stored} <= {USAGE_SUBJECT}
    return [json.loads(data) for _, data, _ in stored]


async def read_assignments(nc: Client, settings: Settings) -> list[Json]:
    """The assignments that workers were given."""
    return [
        json.loads(data) for _, data, _ in await read_stream(nc, settings.streams.assignments.name)
    ]


async def results_are_settled(nc: Client, settings: Settings) -> bool:
    return await has_acked_all(nc, settings.streams.results.name, settings.results.durable)


class AlertRecorder(MessageRecorder):
    """Every alert, by severity."""

    @classmethod
    async def heard_on(cls, nc: Client) -> "AlertRecorder":
        alarms = await cls.on(nc, "beamline.alert.v1.*")
        assert isinstance(alarms, AlertRecorder)
        return alarms

    def causes(self, severity: str) -> list[str]:
        heard = self.heard.get(f"beamline.alert.v1.{severity}", [])
        return [json.loads(alert)["metadata"]["cause"] for alert in heard]
