"""What all instances have learned of the tokens of a tenant's texts, as it stands in its bucket
(docs/reference/prices.md#shared).

    {tenant_id, kinds: {name: weight}, ratios: [{provider_id, model, input: {…}, output: {…}}]}

The sums are parts of a documented count, so they mean nothing beside other kinds or weights than
they were made with.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import KeyedRecord
from router.core import ids
from router.core.errors import Poison

MAX_SHARED = 32  # providers and models of one tenant; then the one that was taught longest ago goes
_MAX_KINDS = 64

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Sum = Annotated[float, Meta(ge=0, le=1e15)]
_Sums = Annotated[list[_Sum], Meta(max_length=_MAX_KINDS * _MAX_KINDS)]
_Name = Annotated[str, Meta(max_length=128)]


class RatioRecord(Struct, frozen=True, kw_only=True):
    """One direction: `budgets.model.prices.ratio_sums` says what the sums are."""

    samples: _Count
    room: Annotated[float, Meta(ge=-1e15, le=1e15)]
    products: _Sums
    sums: _Sums
    tokens: _Sum
    pieces: _Sum
    compared: _Count
    text_error: _Sum
    piece_error: _Sum


class SharedRatioRecord(Struct, frozen=True, kw_only=True):
    """One provider and model; the model is empty where none was told."""

    provider_id: _Name
    model: _Name
    input: RatioRecord
    output: RatioRecord


class RatiosRecord(Struct, frozen=True, kw_only=True):
    """`ratios`: the one that was taught longest ago first."""

    tenant_id: str
    kinds: Annotated[dict[str, int], Meta(max_length=_MAX_KINDS)]
    ratios: Annotated[list[SharedRatioRecord], Meta(max_length=MAX_SHARED)]

    @property
    def key(self) -> str:
        return ratios_key(self.tenant_id)


def ratios_key(tenant_id: str) -> str:
    return ids.key(tenant_id)


def read_ratios_record(key: str, data: bytes) -> RatiosRecord:
    """What stands under this key. Raises Poison for anything that no router wrote there."""
    record = _read(key, data)
    kinds = len(record.kinds)
    directions = [one for ratio in record.ratios for one in (ratio.input, ratio.output)]
    if any(
        (len(one.sums), len(one.products)) != (kinds, kinds * (kinds + 1) // 2)
        for one in directions
    ):
        raise Poison("a record of ratios with other sums than its kinds")
    return record


_read = KeyedRecord(RatiosRecord, "a record of ratios").read
