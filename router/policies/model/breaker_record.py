"""How an opened or closed provider breaker, or a rate limit, stands in its bucket
(docs/reference/extensions.md#provider-breaker).

    {tenant_id, provider_id, state: open | closed | limited, opened_at_ms, until_ms, node, life}

Half open is never written: every instance comes to it by itself at `until_ms`, and probes are each
instance's own. A rate limit has a key of its own, because a provider may limit a tenant while its
breaker is open.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import orjson
from msgspec import Meta, Struct
from msgspec.structs import asdict

from router.contracts.codec import UNREADABLE_ERRORS
from router.core import ids
from router.core.errors import Poison

LIMITED = "limited"

_Moment = Annotated[int, Meta(ge=0)]  # milliseconds since the epoch


class BreakerRecord(Struct, frozen=True, kw_only=True):
    """One transition. `node` names the instance to people, `life` one process: a node's name may
    come back.
    """

    tenant_id: str
    provider_id: str
    state: Literal["open", "closed", "limited"]
    opened_at_ms: _Moment
    until_ms: _Moment  # no call before; 0 when closed
    node: str
    life: str


def breaker_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id)


def limit_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id, LIMITED)


def record_key(record: BreakerRecord) -> str:
    make_key = limit_key if record.state == LIMITED else breaker_key
    return make_key(record.tenant_id, record.provider_id)


def breaker_record_bytes(record: BreakerRecord) -> bytes:
    return orjson.dumps(asdict(record))


def read_breaker_record(key: str, data: bytes) -> BreakerRecord:
    """What stands under this key. Raises Poison for anything that no router wrote there."""
    try:
        record = _decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Poison(f"not a breaker's record: {exc}") from exc
    if record_key(record) != key:
        raise Poison("a breaker's record under another one's key")
    return record


_decode = msgspec.json.Decoder(BreakerRecord).decode
