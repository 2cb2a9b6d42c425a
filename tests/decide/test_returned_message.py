"""A request that asks what the pre-processors left of its message: the answer has it, each time
anew, around one decision.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import orjson
import pytest

from router.budgets.model import Budget, BudgetTable
from router.core.message import Message
from router.core.outcome import Dead, Done
from router.decide.model import DecideHandler, DecideRules
from router.policies.model import Policy, PolicyTable, RateLimits
from tests.support.decide import a_decide_handler
from tests.support.pipelines import (
    FakeExtensions,
    in_turn,
    late,
    ok,
    piped_policy,
    reject,
    says,
)
from tests.support.policy import a_policy, a_provider
from tests.support.requests import a_body, a_message

NOON_S = 1_800_000_000
ONE_TOKEN = {"requests_per_second": 1, "burst": 1}
REDACT = {"id": "redact", "mode": "required"}
Json = dict[str, Any]


class Meter:
    def __init__(self) -> None:
        self.repeats = self.decided = 0

    def on_decision(self, *_: object) -> None:
        self.decided += 1

    def on_violations(self, *_: object) -> None: ...

    def on_session(self, _: str) -> None: ...

    def on_repeat(self) -> None:
        self.repeats += 1


def a_world(**more: str) -> FakeExtensions:
    redact = says("my card is [card]", lang="en")
    return FakeExtensions(redact=redact, guard=ok, mark=says(marked="yes")).register(
        redact="pre", guard="validator", mark="post", **more
    )


def a_handler(world: FakeExtensions, policy: Policy | PolicyTable, **ports: Any) -> DecideHandler:
    table = (
        policy if isinstance(policy, PolicyTable) else PolicyTable({("acme", "default"): policy})
    )
    return a_decide_handler(
        table,
        ports.pop("meter", Meter()),
        extensions=world.extensions(),
        now=world.clock,
        **ports,
    )


def asks(sequence: int = 7, **fields: object) -> Message:
    body = {**a_body(payload="my card is 4111", metadata={"from": "gateway"})}
    return a_message(
        {**body, "request_id": "r-1", "return_message": True, **fields}, sequence=sequence
    )


async def answer(handler: DecideHandler, message: Message) -> Json:
    outcome = handler(message)
    outcome = await outcome if isinstance(outcome, Awaitable) else outcome
    assert isinstance(outcome, Done), outcome
    assert outcome.reply is not None
    told: Json = orjson.loads(outcome.reply.data)
    return told


async def test_the_answer_has_the_message_as_the_pre_processors_left_it() -> None:
    policy = piped_policy(pre=[REDACT], validators=["guard"], post=["mark"])
    told = await answer(a_handler(a_world(), policy), asks())
    assert told["message"] == {
        "message_type": "chat",
        "payload": "my card is [card]",
        "metadata": {"from": "gateway"},
    }
    assert told["decision"]["metadata"]["marked"] == "yes"
    assert told["context"] == {"request_id": "r-1"}


async def test_who_does_not_ask_is_told_nothing_of_it() -> None:
    handler = a_handler(a_world(), piped_policy(pre=[REDACT]))
    for number, wish in enumerate((None, False)):
        told = await answer(handler, asks(return_message=wish, request_id=f"r-{number}"))
        assert told["ok"]
        assert "message" not in told


@pytest.mark.parametrize(
    "stages",
    [
        {},
        {"validators": ["guard"], "post": ["mark"]},
        {"pre": [{**REDACT, "when": {"lang": "fr"}}], "validators": ["guard"]},
    ],
    ids=["no extension", "no pre-processor", "one that is skipped"],
)
async def test_where_no_pre_processor_ran_the_message_is_the_requesters_own(
    stages: dict[str, Any],
) -> None:
    handler = a_handler(a_world(), piped_policy(**stages))
    for sequence in (7, 8):
        told = await answer(handler, asks(sequence))
        assert told["ok"]
        assert "message" not in told


async def test_a_pre_processor_that_failed_and_may_leaves_the_message_as_it_was() -> None:
    world = FakeExtensions(redact=late).register(redact="pre")
    told = await answer(a_handler(world, piped_policy(pre=["redact"])), asks())
    assert told["message"]["payload"] == "my card is 4111"


@pytest.mark.parametrize("sequence", [7, 8], ids=["first", "again"])
async def test_with_a_required_redactor_down_nothing_is_given_away(sequence: int) -> None:
    world = FakeExtensions(redact=in_turn(*[says("[card]")] * (sequence - 7), late))
    world.register(redact="pre")
    handler = a_handler(world, piped_policy(pre=[{**REDACT, "retry": 0}]))
    for earlier in range(7, sequence):
        assert (await answer(handler, asks(earlier)))["ok"]
    told = await answer(handler, asks(sequence))
    assert told["error"]["code"] == "pre_processor_failed"
    assert told.keys() == {"ok", "error", "context"}


async def test_the_same_request_is_redacted_again_and_decided_once() -> None:
    table = BudgetTable("life", 0.01, lambda: NOON_S)
    table.replace([Budget(tenant_id="acme", amount=10**12, window="month")])
    (budget,) = table.slices.values()
    budget.ends_s, budget.remaining = NOON_S + 3600, 10**10
    world, meter = a_world(), Meter()
    policy = piped_policy(pre=[REDACT], validators=["guard"], post=["mark"], rate_limit=ONE_TOKEN)
    handler = a_handler(world, policy, rates=RateLimits(), budgets=table.tenants, meter=meter)
    first = await answer(handler, asks())
    again = [await answer(handler, asks(sequence)) for sequence in (8, 9)]
    assert again == [first, first]
    # its requester invokes the provider, and that invocation reserves
    assert (budget.remaining, meter.repeats, meter.decided) == (10**10, 2, 3)
    asked = [call.subject.split(".")[3] for call in world.asked]
    assert asked == ["redact", "guard", "mark", *["redact", "guard"] * 2]


async def test_duplicates_at_once_are_decided_once_and_each_has_the_message() -> None:
    go = asyncio.Event()

    async def redacts(body: Json) -> object:
        await go.wait()
        return {"payload": {**body["payload"], "payload": "[card]"}}

    world = FakeExtensions(redact=redacts).register(redact="pre")
    policy = piped_policy(pre=[REDACT], rate_limit=ONE_TOKEN)
    handler = a_handler(world, policy, rates=RateLimits())
    waiting = [asyncio.ensure_future(answer(handler, asks(number))) for number in range(5)]
    await asyncio.sleep(0)
    go.set()
    first, *others = await asyncio.gather(*waiting)
    assert first["message"]["payload"] == "[card]"
    assert others == [first] * 4


async def test_a_request_that_comes_again_is_left_to_the_policy_in_force_now() -> None:
    """Decided without a redactor: its message must not go on as it is once there is one."""
    table = PolicyTable({("acme", "default"): a_policy(a_provider("before"))})
    handler = a_handler(a_world(), table)
    first = await answer(handler, asks())
    table.replace({("acme", "default"): piped_policy(pre=[REDACT], version=2)})
    again = await answer(handler, asks(8))
    assert "message" not in first
    assert again == {**first, "message": again["message"]}
    assert again["message"]["payload"] == "my card is [card]"
    table.replace({})
    assert (await answer(handler, asks(9)))["error"]["code"] == "policy_not_found"


async def test_what_a_validator_refuses_now_is_refused_though_it_was_decided() -> None:
    world = FakeExtensions(redact=says("[card]"), guard=in_turn(ok, reject))
    world.register(redact="pre", guard="validator")
    handler = a_handler(world, piped_policy(pre=[REDACT], validators=["guard"]))
    assert (await answer(handler, asks()))["ok"]
    assert (await answer(handler, asks(8)))["error"]["code"] == "validator_blocked"


async def test_other_content_under_the_same_id_is_refused_without_a_call() -> None:
    world = a_world()
    handler = a_handler(world, piped_policy(pre=[REDACT]))
    await answer(handler, asks())
    told = await answer(handler, asks(8, context={"other": 1}))
    assert told["error"]["details"] == {"field": "request_id"}
    assert len(world.asked) == 1


async def test_content_that_is_not_compared_has_its_own_message() -> None:
    """An idempotency key stands for the content: the decision is the first one's, the message this
    one's.
    """
    echoes = FakeExtensions(redact=lambda body: {"payload": body["payload"]}).register(redact="pre")
    handler = a_handler(echoes, piped_policy(pre=[REDACT]))
    for payload in ("one", "two"):
        message = asks(**a_body(payload=payload), idempotency_key="order 17")
        assert (await answer(handler, message))["message"]["payload"] == payload


@pytest.mark.parametrize("room", [0, 1], ids=["too large", "fits"])
async def test_an_answer_is_no_larger_than_what_the_server_takes(room: int) -> None:
    """For a larger one the server would close the connection of this router."""
    policy, size = piped_policy(pre=[REDACT]), 0

    async def ask() -> bytes:
        rules = DecideRules(read_max_answer=lambda: size)
        world = FakeExtensions(redact=says("x" * 5000)).register(redact="pre")
        outcome = a_handler(world, policy, rules=rules)(asks())
        assert isinstance(outcome, Awaitable)
        done = await outcome
        assert isinstance(done, Done)
        assert done.reply is not None
        return done.reply.data

    size = 10**6
    size = len(await ask()) - 1 + room
    told = orjson.loads(await ask())
    assert told["ok"] is bool(room)
    if not room:
        assert told["error"]["code"] == "invalid_request"
        assert told["error"]["details"] == {
            "field": "return_message",
            "reason": "message_too_large",
        }


async def test_where_many_read_the_answer_has_neither_message_nor_decision() -> None:
    """A decision alone would look like one of a policy that leaves the message as it was."""
    outcome = a_handler(a_world(), piped_policy(pre=[REDACT]))(asks())
    assert isinstance(outcome, Awaitable)
    done = await outcome
    assert isinstance(done, Done)
    assert done.reply is not None
    public = orjson.loads(done.reply.public or b"")
    assert public["error"]["details"] == {"field": "return_message", "reason": "no_inbox"}
    assert b"card" not in (done.reply.public or b"")


@pytest.mark.parametrize(
    ("message", "says_why"),
    [
        (asks(return_message="true"), "true, false or absent"),
        (asks(return_message=1), "true, false or absent"),
        (asks(push_assignment=True), "push_assignment"),
        (a_message(asks().data, {"Accept": "application/x-protobuf"}), "Accept"),
    ],
    ids=["a text", "a number", "pushed", "in protobuf"],
)
def test_an_answer_that_could_not_hold_it_is_no_answer(message: Message, says_why: str) -> None:
    outcome = a_handler(a_world(), piped_policy(pre=[REDACT]))(message)
    assert isinstance(outcome, Dead)
    assert outcome.reply is not None
    error = orjson.loads(outcome.reply.data)["error"]
    assert (error["code"], error["details"]["field"]) == ("invalid_request", "return_message")
    assert says_why in error["message"]
