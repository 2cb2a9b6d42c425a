"""Two requests of one identity ask for the same whatever their trace fields are, also where a name
is written with escapes.
"""

import pytest

from router.contracts.content import TRACE_FIELDS, digest, is_same

PLAIN = b'{"request_id":"r-1","message":{"payload":"hello"}}'


PLACES = (
    '{"%s":"x","request_id":"r-1","message":{"payload":"hello"}}',
    '{"message":{"payload":"hello","%s":"x"},"request_id":"r-1"}',
)


@pytest.mark.parametrize("name", sorted(TRACE_FIELDS))
@pytest.mark.parametrize("place", PLACES)
def test_a_trace_field_changes_nothing(name: str, place: str) -> None:
    for written in (name, f"\\u{ord(name[0]):04x}{name[1:]}"):
        assert is_same((place % written).encode(), PLAIN)


def test_other_content_does() -> None:
    assert not is_same(PLAIN.replace(b"hello", b"hullo"), PLAIN)
    assert digest(PLAIN.replace(b"payload", b"spantrace")) != digest(PLAIN)
