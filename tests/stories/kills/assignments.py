"""A router is killed between a pushed request's delivery and its ack: how many assignments does the
request have?
"""

from nats.aio.client import Client

from router.config import Settings
from tests.support.kills import (
    KillCount,
    KilledProcess,
    KillPlan,
    a_server,
    count_ids,
    kill_and_restart,
)
from tests.support.router_streams import read_assignments
from tests.support.service import names_for, settings_for
from tests.support.stories import Inboxes, a_request, is_settled, make_topology, read_dead_letters
from tests.support.waiting import until

ACK_WAIT_MS = 500
# a message in flight at three deaths has used the default three and is given up
# (docs/reference/contracts.md#attempts)
ATTEMPTS = 20


class BatchingRouter(KilledProcess):
    command = ("tests.support.batching_process", "router", "serve")


async def count_assigned_in_batches(plan: KillPlan) -> list[KillCount]:
    """Assignments go in atomic batches, and their records before them."""
    return await _count(plan, BatchingRouter)


async def count_assigned(plan: KillPlan) -> list[KillCount]:
    return await _count(plan, KilledProcess)


async def _count(plan: KillPlan, process: type[KilledProcess]) -> list[KillCount]:
    async with a_server() as (url, nc):
        settings = settings_for(url, decide__ack_wait_ms=ACK_WAIT_MS, decide__max_attempts=ATTEMPTS)
        await make_topology(settings)
        inboxes = await Inboxes.under(nc, "kills")
        router = process(
            {
                **names_for(url, "t"),
                "decide.ack_wait_ms": ACK_WAIT_MS,
                "decide.max_attempts": ATTEMPTS,
            }
        )
        try:
            await kill_and_restart(
                router, plan, lambda share: _publish(nc, settings, inboxes, share)
            )
            await until(lambda: is_settled(nc, settings), within_s=30)
            await until(
                lambda: len(inboxes.heard) >= plan.messages, what="every request to be answered"
            )
        finally:
            router.remove()
        assigned = await read_assignments(nc, settings)
        _check_answers(
            inboxes,
            {str(one["request_id"]): str(one["decision"]["provider_id"]) for one in assigned},
        )
        sent = [f"r-{number}" for number in range(plan.messages)]
        found = [str(one["request_id"]) for one in assigned]
        return [
            count_ids(
                plan, sent, found, {"dead letters": len(await read_dead_letters(nc, settings))}
            )
        ]


async def _publish(nc: Client, settings: Settings, inboxes: Inboxes, share: range) -> None:
    for number in share:
        await inboxes.publish_named(nc, settings, number, a_request(number, push_assignment=True))
    await nc.flush()


def _check_answers(inboxes: Inboxes, providers: dict[str, str]) -> None:
    """Every answer to a request, the second as the first, names the provider that has the
    assignment.
    """
    for request, provider in providers.items():
        answers = inboxes.answers(request.removeprefix("r-"))
        assert answers, f"{request} has no answer"
        assert all(b'"provider_id":"%b"' % provider.encode() in answer for answer in answers), (
            answers
        )
