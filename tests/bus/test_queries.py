"""Questions and answers, on a real server with the stream behind the subject."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from router.bus import QueryRefused, UnknownSubject, queries
from router.bus.queries import Responder
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.errors import Poison, Unanswered
from router.sdk.bus import Bus
from tests.support.bus import a_bus, an_envelope, read_bus_stream
from tests.support.patient_client import connect_patiently
from tests.support.waiting import until

QUESTION = an_envelope(message_type="LoopStatus", payload={"loop_id": "loop_1"})


@asynccontextmanager
async def responding(bus: Bus, respond: Responder) -> AsyncIterator[None]:
    before = len(bus.jetstream.connection.callbacks)
    task = asyncio.create_task(bus.respond("status", respond))
    await until(lambda: len(bus.jetstream.connection.callbacks) > before)
    await bus.jetstream.connection.flush()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def echo(question: MessageEnvelope) -> Mapping[str, object]:
    return {"heard": question.payload}


async def test_a_question_is_answered_by_the_responder_and_not_by_the_stream(bus: Bus) -> None:
    """SR-15, X4: a stream that acknowledges would answer `{"stream": …, "seq": 1}` first."""
    async with responding(bus, echo):
        assert await bus.query("status", QUESTION) == {"heard": {"loop_id": "loop_1"}}
    await until(
        lambda: read_bus_stream(bus, "queries"), what="the stream stores it, beside the answer"
    )
    assert [one.data for one in await read_bus_stream(bus, "queries")] == [envelope_bytes(QUESTION)]


async def test_an_answer_with_a_number_that_json_has_not_is_a_failure_not_null(bus: Bus) -> None:
    async def respond(_: MessageEnvelope) -> Mapping[str, object]:
        return {"n": float("nan")}

    async with responding(bus, respond):
        with pytest.raises(QueryRefused):
            await bus.query("status", QUESTION)


async def test_one_of_several_responders_answers(bus: Bus, prefix: str) -> None:
    heard: list[str] = []

    async def count(question: MessageEnvelope) -> Mapping[str, object]:
        heard.append(question.message_id)
        return {}

    async with (
        a_bus(bus._all.nats.url[0], prefix) as other,
        responding(bus, count),
        responding(other, count),
    ):
        await asyncio.gather(*(bus.query("status", an_envelope(number)) for number in range(20)))
    assert sorted(heard) == sorted(f"evt_{number}" for number in range(20))


async def test_without_a_responder_a_question_is_unanswered_in_its_time(bus: Bus) -> None:
    with pytest.raises(Unanswered):
        await bus.query("status", QUESTION, timeout=0.1)
    with pytest.raises(UnknownSubject):
        await bus.query("a.b", QUESTION)


@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        (Poison("no such loop"), "processing_error", "no such loop"),
        (ValueError("a secret"), "internal", "the responder failed"),
    ],
)
async def test_a_responder_that_fails_answers_so_and_lives(
    bus: Bus, failure: Exception, code: str, text: str
) -> None:
    failures = [failure]

    async def respond(question: MessageEnvelope) -> Mapping[str, object]:
        if failures:
            raise failures.pop()
        return {}

    async with responding(bus, respond):
        with pytest.raises(QueryRefused, match=text) as refused:
            await bus.query("status", QUESTION)
        assert refused.value.code == code
        assert await bus.query("status", an_envelope(2)) == {}


async def test_what_is_no_envelope_is_answered_with_why(
    bus: Bus, prefix: str, nats_url: str
) -> None:
    client = await connect_patiently(nats_url)
    async with responding(bus, echo):
        answer = await client.request(f"{prefix}.queries.status", b"{}", timeout=60)
    assert b'"code":"SCHEMA_VALIDATION_FAILED"' in answer.data
    await client.close()


async def test_an_address_that_is_no_inbox_is_never_written_to(
    bus: Bus, prefix: str, nats_url: str
) -> None:
    """docs/explanation/durability.md#reply-weapon: a reply to one of our own subjects would inject
    a message.
    """
    client = await connect_patiently(nats_url)
    async with responding(bus, echo):
        await client.publish(
            f"{prefix}.queries.status", envelope_bytes(QUESTION), reply=f"{prefix}.events.loop"
        )
        await client.flush()
        assert await bus.query("status", an_envelope(2)) == {"heard": {"n": 2}}
    assert await read_bus_stream(bus, "events") == []
    await client.close()


async def test_a_responder_that_hangs_gives_its_places_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many hanging questions as there are places, and every later one was answered `overloaded`,
    for ever.
    """
    monkeypatch.setattr(queries, "RESPONSE_TIMEOUT_S", 0.05)

    async def respond(question: MessageEnvelope) -> Mapping[str, object]:
        if question.message_id != QUESTION.message_id:
            await asyncio.Event().wait()
        return {"ok": "yes"}

    async with responding(bus, respond):
        hanging = (
            bus.query("status", an_envelope(number + 100))
            for number in range(queries.MAX_CONCURRENT_QUERIES)
        )
        told = await asyncio.gather(*hanging, return_exceptions=True)
        assert {one.code for one in told if isinstance(one, QueryRefused)} == {"timeout"}
        assert await bus.query("status", QUESTION) == {"ok": "yes"}


async def test_no_text_of_a_responder_ends_it(bus: Bus) -> None:
    """Half a surrogate pair is no JSON: the failure of its answer ended all the others."""
    failures: list[Exception] = [Poison("x" * 100_000), Poison("\ud800")]

    async def respond(question: MessageEnvelope) -> Mapping[str, object]:
        raise failures.pop()

    async with responding(bus, respond):
        for _ in range(2):
            with pytest.raises(QueryRefused) as refused:
                await bus.query("status", QUESTION)
            assert len(str(refused.value)) <= 1000


async def _cancelled_elsewhere(_: MessageEnvelope) -> Mapping[str, object]:
    task = asyncio.create_task(asyncio.sleep(30))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task
    return {}


async def _exits(_: MessageEnvelope) -> Mapping[str, object]:
    sys.exit(3)


async def _interrupts(_: MessageEnvelope) -> Mapping[str, object]:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fails", [_cancelled_elsewhere, _exits, _interrupts])
async def test_a_responder_that_exits_or_awaits_a_cancelled_task_fails_one_question(
    bus: Bus, fails: Responder
) -> None:
    async def respond(question: MessageEnvelope) -> Mapping[str, object]:
        return await (echo if question.payload.get("loop_id") == "loop_2" else fails)(question)

    async with responding(bus, respond):
        with pytest.raises(QueryRefused, match="the responder failed"):
            await bus.query("status", QUESTION, timeout=60)
        second = an_envelope(message_type="LoopStatus", payload={"loop_id": "loop_2"})
        assert await bus.query("status", second) == {"heard": {"loop_id": "loop_2"}}
