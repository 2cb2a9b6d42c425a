"""Which decide requests this instance handles: all of them, or one partition (docs/contracts.md#partitions).

    beamline.router.v1.decide ── the account's mapping ──> beamline.router.v1.decide.p.0   in ROUTER_DECIDE_P0
                                                      └──> beamline.router.v1.decide.p.1   in ROUTER_DECIDE_P1

The server maps the stored copy and the live copy of a request to the same partition, so the listener of an instance receives only the
requests of that partition. Clients do not see partitions: dead letters, the allow list and the reply subject use `decide.subject`.
"""

from __future__ import annotations

from router.config import Settings, StreamConfig


def taken_subject(settings: Settings) -> str:
    """The subject of the requests that this instance handles."""
    decide = settings.decide
    return decide.subject if decide.partition is None else f"{decide.subject}.p.{decide.partition}"


def taken_stream(settings: Settings) -> StreamConfig:
    """The stream that stores them."""
    stream, partition = settings.streams.decide, settings.decide.partition
    return stream if partition is None else stream.model_copy(update={"name": f"{stream.name}_P{partition}"})
