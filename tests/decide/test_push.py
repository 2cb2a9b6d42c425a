"""A pushed request: the stored assignment is the decision, also where another instance stored it."""

import asyncio
from collections.abc import Awaitable

import orjson
import pytest
from msgspec.structs import replace

from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Done, Outcome
from router.decide.model import DecideHandler, DecideRules, NewAssignment
from router.decide.model.idempotency_cache import IdempotencyCache
from router.policies.model import PolicyTable
from tests.support.decide import (
    FakeStoring,
    UnlimitedShares,
    a_decide_handler,
    a_pusher,
    push_nothing,
)
from tests.support.policy import a_policy, a_provider
from tests.support.requests import TRACEPARENT, a_body, a_message
from tests.support.workers import ASSIGNED


class Book:
    """The bucket of known assignments: it keeps what came first, and may be away or slow."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.created = 0
        self.is_away = False
        self.may_reply = True
        self.creating: list[tuple[Deferred[bytes], str, bytes]] = []

    async def find(self, key: str) -> bytes | None:
        return self.records.get(key)

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        self.created += 1
        created: Deferred[bytes] = Deferred()
        self.creating.append((created, key, new.data))
        if self.may_reply:
            self.answer()
        return created

    def answer(self) -> None:
        """Answer every create that waits, and from now on at once."""
        self.may_reply = True
        while self.creating:
            created, key, record = self.creating.pop(0)
            created.resolve(
                BrokerUnavailable("away") if self.is_away else self.records.setdefault(key, record)
            )


class Meter:
    def __init__(self) -> None:
        self.replays = 0
        self.reasons: list[str] = []

    def on_decision(self, *_: object) -> None: ...

    def on_violations(self, *_: object) -> None: ...

    def on_session(self, _: str) -> None: ...

    def on_assignment_skipped(self, reason: str) -> None:
        self.reasons.append(reason)

    def on_repeat(self) -> None:
        self.replays += 1


class Shares(UnlimitedShares):
    """The shares of tenants in the stream of assignments: of each, or of none, is room left."""

    is_full = False

    def is_over(self, _: str) -> bool:
        return self.is_full


NO_SHARES = Shares()


def a_handler(
    book: Book | None,
    provider: str = "openai",
    *,
    policy: bool = True,
    storing: FakeStoring | None = None,
    shares: Shares = NO_SHARES,
    **rules: object,
) -> DecideHandler:
    policy_table = PolicyTable(
        {("acme", "default"): a_policy(a_provider(provider))} if policy else {}
    )
    push = a_pusher(book, shares=shares, **rules) if book is not None else push_nothing()
    return a_decide_handler(
        policy_table,
        Meter(),
        rules=DecideRules(),
        push=push,
        cache=IdempotencyCache(storing or FakeStoring()),
    )


def a_push(payload: str = "hello", sequence: int = 7, **top: object) -> Message:
    body = {**a_body(payload=payload), "request_id": "r-1", "push_assignment": True, **top}
    return a_message(body, {"traceparent": TRACEPARENT, "Nats-Msg-Id": "n-1"}, sequence=sequence)


async def outcome_of(handler: DecideHandler, message: Message) -> Outcome:
    outcome = handler(message)
    return await outcome if isinstance(outcome, Awaitable) else outcome


async def pushed(handler: DecideHandler, message: Message) -> Done:
    outcome = await outcome_of(handler, message)
    assert isinstance(outcome, Done), outcome
    return outcome


def answer(done: Done) -> dict[str, object]:
    assert done.reply is not None
    return orjson.loads(done.reply.data)


async def test_a_pushed_decision_is_stored_then_published_and_answered() -> None:
    book = Book()
    done = await pushed(a_handler(book), a_push())
    (effect,) = done.effects
    assert (effect.subject, effect.id, effect.headers["traceparent"]) == (
        "caf.exec.assign.v1",
        ASSIGNED,
        TRACEPARENT,
    )
    assert orjson.loads(effect.data)["decision"] == answer(done)["decision"]
    assert list(book.records) == [ASSIGNED]


async def test_after_a_crash_what_was_stored_is_published_again_and_answered() -> None:
    book = Book()
    first = await pushed(a_handler(book, "openai"), a_push())
    again = await pushed(a_handler(book, "another"), a_push(sequence=8))
    assert first.effects == again.effects
    assert first.reply == again.reply


async def test_what_was_stored_before_is_counted_as_a_repeat_and_what_is_new_is_not() -> None:
    book, meter = Book(), Meter()

    def start(provider: str) -> DecideHandler:
        table = PolicyTable({("acme", "default"): a_policy(a_provider(provider))})
        return a_decide_handler(
            table,
            meter,
            rules=DecideRules(),
            push=a_pusher(book),
            cache=IdempotencyCache(FakeStoring()),
        )

    await pushed(start("openai"), a_push())
    assert meter.replays == 0
    await pushed(start("another"), a_push(sequence=8))
    assert meter.replays == 1


async def test_after_a_crash_the_stored_decision_outlives_its_policy() -> None:
    book = Book()
    first = await pushed(a_handler(book), a_push())
    again = await pushed(a_handler(book, policy=False), a_push())
    assert (first.effects, first.reply) == (again.effects, again.reply)


async def test_no_decision_and_no_record_is_a_refusal_without_effect() -> None:
    done = await pushed(a_handler(Book(), policy=False), a_push())
    assert (done.effects, answer(done)["error"]["code"]) == ((), "policy_not_found")


async def test_the_same_identity_with_other_bytes_is_found_out_by_the_record() -> None:
    book = Book()
    await pushed(a_handler(book), a_push())
    done = await pushed(a_handler(book), a_push(payload="other"))
    assert (done.effects, answer(done)["error"]["code"]) == ((), "invalid_request")


async def test_an_idempotency_key_stands_for_the_request_whatever_its_bytes() -> None:
    book = Book()
    first = await pushed(a_handler(book), a_push(idempotency_key="k"))
    other = await pushed(a_handler(book), a_push(payload="other", idempotency_key="k"))
    assert first.effects == other.effects


async def test_the_subject_that_a_request_names_is_used() -> None:
    handler = a_handler(Book(), subjects=("caf.default",))
    assert (await pushed(handler, a_push())).effects[0].subject == "caf.default"
    named = await pushed(
        a_handler(Book(), subjects=("caf.default",)),
        a_push(assignment_subject="caf.exec.assign.v1"),
    )
    assert named.effects[0].subject == "caf.exec.assign.v1"


async def test_concurrent_duplicates_wait_for_the_first() -> None:
    book = Book()
    book.may_reply = False
    handler = a_handler(book)
    asked = [asyncio.ensure_future(pushed(handler, a_push(sequence=n))) for n in range(5)]
    await asyncio.sleep(0)
    book.answer()
    outcomes = await asyncio.gather(*asked)
    assert book.created == 1
    assert (
        len(
            {
                (done.effects[0].data, done.effects[0].id, done.reply.data)
                for done in outcomes
                if done.reply
            }
        )
        == 1
    )


async def test_when_the_first_is_cancelled_the_next_goes_on() -> None:
    book = Book()
    book.may_reply = False
    handler = a_handler(book)
    first, second, third = (
        asyncio.ensure_future(pushed(handler, a_push(sequence=n))) for n in range(3)
    )
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    book.answer()
    assert (await third).effects[0].id == ASSIGNED
    assert first.cancelled() or second.cancelled()


async def test_while_the_bucket_is_away_no_request_is_answered() -> None:
    book = Book()
    book.is_away = True
    with pytest.raises(BrokerUnavailable):
        await outcome_of(a_handler(book), a_push())


async def test_a_duplicate_is_answered_from_memory_only_once_its_assignment_is_stored() -> None:
    handler = a_handler(Book())
    first = await pushed(handler, a_push())
    before = await pushed(handler, a_push(sequence=8))
    assert before.effects == first.effects
    assert first.commit is not None
    assert first.commit(()) is None
    after = handler(a_push(sequence=9))
    assert isinstance(after, Done)
    assert (after.effects, after.reply) == ((), first.reply)


@pytest.mark.parametrize(("deliveries", "life"), [(2, 0), (1, 1), (2, 1)])
async def test_a_push_whose_assignment_may_be_lost_is_published_again(
    deliveries: int, life: int
) -> None:
    """The server lost the assignment with its power; the process that lived on acknowledged the
    request from its memory.
    """
    book, storing = Book(), FakeStoring()
    handler = a_handler(book, storing=storing)
    first = await outcome_of(handler, a_push())
    assert isinstance(first, Done)
    assert first.commit is not None
    first.commit(())
    storing.reconnect_count = life
    again = await outcome_of(handler, replace(a_push(), deliveries=deliveries))
    assert isinstance(again, Done)
    assert (again.effects, again.reply) == (first.effects, first.reply)
    assert book.created == 1
    changed = await outcome_of(handler, replace(a_push("other"), deliveries=deliveries))
    assert isinstance(changed, Done)
    assert not changed.effects


async def test_a_push_whose_record_is_lost_too_is_stored_again_as_it_was_decided() -> None:
    """Its policy may be gone by then, or a rate spent: its requester has the answer."""
    book = Book()
    handler = a_handler(book)
    first = await pushed(handler, a_push())
    assert first.commit is not None
    first.commit(())
    book.records.clear()
    handler._decider._policies = PolicyTable({})
    again = await outcome_of(handler, replace(a_push(), deliveries=2))
    assert isinstance(again, Done)
    assert (again.effects, again.reply) == (first.effects, first.reply)


async def test_a_push_that_is_delivered_again_is_not_refused_for_its_tenants_share() -> None:
    """It has its answer: a second one must not say the contrary."""
    handler = a_handler(Book(), shares=(shares := Shares()))
    first = await pushed(handler, a_push())
    assert first.commit is not None
    first.commit(())
    shares.is_full = True
    again = await outcome_of(handler, replace(a_push(), deliveries=2))
    assert isinstance(again, Done)
    assert (again.effects, again.reply) == (first.effects, first.reply)


async def test_a_decision_without_its_assignment_is_answered_from_memory_however_often_it_comes() -> (
    None
):
    handler = a_handler(Book(), enabled=False)
    first = await outcome_of(handler, a_push())
    again = await outcome_of(handler, replace(a_push(), deliveries=2))
    taken = await outcome_of(handler, replace(a_push("other"), deliveries=2))
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert isinstance(taken, Done)
    assert again.reply == first.reply
    assert answer(taken)["error"]["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"enabled": False}, "assignment_disabled"),
        ({"tenants_allowed": ("other",)}, "assignment_tenant_forbidden"),
    ],
)
def test_a_push_that_is_switched_off_or_not_allowed_is_decided_without_an_assignment(
    rules: dict[str, object], reason: str
) -> None:
    book = Book()
    done = a_handler(book, **rules)(a_push())
    assert isinstance(done, Done)
    assert (answer(done)["ok"], done.effects, book.created) == (True, (), 0)
    assert [warning["details"]["reason"] for warning in answer(done)["warnings"]] == [reason]


def test_without_a_book_a_push_is_decided_with_a_warning_and_the_rest_without_one() -> None:
    handler = a_handler(None)
    skipped, decided = handler(a_push()), handler(a_message(a_body()))
    assert isinstance(skipped, Done)
    assert isinstance(decided, Done)
    assert answer(skipped)["warnings"][0]["details"]["reason"] == "assignment_disabled"
    assert "warnings" not in answer(decided)
