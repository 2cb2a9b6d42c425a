"""A breaker's record in its bucket: read back as written, and nothing else is taken for one."""

import orjson
import pytest

from router.contracts.stored_record import record_bytes
from router.core.errors import Poison
from router.policies.model.breakers import BreakerRecord, breaker_key, read_breaker_record

RECORD = BreakerRecord(
    tenant_id="a.b", provider_id="c:d", state="open", opened_at_ms=1, until_ms=2, node="n", life="l"
)
KEY = breaker_key("a.b", "c:d")


def test_a_record_is_read_back_under_a_key_that_no_other_pair_has() -> None:
    assert read_breaker_record(KEY, record_bytes(RECORD)) == RECORD
    assert KEY == "a=2Eb.c=3Ad"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"junk",
        b'{"node":"\xff"}',
        b'{"x":' + b"[" * 100_000,
        b"[]",
        b"{}",
        *(
            orjson.dumps({**orjson.loads(record_bytes(RECORD)), **wrong})
            for wrong in (
                {"state": "half_open"},
                {"until_ms": -1},
                {"until_ms": "soon"},
                {"tenant_id": None},
                {"provider_id": "other"},
            )
        ),
    ],
)
def test_what_no_router_wrote_is_refused(broken: bytes) -> None:
    with pytest.raises(Poison):
        read_breaker_record(KEY, broken)
