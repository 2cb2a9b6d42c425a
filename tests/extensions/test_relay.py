"""A provider's pieces become chunks, and every stream has an end that is told."""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct

from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.core.errors import (
    BrokerUnavailable,
    CallTimeout,
    ConnectionLost,
    NoResponders,
    Poison,
    RouterError,
    StreamOverrun,
)
from router.extensions.model.failure import ExtensionFailure, InvocationRefused, make_too_large
from router.extensions.model.invocation_answers import StreamRelay
from tests.support.ledgers import KeptLedger

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="r-1", trace_id="t-1")


class Piece(Struct):
    data: bytes
    headers: dict[str, str] = {}


async def heard(*pieces: bytes | Piece | RouterError) -> AsyncIterator[Piece]:
    for piece in pieces:
        if isinstance(piece, RouterError):
            raise piece
        yield piece if isinstance(piece, Piece) else Piece(piece)


async def relayed(
    *pieces: bytes | Piece | RouterError, ledger: KeptLedger | None = None
) -> tuple[list[StreamChunk], ExtensionFailure | None]:
    chunks: list[StreamChunk] = []
    times = iter([10.0, 10.25])
    failure = await StreamRelay(
        REQUEST, chunks.append, ledger or KeptLedger(), lambda: next(times)
    ).run(heard(*pieces))
    return chunks, failure


async def test_chunks_have_the_requests_id_and_the_last_one_tells_how_many_there_were() -> None:
    chunks, failure = await relayed(
        b'{"data": "a", "done": false}', b'{"data": "b", "done": true, "metadata": {"cost": 1}}'
    )
    assert failure is None
    assert [(chunk.request_id, chunk.data, chunk.done) for chunk in chunks] == [
        ("r-1", "a", False),
        ("r-1", "b", True),
    ]
    assert chunks[1].metadata == {
        "status": "success",
        "cost": "1",
        "latency_ms": "250",
        "chunks": "2",
    }


async def test_what_comes_after_the_last_chunk_is_not_passed_on() -> None:
    chunks, _ = await relayed(b'{"done": true}', b'{"data": "late", "done": false}')
    assert len(chunks) == 1


@pytest.mark.parametrize(
    ("read", "counted"),
    [
        # cut: the last one may still tell what it used
        ([b'{"data": "a", "done": false}'], ["a", "b", "c"]),
        ([b'{"data": "a", "done": true}'], ["a"]),
        ([b'{"data": "a", "done": false}', Piece(b"", {"Nats-Service-Error-Code": "503"})], ["a"]),
        ([b"garbage"], []),
    ],
)
async def test_what_was_not_passed_on_counts_up_to_its_providers_last_word(
    read: list[bytes | Piece], counted: list[str]
) -> None:
    ledger, chunks = KeptLedger(), list[StreamChunk]()
    relay = StreamRelay(REQUEST, chunks.append, ledger)
    await relay.run(heard(*read))
    count = len(chunks)
    for piece in (
        b'{"data": "b", "done": false}',
        b'{"data": "c", "done": true}',
        b'{"data": "d", "done": false}',
    ):
        relay.count_unread(Piece(piece))
    assert (ledger.taken, len(chunks)) == (counted, count)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (CallTimeout("silent"), ("timeout", "extension_timeout", None, True)),
        (NoResponders("no service"), ("error", "extension_unavailable", None, True)),
        (BrokerUnavailable("lost"), ("error", "extension_unavailable", None, False)),
        (
            Poison("a request too large for the server"),
            ("error", "extension_error", "request", False),
        ),
        (b"garbage", ("error", "extension_error", "answer", True)),
        (b'{"output": "x", "provider_id": "other"}', ("error", "extension_error", "answer", True)),
        (
            Piece(b"", {"Nats-Service-Error-Code": "422"}),
            ("error", "extension_error", "request", False),
        ),
        (
            Piece(b"", {"Nats-Service-Error-Code": "404"}),
            ("error", "extension_error", "service", True),
        ),
        (
            Piece(b"", {"Nats-Service-Error-Code": "404", "Router-Fault": "request"}),
            ("error", "extension_error", "request", False),
        ),
        (
            Piece(b"", {"Nats-Service-Error-Code": "429"}),
            ("error", "extension_error", "rate_limit", False),
        ),
        (
            b'{"done": true, "metadata": {"status": "error", "fault": "rate_limit"}}',
            ("error", "extension_error", "rate_limit", False),
        ),
        (
            Piece(b"", {"Nats-Service-Error-Code": "503"}),
            ("error", "extension_error", "service", True),
        ),
        (
            Piece(b"", {"Nats-Service-Error": "no number"}),
            ("error", "extension_error", "service", True),
        ),
        (
            b'{"done": true, "metadata": {"status": "error", "error_code": "boom"}}',
            ("error", "extension_error", "service", True),
        ),
        (StreamOverrun("8 MiB behind"), ("error", "stream_overrun", None, False)),
        (
            b'{"done": true, "metadata": {"status": "error", "fault": "request"}}',
            ("error", "extension_error", "request", False),
        ),
    ],
)
async def test_a_stream_that_fails_ends_with_a_chunk_that_says_whose_fault_it_was(
    end: bytes | Piece | RouterError, told: tuple[str, str, str | None, bool]
) -> None:
    chunks, failure = await relayed(b'{"data": "a", "done": false}', end)
    last = chunks[-1]
    assert failure is not None
    assert (last.done, last.metadata["chunks"]) == (True, "2")
    assert (
        last.metadata["status"],
        last.metadata["error_code"],
        last.metadata.get("fault"),
        failure.is_callees,
    ) == told


