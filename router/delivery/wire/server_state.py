"""What an info says of a server's part: whether it can store anything, and whether it holds a
durable back.

A server answers for both also where nothing can be stored: any member for a stream without a
leader, and a leader whose followers do not answer, for ten to twenty seconds, until it steps down.
"""

from __future__ import annotations

import asyncio
from typing import Any

from router.core.clock import Clock, steady
from router.core.errors import NoLeader, QuorumLost, RouterError
from router.delivery.wire.api import JetStream, Json

FOLLOWER_SILENCE_NS = 3_000_000_000  # followers answer their leader every second
ANSWER_S = 2.0  # a server without a leader answers nothing
ELECTION_S = 7.0  # so long the election of a leader takes, with its whole cluster at hand


def require_quorum(name: str, info: dict[str, Any]) -> None:
    """Raises NoLeader or QuorumLost if `name` can store nothing. A stream with one copy has neither
    leader nor followers in its info.
    """
    cluster = info.get("cluster") or {}
    followers = cluster.get("replicas") or ()
    if not followers:
        return
    if not cluster.get("leader"):
        raise NoLeader(f"{name} has no leader: the cluster lost its quorum, or elects one")
    copies = 1 + len(followers)
    answering = 1 + sum(
        follower["active"] < FOLLOWER_SILENCE_NS and not follower.get("offline", False)
        for follower in followers
    )
    if 2 * answering <= copies:
        raise QuorumLost(
            f"{name} lost its quorum: {answering} of its {copies} servers answer each other"
        )


class CutOffWatch:
    """For a process that only publishes: it leaves a server that is cut off from the others. A
    consumer sees to that by itself.
    """

    def __init__(self, jetstream: JetStream, stream: str, now: Clock = steady) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._now = now
        self._without_leader_since: float | None = None

    async def look(self, since: float) -> None:
        """Call it when the broker did not take a message, with the time (steady seconds) at which
        that was tried. Asks for one info.
        """
        if not self._jetstream.connection.is_connected:
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                info = await self._jetstream.stream(self._stream) or {}
            require_quorum(f"stream {self._stream}", info)
        except QuorumLost:
            await self._jetstream.connection.leave_server()
        except (NoLeader, TimeoutError):
            if self._without_leader_since is None:
                self._without_leader_since = since
            if self._now() - self._without_leader_since > ELECTION_S:
                await self._jetstream.connection.leave_server()
        except RouterError:  # it says nothing about this server
            pass
        else:
            self._without_leader_since = None


# -- Whether the server holds a durable back: `nats consumer pause`, legal since server 2.11
# (docs/reference/contracts.md#consumer-paused).
#
# Pull requests stay open and heartbeats go on, so nothing but the durable's info tells: `paused`,
# `pause_remaining`, and `pause_until` in its configuration
# (https://docs.nats.io/reference/reference-protocols/nats_api_reference). So a consumer to which
# nothing was delivered for a while asks for it.


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
