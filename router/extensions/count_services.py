"""Count the services that answer for each extension, by the NATS service protocol:
`$SRV.PING.{id}`.

`router.sdk.extension` answers it, and so does every service made with a NATS library's micro API. A
plain subscriber does not, so a count of 0 does not prove that no process serves the extension.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

import orjson

from router.delivery.wire.connection import Connection

PING_TIMEOUT_S = 0.3
MOST_ANSWERS = 10_000


async def count_services(connection: Connection, names: Iterable[str]) -> Mapping[str, int]:
    """Count by name the services that answer within `PING_TIMEOUT_S`; 0 for a name without an
    answer.
    """
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))

    def hear(_subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        name = _read_name(data)
        if name in counts and counts.total() < MOST_ANSWERS:
            counts[name] += 1

    inbox = connection.new_inbox()
    sid = await connection.subscribe_direct(inbox, hear)
    try:
        for name in counts:
            connection.publish_nowait(f"$SRV.PING.{name}", reply=inbox)
        await asyncio.sleep(PING_TIMEOUT_S)
    finally:
        await connection.unsubscribe(sid)
    return counts


def _read_name(data: bytes) -> str:
    """Return the service's name. The server's own message that no service is there has no body."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ""
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else ""
