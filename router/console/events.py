"""Events to a browser that stays: pings, and a limit of time for each send."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.responses import Response

SEND_WITHIN_S = 10.0  # a browser that does not take an event within this is cut off
PING_EVERY_S = 15


def answer_with_events(events: AsyncIterator[dict[str, str]]) -> Response:
    response: Response = EventSourceResponse(events, ping=PING_EVERY_S, send_timeout=SEND_WITHIN_S)
    return response
