"""Which messages name a tenant, also those that are no event."""

import pyarrow as pa

from router.lake.tables.tenants import find_messages_of

TYPES = pa.schema(
    [
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)


def find(*bodies: bytes) -> list[int]:
    rows = [
        {"seq": place, "time": 0, "headers": [], "data": body}
        for place, body in enumerate(bodies, 1)
    ]
    found = find_messages_of(pa.RecordBatch.from_pylist(rows, schema=TYPES), "acme", None)
    return found.own.to_pylist()


def test_a_message_that_is_no_text_hides_no_other_one() -> None:
    """Its bytes ended the erasure."""
    assert find(
        b'{"tenant_id":"\xff"}',
        b'{"tenant_id":"acme"}',
        b'{"tenant_id":"\xff","note":{"tenant_id":"acme"}}',
    ) == [2, 3]
