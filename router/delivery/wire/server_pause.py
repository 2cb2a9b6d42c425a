"""Whether the server holds a durable back: `nats consumer pause`, legal since server 2.11
(docs/reference/contracts.md#consumer-paused).

Pull requests stay open and heartbeats go on, so nothing but the durable's info tells: `paused`,
`pause_remaining`, and `pause_until` in its configuration
(https://docs.nats.io/reference/reference-protocols/nats_api_reference). So a consumer to which
nothing was delivered for a while asks for it.
"""

from __future__ import annotations

from router.core.errors import RouterError
from router.delivery.wire.api import JetStream, Json

LOOK_AFTER_S = 5.0  # without a delivery
LOOK_AGAIN_S = 1.0  # while it is paused


def describe_pause(stream: str, durable: str, info: Json) -> str | None:
    """Until when, and what ends it; None: it is not paused."""
    if not info.get("paused"):
        return None
    until = info["config"].get("pause_until", "")
    return (
        f"the durable {durable} is paused until {until or 'an unknown time'}: `nats consumer "
        f"resume {stream} {durable}`"
    )


class ServerPause:
    """The last that is known of one durable. Times are the event loop's, seconds."""

    def __init__(self, jetstream: JetStream, stream: str, durable: str) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._durable = durable
        self._progress: tuple[int, int] = (0, 0)
        self._moved_at = self._looked_at = 0.0
        self.cause: str | None = None

    def on_info(self, info: Json) -> bool:
        """Take what the server told; whether that is news."""
        before, self.cause = self.cause, describe_pause(self._stream, self._durable, info)
        return before != self.cause

    def is_due(self, progress: tuple[int, int], now: float) -> bool:
        """Whether the server should be asked. `progress` changes with each delivery and each pull
        request.
        """
        if progress != self._progress:
            self._progress, self._moved_at = progress, now
            return self.cause is not None  # something was delivered: it may be resumed
        every = LOOK_AFTER_S if self.cause is None else LOOK_AGAIN_S
        return now - max(self._moved_at, self._looked_at) > every

    async def look(self, now: float) -> bool:
        """Ask; whether that is news. A server that does not answer is told elsewhere."""
        self._looked_at = now
        try:
            info = await self._jetstream.consumer(self._stream, self._durable)
        except RouterError:
            return False
        return info is not None and self.on_info(info)
