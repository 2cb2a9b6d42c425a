"""What becomes of one ingress message: checked by the rules of the decide handler before it is
stored.
"""

from collections.abc import Mapping

import orjson
import pytest

from router.core.errors import BrokerUnavailable, Poison
from router.decide.ingress_server import IngressHandler
from router.decide.model import DecideRules, RequestLimits

GOOD = orjson.dumps(
    {
        "message_id": "m-1",
        "tenant_id": "acme",
        "type": "chat",
        "payload": "hello",
        "correlation_id": "c-1",
    }
)


class Stored:
    """What was stored, or why it could not be."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.bodies: list[bytes] = []
        self._failure = failure

    async def __call__(self, body: bytes, headers: Mapping[str, str]) -> int:
        if self._failure is not None:
            raise self._failure
        self.bodies.append(body)
        return len(self.bodies)


def a_handler(stored: Stored, rules: DecideRules = DecideRules()) -> IngressHandler:  # noqa: B008 - frozen
    return IngressHandler(rules, "beamline.router.v1.decide", stored, lambda: 7)


async def test_a_good_message_is_stored_and_its_receipt_names_the_place() -> None:
    stored = Stored()
    ack = await a_handler(stored).handle(GOOD, {})
    assert (ack.status, ack.message_id, ack.correlation_id, ack.timestamp_ms) == (
        "accepted",
        "m-1",
        "c-1",
        7,
    )
    assert (ack.metadata, len(stored.bodies)) == ({"sequence": "1"}, 1)


async def test_a_receipt_names_the_id_that_came_as_a_header() -> None:
    without = {name: value for name, value in orjson.loads(GOOD).items() if name != "message_id"}
    ack = await a_handler(Stored()).handle(orjson.dumps(without), {"Nats-Msg-Id": "m-9"})
    assert (ack.status, ack.message_id) == ("accepted", "m-9")


@pytest.mark.parametrize(
    ("data", "rules", "code"),
    [
        (b"", DecideRules(), "invalid_request"),
        (b"{}", DecideRules(), "invalid_request"),
        (GOOD, DecideRules(limits=RequestLimits(max_payload_bytes=20)), "invalid_request"),
        (GOOD, DecideRules(tenants_allowed=frozenset({"other"})), "unauthorized"),
    ],
)
async def test_what_the_decide_consumer_would_not_take_is_rejected_and_never_stored(
    data: bytes, rules: DecideRules, code: str
) -> None:
    stored = Stored()
    ack = await a_handler(stored, rules).handle(data, {})
    assert (ack.status, ack.error_code, stored.bodies) == ("rejected", code, [])


async def test_what_is_too_large_for_the_broker_is_rejected_and_what_the_broker_does_not_say_is_an_error() -> (
    None
):
    assert (await a_handler(Stored(Poison("too large"))).handle(GOOD, {})).status == "rejected"
    ack = await a_handler(Stored(BrokerUnavailable("silent"))).handle(GOOD, {})
    assert (ack.status, ack.error_code, ack.message_id) == ("error", "internal", "m-1")
