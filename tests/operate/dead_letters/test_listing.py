"""Letters in the order in which people ask for them."""

from datetime import UTC, datetime, timedelta

import pytest

from router.delivery.wire.api import JetStream
from router.operate.dead_letters import DeadLetterFilter, list_newest_first, show
from tests.support.dead_letters import a_dead_letter, a_failed_message, a_stored_dead_letter


@pytest.fixture
async def stream(jetstream: JetStream, prefix: str) -> str:
    await jetstream.ask(
        f"STREAM.CREATE.{prefix}",
        {"name": prefix, "subjects": [f"{prefix}.>"], "storage": "memory"},
    )
    return prefix


async def _send(
    jetstream: JetStream, stream: str, count: int, subject: str = "s", tenant: str = "acme"
) -> None:
    original = a_failed_message(subject=subject)
    data = a_dead_letter(original, seen={"tenant_id": tenant}).data
    for _ in range(count):
        await jetstream.connection.request(f"{stream}.{subject}.dlq", data, timeout=60)


async def _sequences(
    jetstream: JetStream,
    stream: str,
    wanted: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008
    limit: int | None = None,
) -> list[int]:
    return [letter.sequence async for letter in list_newest_first(jetstream, stream, wanted, limit)]


async def test_the_newest_comes_first_and_no_more_than_asked_for(
    jetstream: JetStream, stream: str
) -> None:
    await _send(jetstream, stream, 130)
    assert await _sequences(jetstream, stream) == list(range(130, 0, -1))
    assert await _sequences(jetstream, stream, limit=2) == [130, 129]


async def test_dead_letters_that_are_gone_are_stepped_over(
    jetstream: JetStream, stream: str
) -> None:
    await _send(jetstream, stream, 5)
    for sequence in (1, 3, 5):
        await jetstream.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})
    assert await _sequences(jetstream, stream) == [4, 2]
    assert await show(jetstream, stream, 3) is None


async def test_dead_letters_are_filtered(jetstream: JetStream, stream: str) -> None:
    await _send(jetstream, stream, 1, subject="a.b", tenant="acme")
    await _send(jetstream, stream, 1, subject="a.c", tenant="globex")
    await jetstream.connection.request(
        f"{stream}.x.dlq", a_stored_dead_letter(b"\xff").data, timeout=60
    )
    assert await _sequences(jetstream, stream, DeadLetterFilter(tenant="acme")) == [1]
    assert await _sequences(jetstream, stream, DeadLetterFilter(subject="a.*")) == [2, 1]
    assert await _sequences(jetstream, stream, DeadLetterFilter(subject=f"{stream}.x.dlq")) == [3]
    assert await _sequences(jetstream, stream, DeadLetterFilter(reason="unreadable")) == [3]
    assert await _sequences(
        jetstream, stream, DeadLetterFilter(since=datetime.now(UTC) - timedelta(minutes=1))
    ) == [3, 2, 1]
    assert (
        await _sequences(
            jetstream, stream, DeadLetterFilter(since=datetime.now(UTC) + timedelta(minutes=1))
        )
        == []
    )


async def test_no_stream_has_no_dead_letters(jetstream: JetStream) -> None:
    assert await _sequences(jetstream, "NOWHERE") == []
    assert await show(jetstream, "NOWHERE", 1) is None
