"""Send many requests to JetStream's API at once, with replies by callback: a future and a timer for each would cost three times as much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from router.core.errors import BrokerUnavailable
from router.delivery.api import JetStream
from router.delivery.frame_parser import Headers

REQUEST_TIMEOUT_S = 5.0


async def send_requests(jetstream: JetStream, what: str, bodies: Mapping[int, bytes]) -> dict[int, dict[str, Any]]:
    """The same request with each of these bodies: its answer, by the same key. Raises BrokerUnavailable when one does not come."""
    if not bodies:
        return {}
    connection, answers = jetstream.connection, dict[int, dict[str, Any]]()
    all_heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    inbox = connection.new_inbox() + "."

    def hear(subject: str, _: str, data: bytes, __: Headers | None) -> None:
        answers[int(subject[len(inbox) :])] = orjson.loads(data or b"{}")  # empty: no server answers the API
        if len(answers) == len(bodies) and not all_heard.done():
            all_heard.set_result(None)

    sid = await connection.subscribe_direct(inbox + "*", hear)
    subject = f"{jetstream.prefix}.{what}"
    try:
        with connection.denials.watch(subject, all_heard):
            for key, body in bodies.items():
                connection.publish_nowait(subject, body, f"{inbox}{key}")
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await all_heard
    except TimeoutError as exc:
        raise BrokerUnavailable(f"no answer on {what} for {len(bodies) - len(answers)} of {len(bodies)} requests") from exc
    finally:
        await connection.unsubscribe(sid)
    return answers
