"""Issue 3, story 2: killed anywhere between a pushed request's delivery and its acknowledgement, there is one assignment for it."""

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.circle import assignments
from tests.support.kills import Plan, Row, Victim, a_server, counted, killed, publish, table
from tests.support.service import names_for, settings_for
from tests.support.stories import Inboxes, a_request, is_settled, letters, make_topology
from tests.support.waiting import until

POINTS = ("before_create", "after_create", "before_publish", "after_publish", "after_commit", "after_ack")
ACK_WAIT_MS = 500
ATTEMPTS = 20  # a message in flight at three deaths has spent the default three and is given up (docs/contracts.md#attempts)
NOTE = f"""Acknowledgements are waited for {ACK_WAIT_MS} ms, and a request may be started {ATTEMPTS} times: ten deaths are more than the
default of three allows, and a message in flight at three of them would be given up with a dead letter and an answer `internal`."""

ALL = Plan(POINTS, at_point=1, at_random=1, share=50)  # in one story: a start is what costs
LONG = [Plan(point, at_point=6, at_random=4, share=100) for point in POINTS]
LONG_AT_RANDOM = Plan(None, at_point=0, at_random=10, share=100)


@pytest.mark.timeout(180)
@pytest.mark.slow  # nine deaths and restarts of a process
async def test_a_request_is_assigned_once_wherever_the_router_is_killed() -> None:
    """Fifty requests a life, a kill at each point and one at random; each is answered, and who hears twice hears the same.

    The long table kills ten times a line.
    """
    row = await _story(ALL, "everywhere")
    print(_table([row]))
    assert row.is_exact, row


@pytest.mark.matrix
@pytest.mark.slow  # a thousand requests and ten kills a line
async def test_a_thousand_requests_at_every_point_and_kills_at_random_on_top() -> None:
    """The whole table; it is kept in bench/results."""
    rows = [await _story(plan, f"{plan.point} 6 ×, at random 4 ×") for plan in LONG]
    rows.append(await _story(LONG_AT_RANDOM, "at random"))
    print(_table(rows))
    publish("kill_assignments", "A pushed request is assigned once, whatever dies when", _table(rows), NOTE)
    assert all(row.is_exact for row in rows), rows


async def _story(plan: Plan, label: str) -> Row:
    async with a_server() as (url, nc):
        settings = settings_for(url, decide__ack_wait_ms=ACK_WAIT_MS, decide__max_attempts=ATTEMPTS)
        await make_topology(settings)
        inboxes = await Inboxes.under(nc, "kills")
        victim = Victim({**names_for(url, "t"), "decide.ack_wait_ms": ACK_WAIT_MS, "decide.max_attempts": ATTEMPTS})
        try:
            await killed(victim, plan, lambda share: _asked(nc, settings, inboxes, share))
            await until(lambda: is_settled(nc, settings), within_s=30)
            await until(lambda: len(inboxes.heard) >= plan.messages, what="every request to be answered")
        finally:
            victim.remove()
        assigned = await assignments(nc, settings)
        _is_what_was_answered(inboxes, {str(one["request_id"]): str(one["decision"]["provider_id"]) for one in assigned})
        expected = [f"r-{number}" for number in range(plan.messages)]
        return counted(plan, label, expected, [str(one["request_id"]) for one in assigned], len(await letters(nc, settings)))


async def _asked(nc: Client, settings: Settings, inboxes: Inboxes, share: range) -> None:
    for number in share:
        await inboxes.publish_named(nc, settings, number, a_request(number, push_assignment=True))
    await nc.flush()


def _is_what_was_answered(inboxes: Inboxes, providers: dict[str, str]) -> None:
    """Every answer to a request, the second as the first, tells the provider that has the assignment."""
    for request, provider in providers.items():
        answers = inboxes.answers(request.removeprefix("r-"))
        assert answers, f"{request} has no answer"
        assert all(b'"provider_id":"%b"' % provider.encode() in answer for answer in answers), answers


def _table(rows: list[Row]) -> str:
    return table(rows, "requests", "assignments")
