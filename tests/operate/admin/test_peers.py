"""Asking every instance: the first that knows wins."""

import asyncio

import orjson

from router.delivery.wire.connection import Connection
from router.operate.admin.broadcast import Peers
from router.operate.admin.request_guard import PROOF, Proofs


async def answering(connection: Connection, subject: str, *answers: bytes) -> None:
    """One peer for each answer."""
    for answer in answers:
        await connection.subscribe_direct(
            subject,
            lambda _s, reply, _d, _h, answer=answer: connection.publish_nowait(reply, answer),
        )  # type: ignore[misc]


async def test_the_one_that_knows_wins_over_those_that_do_not(
    connection: Connection, prefix: str
) -> None:
    await answering(connection, prefix, b'{"ok":false}', b"no json", b"[]", b'{"ok":true,"a":1}')
    assert await Peers(connection, None, 5.0).ask_first(prefix, {}) == {"ok": True, "a": 1}


async def test_without_an_answer_it_takes_no_longer_than_allowed(
    connection: Connection, prefix: str
) -> None:
    await answering(connection, prefix, b'{"ok":false}')
    async with asyncio.timeout(60):
        assert await Peers(connection, None, 0.05).ask_first(prefix, {}) is None


async def test_the_question_goes_along_with_a_proof_of_the_key_for_this_inbox(
    connection: Connection, prefix: str
) -> None:
    heard: list[tuple[str, bytes, dict[str, str]]] = []
    proofs = Proofs(b"sesame")

    def hear(_subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> None:
        heard.append((reply, data, headers or {}))
        connection.publish_nowait(reply, b'{"ok":true}')

    await connection.subscribe_direct(prefix, hear)
    await Peers(connection, proofs, 5.0).ask_first(prefix, {"tenant_id": "acme"})
    ((inbox, data, headers),) = heard
    assert (data, set(headers)) == (orjson.dumps({"tenant_id": "acme"}), {PROOF})
    assert proofs.is_valid(headers[PROOF], prefix, inbox, data)


async def test_its_inbox_is_left_behind_empty(connection: Connection, prefix: str) -> None:
    before = len(connection.callbacks)
    await Peers(connection, None, 0.01).ask_first(prefix, {})
    assert len(connection.callbacks) == before


async def test_all_that_answer_in_time_are_heard(connection: Connection, prefix: str) -> None:
    await answering(
        connection, prefix, b'{"ok":false}', b"no json", b'{"ok":true,"a":1}', b'{"ok":true,"a":2}'
    )
    assert sorted(
        answer["a"] for answer in await Peers(connection, None, 2.0).ask_all(prefix, {})
    ) == [1, 2]
