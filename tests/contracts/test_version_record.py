"""A version of a document as a bucket keeps it."""

import pytest

from router.contracts.stored_record import record_bytes
from router.contracts.version_record import document_hash, make_record, read_record
from router.core.errors import Poison


def test_a_record_is_read_as_it_was_written() -> None:
    record = make_record({"b": 1, "a": [None, "ü"]}, version=3, author="ann")
    assert read_record(record_bytes(record)) == record
    assert record.time.endswith("+00:00")


def test_equal_documents_have_one_hash_whatever_the_order_of_their_keys() -> None:
    assert document_hash({"a": 1, "b": {"c": 2, "d": 3}}) == document_hash(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert document_hash({"a": 1}) != document_hash({"a": 2})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"version": "1"}', b"[" * 100_000, b'{"document":' * 5000],
)
def test_bytes_of_another_form_are_no_record(data: bytes) -> None:
    with pytest.raises(Poison):
        read_record(data)
