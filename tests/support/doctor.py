"""Facts for the doctor: all is well unless a test says otherwise."""

from typing import Any

from router.delivery.wire.topology import ConsumerSpec, StreamSpec
from router.operate.doctor import (
    ConsumerFacts,
    Facts,
    Finding,
    PartitionFacts,
    ServerFacts,
    StreamFacts,
    SyncMode,
    examine,
)

NOW = 1_000_000.0
MIB = 1 << 20


def a_server(**facts: Any) -> ServerFacts:
    return ServerFacts(
        **{
            "version": (2, 11, 0),
            "has_jetstream": True,
            "max_payload": 8 * MIB,
            "sync": SyncMode(is_always=True),
            **facts,
        }
    )


def a_stream(name: str = "S", **facts: Any) -> StreamFacts:
    spec = StreamSpec(
        name=name, subjects=("s",), max_age=86_400.0, max_bytes=1000, duplicate_window=0.1
    )
    return StreamFacts(
        **{"spec": spec, "max_bytes": 1000, "max_age": 86_400.0, "duplicate_window": 0.1, **facts}
    )


def a_consumer(**facts: Any) -> ConsumerFacts:
    return ConsumerFacts(
        **{"spec": ConsumerSpec(stream="S", durable="c"), "waiting_pulls": 1, **facts}
    )


def a_partition(**facts: Any) -> PartitionFacts:
    return PartitionFacts(
        **{
            "name": "1",
            "waiting_pulls": 1,
            "holder": "node-b",
            "lease_age": 1.0,
            "standby_age": 10.0,
            **facts,
        }
    )


def some_facts(**facts: Any) -> Facts:
    given: dict[str, Any] = {
        "streams": (a_stream(),),
        "consumers": (a_consumer(),),
        "server": a_server(),
        "max_request": MIB,
        **facts,
    }
    return Facts(now=NOW, dead_letters="DLQ", **given)


def find_finding(check: str, **facts: Any) -> Finding:
    """The finding whose name begins so."""
    return next(
        finding for finding in examine(some_facts(**facts)) if finding.check.startswith(check)
    )
