"""Declare the stream of a context's events (docs/reference/requirements.md#sd-29);
`inbox.dead_letters` declares the one of its dead letters.
"""

from __future__ import annotations

from router.delivery.wire.topology import StreamSpec

DAY = 86_400.0
GIB = 1024**3


def events_stream(
    context: str,
    name: str | None = None,
    *,
    max_age: float = 7 * DAY,
    max_bytes: int = 10 * GIB,
    window: float = 3600.0,
    replicas: int = 1,
) -> StreamSpec:
    """`{CONTEXT}_EVENTS` on `{context}.event.>`. Seconds and bytes; the specification's figures,
    three replicas in production.
    """
    return StreamSpec(
        name=name or f"{context.upper()}_EVENTS",
        subjects=(f"{context}.event.>",),
        max_age=max_age,
        max_bytes=max_bytes,
        duplicate_window=window,
        replicas=replicas,
        allow_atomic=True,
    )
