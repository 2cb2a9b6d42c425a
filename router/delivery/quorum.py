"""Whether a stream or a consumer of a cluster can store anything, read from its info.

A server answers for both also where nothing can be stored: any member for a stream without a leader, and a leader whose followers do not
answer, for ten to twenty seconds, until it steps down.
"""

from __future__ import annotations

from typing import Any

from router.core.errors import NoLeader, QuorumLost

FOLLOWER_SILENCE_NS = 3_000_000_000  # followers answer their leader every second


def require_quorum(name: str, info: dict[str, Any]) -> None:
    """Raises NoLeader or QuorumLost if `name` can store nothing. A stream with one copy has neither leader nor followers in its info."""
    cluster = info.get("cluster") or {}
    followers = cluster.get("replicas") or ()
    if not followers:
        return
    if not cluster.get("leader"):
        raise NoLeader(f"{name} has no leader: the cluster lost its quorum, or elects one")
    copies = 1 + len(followers)
    answering = 1 + sum(one["active"] < FOLLOWER_SILENCE_NS and not one.get("offline", False) for one in followers)
    if 2 * answering <= copies:
        raise QuorumLost(f"{name} lost its quorum: {answering} of its {copies} servers answer each other")
