"""The memory of decisions, searched by the ids that requests went by."""

from typing import Any

import pytest

from router.contracts.decision import Decision, RouteRequest
from router.core.clock import steady
from router.decide.model import IdempotencyCache
from router.decide.model.read import read
from tests.support.decide import FakeStoring
from tests.support.requests import a_body, a_message

DECISION = Decision("openai", "weighted", 50, 1.0, 1.0)


def a_request(headers: dict[str, str] | None = None, /, **fields: Any) -> RouteRequest:
    asked = read(a_message({**a_body(), **fields}, headers)).asked
    assert isinstance(asked, RouteRequest)
    return asked


def replays(*requests: RouteRequest) -> IdempotencyCache:
    known = IdempotencyCache(FakeStoring())
    for request in requests:
        known.remember(request, b"", DECISION, steady())
    return known


@pytest.mark.parametrize(
    ("request_", "ids"),
    [
        (a_request(request_id="r-1"), {"request_id": "r-1"}),
        (a_request({"Nats-Msg-Id": "n-1"}), {"message_id": "n-1"}),
        (a_request({"Nats-Msg-Id": "n-1"}, request_id="r-1"), {"message_id": "n-1"}),
        (a_request(request_id="r-1", idempotency_key="k"), {"request_id": "r-1"}),
        (a_request(message_id="m-1"), {"message_id": "m-1"}),
        (a_request({"Nats-Msg-Id": "n-1"}, message_id="m-1"), {"message_id": "m-1"}),
        (
            a_request({"Nats-Msg-Id": "n-1"}, request_id="r-1"),
            {"request_id": "r-1", "message_id": "n-1"},
        ),
    ],
)
async def test_a_decision_is_found_by_each_id_that_its_request_went_by(
    request_: RouteRequest, ids: dict[str, str]
) -> None:
    found = await replays(request_).find("acme", **ids)
    assert found is not None
    assert found.decision is DECISION


@pytest.mark.parametrize("ids", [{"request_id": "r-1"}, {"message_id": "n-1"}], ids=str)
def test_the_id_that_stands_for_a_request_is_found_without_a_search(ids: dict[str, str]) -> None:
    known = replays(a_request(request_id="r-1"), a_request({"Nats-Msg-Id": "n-1"}))
    with pytest.raises(StopIteration):  # in this turn of the loop
        known.find("acme", **ids).send(None)


@pytest.mark.parametrize(
    "ids",
    [
        {"request_id": "n-1"},
        {"message_id": "r-1"},
        {"request_id": "k"},
        {"message_id": "k"},
        {"request_id": "r-1", "message_id": "x"},
    ],
)
async def test_an_id_of_another_kind_is_not_found(ids: dict[str, str]) -> None:
    assert (
        await replays(
            a_request({"Nats-Msg-Id": "n-1"}, request_id="r-1", idempotency_key="k")
        ).find("acme", **ids)
        is None
    )


async def test_a_decision_of_another_tenant_is_not_found() -> None:
    assert await replays(a_request(request_id="r-1")).find("evil", request_id="r-1") is None


async def test_of_several_requests_with_one_id_the_newest_is_found() -> None:
    """Whichever parts of the cache their keys fall into."""
    known, decisions = IdempotencyCache(FakeStoring(), clock=lambda: 0.0), list[Decision]()
    for number in range(20):
        decisions.append(Decision(f"p-{number}", "weighted", 50, 1.0, 1.0))
        request = a_request(request_id="r-1", idempotency_key=f"k-{number}")
        known.remember(request, b"", decisions[-1], number / 10)
    found = await known.find("acme", request_id="r-1")
    assert found is not None
    assert found.decision is decisions[-1]


async def test_what_is_forgotten_is_not_found() -> None:
    now = 0.0
    known = IdempotencyCache(FakeStoring(), ttl_s=10, clock=lambda: now)
    known.remember(a_request(request_id="r-1"), b"", DECISION, now)
    now = 11.0
    assert await known.find("acme", request_id="r-1") is None
    assert await known.find("acme", request_id="r-1", message_id="x") is None
