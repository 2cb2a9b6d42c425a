"""How a record of one kind is read from a bucket, and written: what is common to all of them.

    RecordKind     read(value)        the record in the bytes of a value
    KeyedRecord    read(key, value)   the same; a record that says whose it is, and stands elsewhere,
                                      is no record

Bytes of another program are Poison, and never an error of another kind. A record's own file says
what its fields mean.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from router.contracts.codec import UNREADABLE_ERRORS
from router.core.errors import Poison

# The bytes of a record: its fields in their order.
record_bytes = msgspec.json.Encoder().encode


class Keyed(Protocol):
    """A record that knows its key."""

    @property
    def key(self) -> str: ...


R = TypeVar("R")
K = TypeVar("K", bound=Keyed)


class RecordKind(Generic[R]):
    """`name`: of one record, for the text of the error: "a record of an assignment"."""

    def __init__(self, shape: type[R], name: str) -> None:
        self._decode = msgspec.json.Decoder(shape).decode
        self._name = name

    def read(self, value: bytes) -> R:
        """Raises Poison."""
        try:
            return self._decode(value)
        except UNREADABLE_ERRORS as exc:
            raise Poison(f"not {self._name}") from exc


class KeyedRecord(Generic[K]):
    """`name` as of `RecordKind`."""

    def __init__(self, shape: type[K], name: str) -> None:
        self._decode = msgspec.json.Decoder(shape).decode
        self._name = name

    def read(self, key: str, value: bytes) -> K:
        """What stands under this key. Raises Poison for anything that no router wrote there."""
        try:
            record = self._decode(value)
        except UNREADABLE_ERRORS as exc:
            raise Poison(f"not {self._name}: {exc}") from exc
        if record.key != key:
            raise Poison(f"{self._name} under another one's key")
        return record
