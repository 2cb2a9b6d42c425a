"""Whatever arrives, reading it ends in a RequestReading."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.decision import RouteRequest
from router.core.ids import is_opaque, is_scoped
from router.core.outcome import Fault
from router.decide.model.read import RequestLimits, RequestReading, read
from tests.support.requests import GOOD_HEADERS, a_message, a_protobuf

NAMES = [
    *RouteRequest.__struct_fields__,
    "message",
    "task",
    "type",
    "payload_encoding",
    "version",
    "schema_version",
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
)
words = st.sampled_from(["", "acme", "1", "2", "chat", "base64", "true", "a b", "../x", "x" * 300])
fields = st.sampled_from(NAMES) | st.text(max_size=4)
objects = st.deferred(lambda: st.dictionaries(fields, values, max_size=6))
values = scalars | words | st.lists(scalars, max_size=2) | objects
bodies = st.dictionaries(fields, values, max_size=10)
texts = words | st.text(max_size=10) | st.text(st.characters(categories=["Cs", "Cc"]), max_size=4)
headers = st.dictionaries(
    st.sampled_from(
        [*GOOD_HEADERS, "traceparent", "cp_phase", "Accept", "request_id", "push_assignment"]
    )
    | texts,
    texts,
    max_size=6,
)
limits = st.builds(
    RequestLimits, strict=st.booleans(), max_payload_bytes=st.sampled_from([20, 1 << 20])
)


def is_sound(seen: RequestReading) -> None:
    assert isinstance(seen.asked, RouteRequest | Fault)
    assert is_opaque(seen.answer_id)
    assert seen.tenant_id is None or is_scoped(seen.tenant_id)
    assert seen.trace_id is None or is_opaque(seen.trace_id)


@given(st.binary(max_size=80), headers, limits)
def test_any_bytes_are_read(
    data: bytes, given_headers: dict[str, str], bounds: RequestLimits
) -> None:
    is_sound(read(a_message(data, given_headers), bounds))


@given(bodies, headers, limits)
def test_any_object_is_read(
    body: dict[str, object], given_headers: dict[str, str], bounds: RequestLimits
) -> None:
    is_sound(read(a_message(orjson.dumps(body), given_headers), bounds))


@given(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=5),
    st.integers(0, 200),
    st.binary(max_size=3),
)
def test_a_valid_request_with_any_damage_is_read(
    damage: dict[str, object], at: int, bytes_in: bytes
) -> None:
    message = {"tenant_id": "acme", "message_type": "chat", "payload": "hello"}
    for body in ({"message": {**message, **damage}}, {**message, **damage}):
        data = orjson.dumps(body)
        is_sound(read(a_message(data)))
        is_sound(read(a_message(data[:at] + bytes_in + data[at + 1 :])))


@given(st.integers(0, 90), st.binary(max_size=4), st.booleans())
def test_damaged_protobuf_is_read(at: int, bytes_in: bytes, is_cut: bool) -> None:
    data = a_protobuf()
    is_sound(read(a_message(data[:at] + bytes_in + (b"" if is_cut else data[at:]))))
