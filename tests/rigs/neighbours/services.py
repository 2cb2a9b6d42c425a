"""Services that the router calls: an extension that hangs, is late or answers at once; a provider
that trickles or answers.

`delay_s` below zero: it hears, and never answers.
"""

from __future__ import annotations

import time
from collections import deque

import orjson

from tests.rigs.neighbours.play import Cue
from tests.rigs.neighbours.wire import Incoming, Wire, publish_frame

TURN_S = 0.02
TRICKLE_S = 0.5  # between two chunks of a stream


def serve_extension(cue: Cue, *, url: str, subject: str, delay_s: float) -> dict[str, object]:
    """A pre-processor that changes nothing."""
    wire = Wire(url)
    wire.subscribe(subject, "extension")
    wire.flush(1)
    cue.wait_for_go()
    heard = answered = 0
    due: deque[tuple[float, Incoming]] = deque()
    while not cue.is_stopped:
        now = time.monotonic()
        wait_s = min(TURN_S, max(0.0, due[0][0] - now)) if due else TURN_S
        for message in wire.pump(wait_s):
            heard += 1
            if delay_s >= 0:
                due.append((time.monotonic() + delay_s, message))
        while due and due[0][0] <= time.monotonic():
            _, (_, reply, body) = due.popleft()
            wire.publish_nowait(
                publish_frame(
                    reply, orjson.dumps({"payload": orjson.loads(body)["payload"], "metadata": {}})
                )
            )
            answered += 1
    return {"heard": heard, "answered": answered}


def serve_provider(cue: Cue, *, url: str, name: str) -> dict[str, object]:
    """`honest` answers once; `trickle` sends a chunk to each of its streams from time to time, and
    never the last one.
    """
    wire = Wire(url)
    wire.subscribe(f"beamline.provider.{name}.v1", "provider")
    wire.flush(1)
    cue.wait_for_go()
    answered = chunks = 0
    streams: deque[tuple[float, str]] = deque()
    while not cue.is_stopped:
        for _, reply, _ in wire.pump(TURN_S):
            if name == "honest":
                wire.publish_nowait(
                    publish_frame(
                        reply,
                        orjson.dumps(
                            {"provider_id": name, "output": "hello", "usage": {}, "metadata": {}}
                        ),
                    )
                )
                answered += 1
            else:
                streams.append((time.monotonic(), reply))
        while streams and streams[0][0] <= time.monotonic():
            _, reply = streams.popleft()
            wire.publish_nowait(
                publish_frame(reply, orjson.dumps({"data": "word ", "done": False}))
            )
            chunks += 1
            streams.append((time.monotonic() + TRICKLE_S, reply))
    return {"answered": answered, "chunks": chunks, "streams": len(streams)}
