"""Whether a stream or a consumer of a cluster can store anything, read from its info.

A server answers for both also where nothing can be stored: any member for a stream without a
leader, and a leader whose followers do not answer, for ten to twenty seconds, until it steps down.
"""

from __future__ import annotations

import asyncio
from typing import Any

from router.core.clock import Clock, steady
from router.core.errors import NoLeader, QuorumLost, RouterError
from router.delivery.wire.api import JetStream

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
        one["active"] < FOLLOWER_SILENCE_NS and not one.get("offline", False) for one in followers
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
