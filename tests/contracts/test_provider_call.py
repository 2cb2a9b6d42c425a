"""A custom provider's answers and chunks (docs/reference/extensions.md#provider-call)."""

import json
from collections.abc import Callable

import pytest

from router.contracts.extension import InvalidExtensionMessage
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider_call import read_answer, read_piece, read_time_left
from router.contracts.provider_chunk import StreamChunk, chunk_bytes, read_chunk


def answer(**fields: object) -> bytes:
    return json.dumps({"provider_id": "echo", "output": "hi", **fields}).encode()


def test_usage_and_metadata_become_text() -> None:
    found = read_answer(
        answer(
            usage={"prompt_tokens": 3}, metadata={"source": "crm", "n": 1, "none": None}, cost=2
        ),
        "echo",
    )
    assert (found.body, found.cost) == ("hi", 2.0)
    assert found.metadata == {"source": "crm", "n": "1", "prompt_tokens": "3", "cost": "2"}


def test_model_and_cached_tokens_become_text_too() -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 10},
    }
    found = read_answer(answer(usage=usage, model="gpt-4o"), "echo")
    assert found.metadata == {
        "prompt_tokens": "30",
        "completion_tokens": "2",
        "cached_tokens": "10",
        "model": "gpt-4o",
    }


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1},
        {"prompt_tokens": 2.5},
        {"prompt_tokens": True},
        {"prompt_tokens": "many"},
        7,
        [],
        None,
    ],
)
def test_usage_that_is_not_legal_is_absent_and_the_answer_stands(usage: object) -> None:
    found = read_answer(answer(usage=usage, cost=-1, model="two words"), "echo")
    assert (found.body, found.metadata, found.cost) == ("hi", {}, 0.0)
    assert read_piece(answer(usage=usage), "echo").metadata == {}


def test_output_that_is_no_text_is_its_json() -> None:
    found = read_answer(answer(output={"a": [1]}), "echo")
    assert (found.body, found.metadata) == ('{"a": [1]}', {"content_type": "application/json"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"garbage",
        b'{"output":"\xff"}',
        b'{"output":"","metadata":{"n":%d}}' % 2**70,
        b'{"data":"","done":true,"metadata":{"n":%d}}' % 2**70,
        b'{"provider_id": "echo"}',
        answer(provider_id="other"),
        answer(metadata={"a": "x" * 70_000}),
        b'{"output":' + b"[" * 70 + b"]" * 70 + b"}",
        answer(output="x" * 1_100_000),
    ],
)
def test_what_is_no_answer_is_not_allowed(data: bytes) -> None:
    for read in (read_answer, read_piece):
        with pytest.raises(InvalidExtensionMessage):
            read(data, "echo")


@pytest.mark.parametrize(
    ("build", "most"),
    [
        (lambda count: answer(metadata={"a": "x" * (count - 1)}), 64 * 1024),
        (lambda count: answer().ljust(count), 1024 * 1024),
        (lambda count: b'{"output":' + b"[" * (count - 1) + b"]" * (count - 1) + b"}", 64),
    ],
    ids=["metadata", "bytes", "depth"],
)
def test_an_answer_at_its_bound_is_taken_and_one_above_is_not(
    build: Callable[[int], bytes], most: int
) -> None:
    for read in (read_answer, read_piece):
        read(build(most), "echo")
        with pytest.raises(InvalidExtensionMessage):
            read(build(most + 1), "echo")


def test_a_piece_is_a_chunk_or_a_whole_answer() -> None:
    assert read_piece(b'{"data": "a", "done": false}', "echo") == StreamChunk(data="a")
    whole = read_piece(answer(cost=0.5), "echo")
    assert (whole.data, whole.done, whole.metadata) == ("hi", True, {"cost": "0.5"})


def test_chunks_read_back_and_are_the_same_in_protobuf() -> None:
    for data in ("text", b"\xff"):
        chunk = StreamChunk(request_id="r", data=data, done=True, metadata={"a": "b"})
        assert read_chunk(chunk_bytes(chunk)) == chunk
        packed = provider_pb2.StreamChunk.FromString(chunk_bytes(chunk, protobuf=True))
        assert (packed.request_id, packed.data, packed.done, packed.metadata["a"]) == (
            "r",
            data if isinstance(data, bytes) else data.encode(),
            True,
            "b",
        )


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("1500", 1.5),
        ("0", 0.0),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("9" * 9, 999_999.999),
        ("9" * 10, None),
    ],
)
def test_the_time_that_is_left_is_believed_only_where_it_makes_sense(
    told: str, seconds: float | None
) -> None:
    assert read_time_left({"Router-Deadline-Ms": told}) == seconds
