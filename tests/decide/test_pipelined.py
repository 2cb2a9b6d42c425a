"""Decide requests whose policy has extensions: awaited, remembered, assigned as the pre-processors
left them.
"""

import asyncio
from collections.abc import Awaitable

import orjson
import pytest
from msgspec.structs import replace

from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Done
from router.core.single_flight import SingleFlight
from router.decide.model import DecideHandler, DecideRules, NewAssignment
from router.decide.settings import DecideConfig
from router.policies.model import Policy, PolicyTable
from tests.support.decide import a_decide_handler, a_pusher
from tests.support.pipelines import FakeExtensions, late, ok, piped_policy, reject, says
from tests.support.policy import a_policy
from tests.support.requests import TRACEPARENT, a_body, a_message


class Meter:
    def __init__(self) -> None:
        self.replays = 0
        self.lasted_s = 0.0

    def on_decision(self, _: object, __: object, seconds: float) -> None:
        self.lasted_s = seconds

    def on_violations(self, *_: object) -> None: ...

    def on_session(self, _: str) -> None: ...

    def on_repeat(self) -> None:
        self.replays += 1


class Book:
    """The bucket of known assignments."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    async def find(self, key: str) -> bytes | None:
        return self.records.get(key)

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        created: Deferred[bytes] = Deferred()
        created.resolve(self.records.setdefault(key, new.data))
        return created


def a_handler(
    world: FakeExtensions, policy: Policy, meter: Meter | None = None, **rules: object
) -> DecideHandler:
    policy_table, extensions = PolicyTable({("acme", "default"): policy}), world.extensions()
    told = DecideRules(decide=DecideConfig(**rules))  # type: ignore[arg-type]
    return a_decide_handler(
        policy_table,
        meter or Meter(),
        rules=told,
        push=a_pusher(Book()),
        extensions=extensions,
        now=world.clock,
    )


def asks(sequence: int = 7, payload: str = "hello", **top: object) -> Message:
    return a_message(
        {**a_body(payload=payload), "request_id": "r-1", **top},
        {"traceparent": TRACEPARENT},
        sequence=sequence,
    )


async def done(handler: DecideHandler, message: Message) -> Done:
    outcome = handler(message)
    assert isinstance(outcome, Awaitable)
    outcome = await outcome
    assert isinstance(outcome, Done), outcome
    return outcome


async def answer(handler: DecideHandler, message: Message) -> dict[str, object]:
    reply = (await done(handler, message)).reply
    assert reply is not None
    return orjson.loads(reply.data)


def a_world() -> FakeExtensions:
    return FakeExtensions(lower=says("low", lang="en"), guard=ok).register(
        lower="pre", guard="validator"
    )


PIPELINE = {"pre": ["lower"], "validators": ["guard"]}


def test_a_policy_without_extensions_is_decided_at_once() -> None:
    assert isinstance(a_handler(FakeExtensions(), a_policy())(asks()), Done)


async def test_the_answer_tells_what_was_executed_and_traces_go_along() -> None:
    world = a_world()
    told = await answer(a_handler(world, piped_policy(**PIPELINE)), asks())
    executed = orjson.loads(told["decision"]["metadata"]["executed_extensions"])  # type: ignore[index]
    assert [one["id"] for one in executed] == ["lower", "guard"]
    assert {asked.headers["traceparent"] for asked in world.asked} == {TRACEPARENT}


async def test_the_same_request_is_answered_from_memory_with_the_same_metadata() -> None:
    world, meter = a_world(), Meter()
    handler = a_handler(world, piped_policy(**PIPELINE), meter)
    first = await answer(handler, asks())
    again = handler(asks(sequence=8))
    assert isinstance(again, Done)
    assert orjson.loads(again.reply.data) == first  # type: ignore[union-attr]
    assert (len(world.asked), meter.replays) == (2, 1)


async def test_concurrent_duplicates_wait_for_the_first() -> None:
    go = asyncio.Event()

    async def waits(_: dict[str, object]) -> object:
        await go.wait()
        return {"status": "ok"}

    world = FakeExtensions(guard=waits).register(guard="validator")
    handler = a_handler(world, piped_policy(validators=["guard"]))
    answers = [asyncio.ensure_future(answer(handler, asks(sequence=number))) for number in range(5)]
    other = asyncio.ensure_future(answer(handler, asks(sequence=9, payload="another")))
    await asyncio.sleep(0)
    go.set()
    first, *others = await asyncio.gather(*answers)
    assert all(one == first for one in others)
    assert (await other)["error"]["code"] == "invalid_request"  # type: ignore[index]
    assert len(world.asked) == 1


async def test_a_refusal_is_not_remembered_so_the_next_one_asks_again() -> None:
    world = FakeExtensions(guard=reject).register(guard="validator")
    handler = a_handler(world, piped_policy(validators=["guard"]))
    told = await asyncio.gather(*(answer(handler, asks(sequence=number)) for number in range(3)))
    assert {one["error"]["code"] for one in told} == {"validator_blocked"}  # type: ignore[index]
    assert len(world.asked) == 3


async def test_a_pushed_decision_is_assigned_with_the_message_as_the_pre_processor_left_it() -> (
    None
):
    outcome = await done(a_handler(a_world(), piped_policy(**PIPELINE)), asks(push_assignment=True))
    assigned = orjson.loads(outcome.effects[0].data)
    assert assigned["job"]["payload"] == "low"
    assert "executed_extensions" in assigned["decision"]["metadata"]


async def test_a_pushed_request_that_comes_again_is_known_by_its_own_bytes() -> None:
    handler = a_handler(a_world(), piped_policy(**PIPELINE))
    first = await done(handler, asks(push_assignment=True))
    again = await done(handler, asks(push_assignment=True, sequence=8))
    assert first.effects == again.effects


async def test_an_assignment_that_is_lost_is_made_again_with_what_the_extensions_make_of_it() -> (
    None
):
    world, meter = a_world(), Meter()
    world.now, world.call_s = 5.0, 0.1
    handler = a_handler(world, piped_policy(**PIPELINE), meter)
    first = await done(handler, asks(push_assignment=True))
    assert first.commit is not None
    first.commit(())
    assert meter.lasted_s == pytest.approx(0.2)
    handler._push._bucket.records.clear()
    again = await done(handler, replace(asks(push_assignment=True), deliveries=2))
    assert orjson.loads(again.effects[0].data)["job"]["payload"] == "low"
    assert len(world.asked) == 4


async def test_the_rate_limit_is_before_the_pipeline() -> None:
    world = a_world()
    limited = piped_policy(
        **PIPELINE, rate_limit={"enabled": True, "requests_per_second": 1, "burst": 1}
    )
    handler = a_handler(world, limited)
    assert (await answer(handler, asks(request_id="r-1")))["ok"]
    assert (await answer(handler, asks(request_id="r-2")))["error"]["code"] == "rate_limit_exceeded"  # type: ignore[index]
    assert len(world.asked) == 2


@pytest.mark.parametrize(("policy_ms", "expected"), [(700, 0.7), (None, 1.2)])
async def test_the_policys_time_runs_from_the_start_of_handling(
    policy_ms: int | None, expected: float
) -> None:
    world, meter = FakeExtensions(slow=late).register(slow="pre"), Meter()
    world.now = began = 5.0
    sections = {} if policy_ms is None else {"timeout_ms": policy_ms}
    policy = piped_policy(pre=["slow"], **sections)
    handler = a_handler(world, policy, meter, pipeline_timeout_ms=1_200)
    assert (await answer(handler, asks()))["error"]["code"] == "deadline_exceeded"  # type: ignore[index]
    assert (world.now - began, meter.lasted_s) == pytest.approx((expected, expected))


async def test_without_a_registry_every_extension_is_not_found() -> None:
    handler = a_decide_handler(
        PolicyTable({("acme", "default"): piped_policy(validators=["guard"])}), Meter()
    )
    assert (await answer(handler, asks()))["error"]["details"]["cause"] == "extension_not_found"  # type: ignore[index]


async def test_a_broker_that_is_away_leaves_the_request_undecided() -> None:
    world = FakeExtensions(guard=lambda _: BrokerUnavailable("away")).register(guard="validator")
    outcome = a_handler(world, piped_policy(validators=["guard"]))(asks())
    assert isinstance(outcome, Awaitable)
    with pytest.raises(BrokerUnavailable):
        await outcome


async def test_what_a_client_says_of_the_engines_state_changes_nothing() -> None:
    """Issue 4, story 4."""
    lies = {
        "dry_run": True,
        "deadline": 0,
        "deadline_ms": 1,
        "selected_provider": "evil",
        "attempts": 99,
        "executed_extensions": "[]",
    }
    world = FakeExtensions(guard=reject).register(guard="validator")
    handler = a_handler(world, piped_policy(validators=["guard"]))
    told = await answer(handler, asks(metadata=lies, context=lies))
    assert told["error"]["code"] == "validator_blocked"  # type: ignore[index]
    passed = await answer(
        a_handler(a_world(), piped_policy(**PIPELINE)), asks(metadata=lies, context=lies)
    )
    assert passed["decision"]["provider_id"] == "only"  # type: ignore[index]
    assert len(orjson.loads(passed["decision"]["metadata"]["executed_extensions"])) == 2  # type: ignore[index]


async def test_turns_are_taken_one_after_the_other_and_what_is_left_is_taken_over() -> None:
    turns: SingleFlight[str] = SingleFlight()
    assert await turns.acquire("a") is None
    waiting = [asyncio.ensure_future(turns.acquire("a")) for _ in range(2)]
    await asyncio.sleep(0)
    turns.release("a", "left")
    assert await asyncio.gather(*waiting) == ["left", "left"]
    assert await turns.acquire("a") is None
