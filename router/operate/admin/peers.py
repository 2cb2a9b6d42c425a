"""Sends a request to all instances at once: returns the first good answer, or all of them. No
answer counts as "not found".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frame_parser import Headers
from router.operate.admin.proof import PROOF, Proofs
from router.operate.admin.service import Answer

MAX_PEER_ANSWERS = 256  # instances whose answers are read


class Peers:
    """The instances that serve a subject, including this one. `within_s`: how long they may take.

    `proofs`: if there is an api_key. The key itself is never sent, because every subscriber of the
    subject would receive it.
    """

    def __init__(
        self, connection: Connection, proofs: Proofs | None, within_s: float = 0.25
    ) -> None:
        self._connection = connection
        self._proofs = proofs
        self._within_s = within_s

    async def ask_first(self, subject: str, asked: Mapping[str, object]) -> Answer | None:
        """The first answer that is ok; None when there was none in time."""
        found: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def keep(answer: Mapping[str, Any]) -> None:
            if not found.done():
                found.set_result(answer)

        await self._ask(subject, asked, keep, found)
        return found.result() if found.done() else None

    async def ask_all(self, subject: str, asked: Mapping[str, object]) -> list[Mapping[str, Any]]:
        """All answers that are ok, at most MAX_PEER_ANSWERS. It waits the whole time, because the
        number of instances is not known.
        """
        answers: list[Mapping[str, Any]] = []
        full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def keep(answer: Mapping[str, Any]) -> None:
            if len(answers) < MAX_PEER_ANSWERS:
                answers.append(answer)

        await self._ask(subject, asked, keep, full)
        return answers

    async def _ask(
        self,
        subject: str,
        asked: Mapping[str, object],
        keep: Callable[[Mapping[str, Any]], None],
        until: asyncio.Future[Any],
    ) -> None:
        """Call `keep` with each answer that is ok, until the time is over or `until` is done."""

        def hear(_subject: str, _reply: str, data: bytes, _headers: Headers | None) -> None:
            answer = _read(data)
            if answer.get("ok") is True:
                keep(answer)

        inbox, question = self._connection.new_inbox(), orjson.dumps(asked)
        head = (
            head_of({PROOF: self._proofs.make(subject, inbox, question)})
            if self._proofs is not None
            else b""
        )
        sid = await self._connection.subscribe_direct(inbox, hear)
        try:
            self._connection.publish_nowait(subject, question, inbox, head)
            await asyncio.wait({until}, timeout=self._within_s)
        finally:
            await self._connection.unsubscribe(sid)


def _read(data: bytes) -> Mapping[str, Any]:
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}
