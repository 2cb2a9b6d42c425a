"""Whether a stream or a consumer of a cluster can store anything, read from its info.

A server answers for both also where nothing can be stored: any member for a stream without a leader, and a leader whose followers do not
answer, for ten to twenty seconds, until it steps down.
"""

from __future__ import annotations

from typing import Any

FOLLOWER_SILENCE_NS = 4_000_000_000  # followers answer their leader every second


def find_lost_quorum(name: str, info: dict[str, Any]) -> str | None:
    """Why `name` can store nothing. None: it can, or it has one copy."""
    cluster = info.get("cluster") or {}
    followers = cluster.get("replicas") or ()
    if not followers:
        return None
    if not cluster.get("leader"):
        return f"{name} has no leader: the cluster lost its quorum, or elects one"
    copies = 1 + len(followers)
    answering = 1 + sum(one["active"] < FOLLOWER_SILENCE_NS and not one.get("offline", False) for one in followers)
    if 2 * answering > copies:
        return None
    return f"{name} lost its quorum: {answering} of its {copies} servers answer each other"
