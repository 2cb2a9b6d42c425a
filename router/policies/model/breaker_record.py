"""How an opened or closed provider breaker, or a rate limit, stands in its bucket
(docs/reference/extensions.md#provider-breaker).

    {tenant_id, provider_id, state: open | closed | limited, opened_at_ms, until_ms, node, life}

Half open is never written: every instance comes to it by itself at `until_ms`, and probes are each
instance's own. A rate limit has a key of its own, because a provider may limit a tenant while its
breaker is open.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from router.contracts.stored_record import KeyedRecord
from router.core import ids

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

    @property
    def key(self) -> str:
        make_key = limit_key if self.state == LIMITED else breaker_key
        return make_key(self.tenant_id, self.provider_id)


def breaker_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id)


def limit_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id, LIMITED)


read_breaker_record = KeyedRecord(BreakerRecord, "a breaker's record").read
