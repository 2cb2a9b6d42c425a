"""A request that kills the process each time it is begun, among healthy ones."""

from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from tests.support.crashing_router import FATAL, CrashingRouter
from tests.support.requests import a_body
from tests.support.service import names_for, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    has_attempt_records,
    is_settled,
    make_topology,
    read_dead_letters,
)
from tests.support.waiting import until

HEALTHY = 200
ACK_WAIT_MS = 400
PATIENT = {"admission.patience_ms": 60_000}  # three deaths take seconds, on a busy machine many


@pytest.fixture
def router(nats_url: str, prefix: str) -> Iterator[CrashingRouter]:
    router = CrashingRouter(
        {**names_for(nats_url, prefix), "decide.ack_wait_ms": ACK_WAIT_MS, **PATIENT}
    )
    yield router
    router.remove()


async def test_it_takes_no_neighbour_along(
    nc: Client, nats_url: str, prefix: str, router: CrashingRouter
) -> None:
    """Story 5: prefetched among 200 healthy requests, it kills three processes; one dead letter,
    200 answers.
    """
    settings = settings_for(nats_url, prefix, decide__ack_wait_ms=ACK_WAIT_MS)
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, prefix)
    for n in range(HEALTHY + 1):
        body = a_request("fatal", **a_body(message_type=FATAL)) if n == HEALTHY // 2 else None
        await inboxes.publish_named(nc, settings, "fatal" if body else n, body)
    await nc.flush()

    router.spawn()

    def is_over() -> bool:
        router.revive()
        return len(inboxes.heard) > HEALTHY

    await until(is_over, within_s=20, what="an answer to every request")
    await until(lambda: is_settled(nc, settings))
    assert router.deaths == settings.decide.max_attempts

    (letter,) = await read_dead_letters(nc, settings)
    assert letter["msg_id"] == "m-fatal"
    assert letter["reason"] == "maxdeliver_exhausted"
    assert letter["source"]["attempts"] == settings.decide.max_attempts
    # The process may die with an acknowledgement unsent: an answer may come again then, but never
    # another one.
    assert all(len(set(answers)) == 1 for answers in inboxes.heard.values())
    decided = [subject for subject, (first, *_) in inboxes.heard.items() if b'"ok":true' in first]
    assert len(decided) == HEALTHY
    assert b'"code":"internal"' in inboxes.answers("fatal")[0]
    # it died of the first delivery, and left no word
    assert letter["source"]["attempts_unconfirmed"] == 1
    # of the fatal one; its neighbours were forgotten when they were answered
    await until(lambda: has_attempt_records(nc, settings, 1))
