"""A message declared by a spec: its Struct and its fields are all that its reader is made of."""

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from router.contracts import field_kinds as kind
from router.contracts.malformed import Malformed
from router.contracts.message_spec import Field, MessageSpec, build_plain, build_reader, build_wire
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.worker import Received


class Parcel(Struct, kw_only=True):
    weight: int | None = None
    body: str | None = None
    sent: str | None = None
    parcel_id: str | None = None
    size: int
    tenant_id: str | None = None


PARCEL = MessageSpec(
    name="parcel",
    title="Parcel",
    text="A parcel.",
    page="none",
    made=Parcel,
    fields=(
        Field("size", kind.build_whole(10)),
        Field("weight", kind.build_whole(10)),
        Field("body", kind.NAME),
        Field("sent", kind.NAME),
        Field("parcel_id", kind.OPTIONAL_ID),
    ),
    ids=("parcel_id",),
    first=("size",),
)
read = build_reader(PARCEL)
WHOLE = {"parcel_id": "p-1", "size": 3, "weight": 2, "body": "glass", "sent": "today"}


def test_a_field_may_have_any_name_and_the_header_goes_first() -> None:
    parcel = read(Received({**WHOLE, "tenant_id": "acme"}, {"tenant_id": "beta"}))
    assert parcel == Parcel(**{**WHOLE, "tenant_id": "beta"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"parcel_id": "a b", "size": None, "weight": -1}, "parcel_id"),
        ({"parcel_id": "", "size": -1}, "parcel_id"),
        ({"size": None, "weight": -1}, "size"),
        ({"weight": 11, "sent": 1}, "weight"),
    ],
)
def test_of_two_wrong_fields_the_one_that_is_read_first_is_named(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Malformed) as refused:
        read(Received({**WHOLE, **change}, {}))
    assert refused.value.field == field


def test_a_field_that_was_forgotten_is_named_at_import() -> None:
    """So it is missed neither in one reader nor in one form of the message."""
    more = (*PARCEL.fields, Field("colour", kind.NAME))
    with pytest.raises(ValueError, match="its Struct lacks colour, which the spec reads"):
        build_reader(replace(PARCEL, fields=more))
    with pytest.raises(ValueError, match="the spec lacks sent of its Struct"):
        build_reader(replace(PARCEL, fields=[one for one in PARCEL.fields if one.name != "sent"]))
    with pytest.raises(ValueError, match="ExecResult lacks size, weight, body, sent, parcel_id"):
        build_wire(replace(PARCEL, envelope="parcel", proto=result_pb2.ExecResult))
    bare = Field("sent", kind.build_kind({}, lambda body, name: body.get(name)))
    with pytest.raises(ValueError, match=r"parcel\.sent: its kind has no PlainForm"):
        build_plain(replace(PARCEL, fields=(bare,)))