@pytest.mark.parametrize(
    "end",
    [
        Piece(b"", {"Nats-Service-Error-Code": "503", "Nats-Service-Error": "x" * 300}),
        b'{"done": true, "metadata": {"status": "error", "error_message": "%b"}}' % (b"x" * 300),
    ],
)
async def test_a_providers_own_words_are_told_up_to_two_hundred_characters(
    end: bytes | Piece,
) -> None:
    chunks, _ = await relayed(end)
    assert len(chunks[-1].metadata["error_message"]) == 200


@pytest.mark.parametrize("done", [b"false", b"true"])
async def test_a_piece_that_cannot_be_sent_ends_the_stream_and_is_not_counted(done: bytes) -> None:
    chunks: list[StreamChunk] = []

    def send(chunk: StreamChunk) -> None:
        if chunk.data == "large":
            raise make_too_large()
        chunks.append(chunk)

    failure = await StreamRelay(REQUEST, send, KeptLedger()).run(
        heard(b'{"data": "a", "done": false}', b'{"data": "large", "done": %b}' % done)
    )
    assert failure is not None
    assert [(chunk.data, chunk.done) for chunk in chunks] == [("a", False), ("", True)]
    assert (
        chunks[-1].metadata["error_code"],
        chunks[-1].metadata["chunks"],
        failure.is_callees,
    ) == ("extension_error", "2", False)


@pytest.mark.parametrize(
    ("end", "is_sent"),
    [
        (NoResponders("no service"), False),
        (BrokerUnavailable("not connected"), False),
        (Poison("a request too large for the server"), False),
        (ConnectionLost("lost"), True),
        (CallTimeout("silent"), True),
        (b"garbage", True),
        (Piece(b"", {"Nats-Service-Error-Code": "404"}), True),
    ],
)
async def test_a_stream_that_fails_before_its_first_piece_says_whether_it_was_asked_for(
    end: bytes | Piece | RouterError, is_sent: bool
) -> None:
    _, failure = await relayed(end)
    assert failure is not None
    assert failure.was_sent == is_sent


async def test_a_stream_whose_budget_is_spent_ends_with_a_chunk_that_says_so_and_what_was_passed_on_is_counted() -> (
    None
):
    spent = InvocationRefused(
        "budget_exceeded", "no room", {"budget": "month", "left": "0"}, was_sent=True
    )
    ledger = KeptLedger(most=1, spent=spent)
    chunks, failure = await relayed(
        *[b'{"data": "%d", "done": false}' % number for number in range(5)], ledger=ledger
    )
    assert [(chunk.data, chunk.done) for chunk in chunks] == [
        ("0", False),
        ("1", False),
        ("", True),
    ]
    assert ledger.taken == ["0", "1"]
    last = chunks[-1].metadata
    assert (last["status"], last["error_code"], last["budget"], last["left"]) == (
        "error",
        "budget_exceeded",
        "month",
        "0",
    )
    assert failure is not None
    assert (failure.is_callees, failure.is_answer, failure.was_sent) == (False, False, True)
