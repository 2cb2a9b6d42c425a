"""A message declared by a spec: its Struct and its fields are all that its reader is made of."""

from typing import Any

import pytest
from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts.malformed import Malformed
from router.contracts.message_spec import Field, MessageSpec, build_reader
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
