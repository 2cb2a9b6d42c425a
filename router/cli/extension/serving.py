"""How many services answer for each extension, by the NATS service protocol: `$SRV.PING.{id}`.

What is served by `router.extension` answers it, and so does any service made with a NATS library's micro API. A plain subscriber does
not, so none found does not prove that nobody serves it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from router.delivery.connection import Connection

WAIT_S = 0.3
MOST_ANSWERS = 10_000


async def count_services(connection: Connection, names: Iterable[str]) -> Mapping[str, int]:
    """By name, of those that answer within `WAIT_S`; 0 where none did."""
    heard: Counter[str] = Counter(dict.fromkeys(names, 0))

    def hear(_subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        name = _name_of(data)
        if name in heard and heard.total() < MOST_ANSWERS:
            heard[name] += 1

    inbox = connection.new_inbox()
    sid = await connection.subscribe_direct(inbox, hear)
    try:
        for name in heard:
            connection.publish_nowait(f"$SRV.PING.{name}", reply=inbox)
        await asyncio.sleep(WAIT_S)
    finally:
        await connection.unsubscribe(sid)
    return heard


def _name_of(data: bytes) -> str:
    """The server's own word that no service is there has no body."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ""
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else ""
