"""What the canary of a policy is told of: every answer, and of a decision that is pushed that its
result will tell.
"""

from collections.abc import Awaitable, Callable

import pytest

from router.contracts.canary import CANDIDATE, CanaryPlan
from router.contracts.decision import Decision, Refusal
from router.contracts.version_record import make_record
from router.core.deferred import Deferred
from router.core.outcome import Outcome
from router.decide.model import DecideHandler, NewAssignment
from router.policies.model import Policy, PolicyTable, parse_record
from tests.support.decide import UncountedCanaries, a_decide_handler, a_pusher
from tests.support.pipelines import FakeExtensions, ok, reject
from tests.support.policy import a_document, a_provider
from tests.support.requests import a_body, a_message

# tenant, arm, decision or the refusal's code, whether it is pushed
Told = tuple[str, str, str, bool]
GUARD = {"validators": [{"id": "guard", "on_fail": "block"}]}


class Heard(UncountedCanaries):
    def __init__(self) -> None:
        self.told: list[Told] = []
        self.shadows = 0

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None:
        came = answer.code if isinstance(answer, Refusal) else "decision"
        self.told.append((tenant_id, str(policy.arm), came, is_pushed))

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None:
        self.shadows += 1


class Silent:
    """A meter that counts nothing."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


class Bucket:
    """Of known assignments."""

    async def find(self, key: str) -> bytes | None:
        return None

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        created: Deferred[bytes] = Deferred()
        created.resolve(new.data)
        return created


def a_canary(*, is_shadow: bool = False, **sections: object) -> Policy:
    """A policy of all tenants, with a candidate that has the same sections."""
    candidate = a_document(a_provider("new"), **sections)
    plan = CanaryPlan(
        document=candidate, share=50, guards=(), until_ms=0, min_results=1, is_shadow=is_shadow
    )
    record = make_record(
        a_document(a_provider("old"), **sections), version=7, author="me", canary=plan
    )
    return parse_record(record, "_shared", "default")


def a_handler(
    policy: Policy, heard: Heard, *, answer: Callable[..., object] = ok, **ports: object
) -> DecideHandler:
    world = FakeExtensions(guard=answer).register(guard="validator")
    table = PolicyTable({("_shared", "default"): policy})
    return a_decide_handler(
        table, Silent(), canaries=heard, extensions=world.extensions(), now=world.clock, **ports
    )


async def ask(handler: DecideHandler, count: int = 20, **fields: object) -> None:
    for number in range(count):
        outcome: Outcome | Awaitable[Outcome] = handler(
            a_message({**a_body(), "request_id": f"r-{number}", **fields})
        )
        if isinstance(outcome, Awaitable):
            await outcome


@pytest.mark.parametrize("sections", [{}, GUARD], ids=["plain", "with extensions"])
async def test_a_request_that_is_answered_only_is_told_once_with_its_tenant(
    sections: dict[str, object],
) -> None:
    heard = Heard()
    await ask(a_handler(a_canary(**sections), heard))
    assert set(heard.told) == {
        ("acme", "control", "decision", False),
        ("acme", CANDIDATE, "decision", False),
    }
    assert len(heard.told) == 20


@pytest.mark.parametrize("sections", [{}, GUARD], ids=["plain", "with extensions"])
async def test_a_pushed_one_is_told_as_pushed_and_one_whose_push_is_skipped_as_answered(
    sections: dict[str, object],
) -> None:
    for rules, is_pushed in (({}, True), ({"enabled": False}, False)):
        heard = Heard()
        await ask(
            a_handler(a_canary(**sections), heard, push=a_pusher(Bucket(), **rules)),
            push_assignment=True,
        )
        assert {one[3] for one in heard.told} == {is_pushed}
        assert len(heard.told) == 20


async def test_a_refusal_of_an_extension_is_told() -> None:
    heard = Heard()
    await ask(a_handler(a_canary(**GUARD), heard, answer=reject))
    assert {one[2] for one in heard.told} == {"validator_blocked"}


async def test_a_replayed_answer_is_told_once() -> None:
    heard = Heard()
    handler = a_handler(a_canary(), heard)
    await ask(handler, 1)
    await ask(handler, 1)
    assert len(heard.told) == 1


async def test_a_shadow_is_told_beside_each_decision_and_no_arm_is() -> None:
    heard = Heard()
    await ask(a_handler(a_canary(is_shadow=True), heard))
    assert (heard.told, heard.shadows) == ([], 20)
