"""A request that waits for a slice of a budget is decided again, and takes one token of its
policy's rate limit for all that.
"""

import asyncio

import orjson
import pytest

from router.budgets.model import Budget, BudgetSlice, BudgetTable
from router.core.clock import steady
from router.core.deferred import Deferred
from router.decide.model import NewAssignment
from router.policies.model import PolicyTable, RateLimits
from tests.support.decide import a_decide_handler, a_pusher
from tests.support.pipelines import FakeExtensions, ok, piped_policy
from tests.support.policy import a_policy
from tests.support.requests import a_body, a_message

NOON_S = 1_800_000_000
LIMIT = {"requests_per_second": 1, "burst": 1}


class Meter:
    def on_decision(self, *_: object) -> None: ...

    def on_violations(self, *_: object) -> None: ...

    def on_session(self, _: str) -> None: ...

    def on_repeat(self) -> None: ...


def a_table() -> BudgetTable:
    """A budget whose bucket answers in the next turn of the loop."""
    table = BudgetTable("life", 0.01, steady)
    table.replace([Budget(tenant_id="acme", amount=10**12, window="month")])

    def grant(one: BudgetSlice) -> None:
        one.ends_s = int(steady()) + 1000
        asyncio.get_running_loop().call_soon(one.on_granted, 10**10)

    table.on_asked = grant
    return table


@pytest.mark.parametrize("is_piped", [False, True])
async def test_a_request_that_waits_for_a_budget_takes_one_token(*, is_piped: bool) -> None:
    world = FakeExtensions(pii=ok).register(pii="validator")
    policy = (
        piped_policy(validators=["pii"], rate_limit=LIMIT)
        if is_piped
        else a_policy(rate_limit=LIMIT)
    )
    handler = a_decide_handler(
        PolicyTable({("acme", "default"): policy}),
        Meter(),
        rates=RateLimits(),
        budgets=a_table().tenants,
        extensions=world.extensions(),
        now=world.clock,
    )
    waiting = handler(a_message(a_body()))
    done = await waiting  # type: ignore[misc]
    assert orjson.loads(done.reply.data)["ok"] is True


class EmptyBucket:
    """Of known assignments: it holds none."""

    async def find(self, key: str) -> bytes | None:
        return None

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        raise AssertionError(key)


async def test_a_pushed_request_that_is_refused_is_decided_once() -> None:
    table = BudgetTable("life", 0.01, lambda: NOON_S)
    table.replace([Budget(tenant_id="acme", amount=10**12, window="month")])
    (spent,) = table.slices.values()
    spent.ends_s = NOON_S + 3600
    spent.on_refused(1, NOON_S)
    handler = a_decide_handler(
        PolicyTable({("acme", "default"): a_policy(rate_limit=LIMIT)}),
        Meter(),
        rates=RateLimits(),
        budgets=table.tenants,
        push=a_pusher(EmptyBucket()),
    )
    done = await handler(a_message({**a_body(), "push_assignment": True}))  # type: ignore[misc]
    assert orjson.loads(done.reply.data)["error"]["code"] == "budget_exceeded", (
        "a second decision would find no token"
    )
