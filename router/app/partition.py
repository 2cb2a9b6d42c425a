"""Which part of the decide requests this instance takes: all of them, or one partition (docs/contracts.md#partitions).

    beamline.router.v1.decide ── the account's mapping ──> beamline.router.v1.decide.p.0   in ROUTER_DECIDE_P0
                                                      └──> beamline.router.v1.decide.p.1   in ROUTER_DECIDE_P1

The server gives the copy that is stored and the copy that listeners hear the same partition, so an instance hears no request
but its own. Nobody outside knows of partitions: a message is said to have come on `decide.subject`, and that is what letters, the
allow list and the reply subject go by.
"""

from __future__ import annotations

from router.config import Settings, StreamConfig


def taken_subject(settings: Settings) -> str:
    """The subject that this instance's requests are stored and heard on."""
    decide = settings.decide
    return decide.subject if decide.partition is None else f"{decide.subject}.p.{decide.partition}"


def taken_stream(settings: Settings) -> StreamConfig:
    """The stream that they stand in."""
    stream, partition = settings.streams.decide, settings.decide.partition
    return stream if partition is None else stream.model_copy(update={"name": f"{stream.name}_P{partition}"})
