"""A service with `POST /handle`, as docs/reference/requirements.md#sd-32 wants it: what the tests,
the README and a first try talk to.

    uvicorn router.sdk.samples.service:app --port 8000

It remembers which message ids it has handled and says 409 to those; an event can ask for any other
answer by its payload: `{"answer": 422}` is refused as poison, `{"answer": 503}` fails. A real
service keeps its memory in its database, in the transaction of the effect: this one forgets when it
ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

REQUIRED_FIELDS = ("message_id", "subject", "event_type", "event_version", "occurred_at", "payload")


class SampleService:
    """`handled`: how often each message id had its effect; `calls`: how often the service was
    called with it.
    """

    def __init__(self) -> None:
        self.handled: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.app = Starlette(routes=[Route("/handle", self._handle, methods=["POST"])])

    async def _handle(self, request: Request) -> Response:
        event = await request.json()
        if any(name not in event for name in REQUIRED_FIELDS):
            return Response(status_code=422)
        return Response(status_code=await self._choose_status(event))

    async def _choose_status(self, event: dict[str, Any]) -> int:
        message_id, wish = (
            event["message_id"],
            event["payload"] if isinstance(event["payload"], dict) else {},
        )
        self.calls[message_id] += 1
        await asyncio.sleep(wish.get("seconds", 0))
        if "answer" in wish:
            return int(wish["answer"])
        if message_id in self.handled:
            return 409
        self.handled[message_id] += 1
        return 200


app = SampleService().app
