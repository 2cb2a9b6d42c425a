"""A retry whose keys stand in another order, or that has a fresh trace id, is the same request;
other content is not.
"""

import json
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.router_streams import read_assignments
from tests.support.service import a_router, settings_for
from tests.support.stories import Inboxes, ask, read_metric
from tests.support.waiting import until

SIZES = {"small": 10, "large": 30_000}  # characters of payload: kept whole, and kept as a digest


def a_body(size: int, **top: Any) -> dict[str, Any]:
    message = {
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": {"a": 1, "b": "x" * size},
        "metadata": {"k": "v"},
    }
    return {"message": message, "request_id": "r-same", **top}


def turned_round(value: Any) -> Any:
    """The same with every object's keys in the other order."""
    if isinstance(value, dict):
        return {key: turned_round(value[key]) for key in reversed(value)}
    return value


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("push", [False, True], ids=["plain", "pushed"])
async def test_a_retry_of_the_same_content_is_the_same_request(
    nc: Client, settings: Settings, size: int, push: bool
) -> None:
    body = a_body(
        size, push_assignment=push, trace_id="t-1", context={"traceparent": "one", "user": "u"}
    )
    again = turned_round(body) | {"trace_id": "t-2", "context": {"user": "u", "traceparent": "two"}}
    other = a_body(size, push_assignment=push)
    other["message"]["payload"]["a"] = 1.5

    async with a_router(settings) as router:
        first = await ask(nc, settings, json.dumps(body).encode())
        second = await ask(nc, settings, json.dumps(again).encode())
        assert (second["ok"], second["decision"]) == (True, first["decision"])
        assert await read_metric(router.ready.http, "router_idempotent_replays_total") == 1
        third = await ask(nc, settings, json.dumps(other).encode())
        assert (third["error"]["code"], third["context"]["request_id"]) == (
            "invalid_request",
            "r-same",
        )

    async with a_router(settings) as router:  # whose memory is empty: the stored assignment tells
        if push:
            assert (await ask(nc, settings, json.dumps(again).encode()))["decision"] == first[
                "decision"
            ]
            assert (await ask(nc, settings, json.dumps(other).encode()))["error"][
                "code"
            ] == "invalid_request"
            assert len(await read_assignments(nc, settings)) == 1


async def test_a_retry_under_its_message_id_that_the_stream_dropped_has_the_answer(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """The stream knows message ids alone: the router tells a retry with a fresh trace id from
    another request under a taken id.
    """
    settings = settings_for(nats_url, prefix, streams__decide__duplicate_window_ms=60_000)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings):
        bodies = {
            "first": a_body(10, trace_id="t-1"),
            "retry": a_body(10, trace_id="t-2"),
            "other": a_body(11),
        }
        for name, body in bodies.items():
            await inboxes.publish(
                nc, settings, name, json.dumps(body).encode(), Nats_Msg_Id="m-same"
            )
        await until(lambda: len(inboxes) == len(bodies))
        answers = {name: json.loads(inboxes.answers(name)[0]) for name in bodies}
        assert answers["retry"] == answers["first"]
        assert answers["other"]["error"]["details"]["cause"] == "message_id_taken"


async def test_of_a_large_one_under_its_message_id_only_the_same_bytes_are_the_same(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Above 16 KiB the router keeps a digest of a request that it answered, not the request."""
    settings = settings_for(nats_url, prefix, streams__decide__duplicate_window_ms=60_000)
    inboxes = await Inboxes.under(nc, prefix)
    body = a_body(SIZES["large"])
    async with a_router(settings):
        for number, (name, asked) in enumerate(
            {"first": body, "retry": body, "reordered": turned_round(body)}.items()
        ):
            await inboxes.publish(
                nc, settings, name, json.dumps(asked).encode(), Nats_Msg_Id="m-large"
            )
            await until(lambda number=number: len(inboxes) > number)
        answers = {
            name: json.loads(inboxes.answers(name)[0]) for name in ("first", "retry", "reordered")
        }
    assert answers["retry"] == answers["first"]
    assert answers["reordered"]["error"]["details"]["cause"] == "message_id_taken"
