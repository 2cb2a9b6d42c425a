"""One extension called: what is tried again and when, what its breaker and its health are told,
what an answer may be.
"""

import asyncio

import pytest

from router.core.errors import BrokerUnavailable, ConnectionLost, NoResponders, Poison
from router.extensions.model.failure import is_sent
from tests.support.pipelines import (
    FakeExtensions,
    FakeReply,
    ReplySender,
    decision,
    in_turn,
    late,
    ok,
    piped_policy,
    refusal,
    statuses,
)
from tests.support.waiting import until

BIG = "x" * (1024 * 1024)


def guarded(answer: ReplySender, **fields: object) -> tuple[FakeExtensions, object]:
    world = FakeExtensions(guard=answer).register(guard="validator")
    return world, piped_policy(validators=[{"id": "guard", **fields}])


@pytest.mark.parametrize(
    "failure",
    [late, NoResponders("no service"), FakeReply(b"", 503, "busy"), BrokerUnavailable("away")],
)
async def test_what_may_pass_is_tried_again_after_100_200_and_400_ms(failure: object) -> None:
    world, policy = guarded(in_turn(failure, failure, failure, ok), retry=3, timeout_ms=100)
    assert decision(await world.run(policy))
    assert world.pauses == [0.1, 0.2, 0.4]
    assert len(world.asked) == 4


async def test_a_call_that_always_fails_is_tried_as_often_as_its_retries_allow() -> None:
    world, policy = guarded(lambda _: FakeReply(b"", 503, "busy"), retry=3)
    code, details = refusal(await world.run(policy, deadline=3600.0))
    assert (code, details["cause"]) == ("validator_blocked", "extension_error")
    assert (len(world.asked), world.pauses) == (4, [0.1, 0.2, 0.4])


@pytest.mark.parametrize(
    "answer",
    [
        FakeReply(b"", 404, "no such thing"),
        b"garbage",
        b"[]",
        b'{"status":"\xff"}',
        b'{"status":"reject","details":%d}' % 2**65,
        {"status": "perhaps"},
        {"nothing": "of it"},
        {"status": "ok", "details": "x" * 70_000},
        BIG.encode() * 2,
        b'{"status":"ok","details":' + b"[" * 100 + b"]" * 100 + b"}",
        Poison("too large for the server"),
    ],
)
async def test_a_refusal_or_an_answer_that_is_none_is_an_error_at_once(answer: object) -> None:
    world, policy = guarded(lambda _: answer, retry=3)
    code, details = refusal(await world.run(policy))
    assert (code, details["cause"]) == ("validator_blocked", "extension_error")
    assert (len(world.asked), world.pauses) == (1, [])


@pytest.mark.parametrize(
    "answer",
    [
        {"payload": {"payload": BIG}, "metadata": {}},
        b'{"payload":{"payload":"\xff"}}',
        b'{"payload":{"payload":"ok"},"metadata":{"n":%d}}' % 2**64,
        {"payload": {"payload": "ok"}, "metadata": {"big": "x" * 70_000}},
        {"payload": "text alone"},
        {"metadata": {}},
        {"payload": {"payload": 1, "metadata": []}},
        {"payload": {"payload": "?", "payload_encoding": "base64"}},
    ],
)
async def test_a_processors_answer_has_a_message_within_its_limits(answer: object) -> None:
    world = FakeExtensions(lower=lambda _: answer).register(lower="pre")
    _, details = refusal(await world.run(piped_policy(pre=[{"id": "lower", "mode": "required"}])))
    assert details["cause"] == "extension_error"


async def test_a_retry_that_would_begin_after_the_deadline_is_not_waited_for() -> None:
    world, policy = guarded(lambda _: NoResponders("no service"), retry=3)
    code, details = refusal(await world.run(policy, deadline=0.25))
    assert (code, details["cause"]) == ("validator_blocked", "extension_unavailable")
    assert world.pauses == [0.1]


@pytest.mark.parametrize(
    ("came", "was_sent"),
    [
        (late, True),
        (FakeReply(b"", 503, "busy"), True),
        (b"garbage", True),
        (ConnectionLost("lost"), True),
        (NoResponders("no service"), False),
        (BrokerUnavailable("away"), False),
        (Poison("too large for the server"), False),
    ],
)
async def test_a_failure_says_whether_its_attempt_is_sent(came: object, was_sent: bool) -> None:
    world, _ = guarded(in_turn(came))
    assert is_sent(await world.fail("guard")) == was_sent


