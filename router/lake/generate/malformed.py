"""Make bodies that are no usage events, each for another reason. The lake puts them into quarantine with the reason."""

from __future__ import annotations

from collections.abc import Callable

import orjson

_DAMAGES: tuple[Callable[[dict[str, object]], bytes], ...] = (
    lambda body: orjson.dumps(body)[:-20],
    lambda _: b"",
    lambda body: b"\xff\xfe" + orjson.dumps(body),
    lambda body: orjson.dumps([body]),
    lambda body: _drop_fields(body, "tenant_id"),
    lambda body: _drop_fields(body, "timestamp"),
    lambda body: _drop_fields(body, "assignment_id", "request_id"),
    lambda body: orjson.dumps({**body, "cost": "free"}),
    lambda body: orjson.dumps({**body, "latency_ms": "slow"}),
    lambda body: orjson.dumps({**body, "provider_id": None}),
)


def damage(body: bytes, which: int) -> bytes:
    """Damage the body of a good event in one of ten ways."""
    return _DAMAGES[which % len(_DAMAGES)](orjson.loads(body))


def _drop_fields(body: dict[str, object], *names: str) -> bytes:
    return orjson.dumps({name: value for name, value in body.items() if name not in names})