async def test_a_call_of_an_open_breaker_says_that_nothing_is_sent() -> None:
    world, _ = guarded(lambda _: FakeReply(b"", 500, "oops"))
    assert [is_sent(await world.fail("guard")) for _ in range(6)] == [True] * 5 + [False]


async def test_the_entrys_timeout_and_retry_hold_where_the_policy_says_nothing() -> None:
    world, policy = guarded(late)
    await world.run(policy)
    assert [asked.timeout_s for asked in world.asked] == [1.5]


async def test_after_five_failures_nothing_is_sent_until_the_breakers_time_is_over() -> None:
    world, policy = guarded(in_turn(*[FakeReply(b"", 500, "oops")] * 5, ok, ok))
    for _ in range(5):
        assert refusal(await world.run(policy))[1]["cause"] == "extension_error"
    for _ in range(3):
        assert refusal(await world.run(policy))[1]["cause"] == "extension_unavailable"
    assert len(world.asked) == 5
    assert world.breakers.snapshots()["guard"].worst.state == "open"
    world.now += 60
    for _ in range(2):
        assert decision(await world.run(policy, deadline=world.now + 30))
    assert world.breakers.snapshots()["guard"].worst.state == "closed"
    assert [status for _, status in world.told] == ["error"] * 5 + ["open"] * 3 + ["ok"] * 2


async def test_a_probe_that_times_out_opens_the_breaker_again() -> None:
    world, policy = guarded(in_turn(*[FakeReply(b"", 500, "oops")] * 5, late))
    for _ in range(5):
        await world.run(policy)
    world.now += 60
    await world.run(policy, deadline=world.now + 30)
    assert world.breakers.snapshots()["guard"].worst.state == "open"


@pytest.mark.parametrize("answer", [late, lambda _: FakeReply(b"", 504, "too late")])
async def test_a_requester_with_little_patience_opens_no_breaker_for_others(
    answer: ReplySender,
) -> None:
    world, policy = guarded(answer, timeout_ms=1000)
    for _ in range(7):
        await world.run(policy, deadline=world.now + 0.2)
    assert world.breakers.snapshots()["guard"].worst.state == "closed"
    assert len(world.asked) == 7


async def test_a_request_that_was_refused_opens_no_breaker() -> None:
    world, policy = guarded(lambda _: FakeReply(b"", 422, "not this one"))
    for _ in range(12):
        await world.run(policy)
    assert world.breakers.snapshots()["guard"].worst.state == "closed"
    assert world.health.figures("guard").success_rate == 1


async def test_a_call_that_is_cancelled_says_nothing_of_the_extension() -> None:
    world, policy = guarded(lambda _: asyncio.Event().wait())
    running = asyncio.ensure_future(world.run(policy))
    await until(lambda: world.asked)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (world.told, world.health.get_all()) == ([], {})
    assert world.breakers.snapshots()["guard"].worst.failure_count == 0


async def test_health_hears_of_every_attempt() -> None:
    world, policy = guarded(in_turn(late, FakeReply(b"", 500, "oops"), ok), retry=2)
    world.call_s = 0.25
    assert statuses(await world.run(policy)) == [("validator", "guard", "ok")]
    figures = world.health.figures("guard")
    assert (figures.success_count, figures.failure_count) == (1, 2)
    assert (figures.avg_latency_ms, figures.last_latency_ms) == pytest.approx((2000 / 3, 250))
    assert world.seconds == pytest.approx([1.5, 0.25, 0.25])


async def test_of_an_extensions_own_words_two_hundred_characters_are_told() -> None:
    world, policy = guarded(lambda _: FakeReply(b"", 500, "x" * 300))
    _, details = refusal(await world.run(policy))
    assert details["reason"] == "it answered 500: " + "x" * 200


async def test_what_comes_before_a_call_takes_of_its_time_and_is_no_latency() -> None:
    world, _ = guarded(ok)
    times = list[float]()

    async def before(timeout_s: float) -> None:
        times.append(timeout_s)
        world.now += 1.0

    world.call_s = 0.25
    await world.attempt("guard", before, left_s=2.0)
    (asked,) = world.asked
    assert (times, asked.timeout_s) == ([1.5], 1.0)
    assert world.health.figures("guard").last_latency_ms == 250
