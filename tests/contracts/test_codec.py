"""JSON at the border."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import thread_time

import orjson
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from router.agents.envelope import read_envelope as read_agent_envelope
from router.cli.project.dev_server import read_example
from router.contracts import codec, flow, worker
from router.contracts.codec import (
    LARGE_BODY_BYTES,
    bytes_of,
    count_values,
    drop_strings,
    is_deeper,
    read_object,
    text_of,
    value_of,
)
from router.contracts.envelope import read_envelope
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.extension import read_processor_answer, read_request, read_validator_answer
from router.contracts.heartbeat import read_heartbeat
from router.contracts.ingress import INGRESS
from router.contracts.malformed import PAYLOAD_TOO_LARGE, Malformed
from router.contracts.provider import read_response
from router.contracts.provider_call import read_answer
from router.contracts.provider_chunk import read_chunk
from router.contracts.provider_request import read_request as read_provider_request
from router.contracts.result import RESULT
from router.contracts.unread_report import read_unread_report
from router.core.errors import Misconfigured, RouterError
from router.core.outcome import Fault
from router.extensions.model.entry import read_document
from router.mailbox.inbox.event import read_event
from router.policies.model.parse import load_policy
from router.serve.contract.commands.diff import _read_json
from router.shell.options import read_json
from tests.support.agents import a_message as a_command
from tests.support.inbox import a_message as an_inbox_message


def nested(depth: int) -> bytes:
    """An object of that depth, all arrays inside."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def refusal(data: bytes, **limits: int) -> Malformed:
    with pytest.raises(Malformed) as caught:
        read_object(data, **limits)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1',
        b"",
        b"\xff",
        b'{"a":"\\ud800"}',
    ],
)
def test_what_is_not_json_is_refused(data) -> None:
    assert refusal(data).stage == "decode"


@pytest.mark.parametrize("data", [b"[]", b"1", b'"text"', b"null"])
def test_only_an_object_counts(data) -> None:
    assert str(refusal(data)) == "Payload is not a JSON object"


def test_size_is_refused_before_parsing() -> None:
    refused = refusal(b"not json at all", max_bytes=10)
    assert (refused.code, refused.stage) == (PAYLOAD_TOO_LARGE, "size")


def test_of_two_equal_keys_the_last_one_counts() -> None:
    assert read_object(b'{"a":1,"a":2}') == {"a": 2}


def test_sixty_four_levels_are_taken_and_sixty_five_are_not() -> None:
    read_object(nested(64))
    assert "nested deeper" in str(refusal(nested(65)))


@pytest.mark.parametrize("depth", [1000, 2000, 100_000])
def test_any_depth_is_refused_without_harm(depth) -> None:
    assert refusal(nested(depth)).stage == "decode"


def test_the_depth_of_a_large_message_is_found_and_wide_ones_are_read() -> None:
    padding = b'"' + b"x" * LARGE_BODY_BYTES + b'"'
    deep = b'{"p":' + padding + b',"a":' + b"[" * 64 + b"]" * 64 + b"}"
    assert "nested deeper" in str(refusal(deep))
    assert (
        read_object(b'{"p":' + padding + b',"a":[' + b",".join([b"[]"] * 1000) + b"]}")["a"]
        == [[]] * 1000
    )
    assert read_object(b'{"p":' + padding + b"}")["p"] == "x" * LARGE_BODY_BYTES


@pytest.mark.parametrize("padding", [0, LARGE_BODY_BYTES])
def test_the_depth_of_a_message_with_few_brackets_is_not_measured(
    padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "is_deeper", None)
    read_object(b'{"p":"' + b"x" * padding + b'","a":[' + b",".join([b"[]"] * 62) + b"]}")


def test_brackets_in_strings_and_wide_objects_are_not_depth() -> None:
    read_object(orjson.dumps({"a": "[" * 500 + '\\"{', "b": [[] for _ in range(500)]}))


@pytest.mark.parametrize(
    "brackets",
    [b"[" * 2**19 + b"]" * 2**19, (b"[" * 63 + b"]" * 63 + b",") * 2**13],
    ids=["one tower", "many"],
)
def test_a_megabyte_of_brackets_costs_no_pass_for_each_level(brackets: bytes) -> None:
    """Measured in sums over the same bytes, whatever the machine: 4 and 9; with a pass for each
    level it was 37 and 20.
    """
    costs = [
        _cost(lambda: is_deeper(brackets, 64)) / _cost(lambda: sum(brackets)) for _ in range(3)
    ]
    assert min(costs) < 15


def _cost(work: Callable[[], object]) -> float:
    began = thread_time()
    work()
    return thread_time() - began


json_values = st.recursive(
    st.none() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


def depth_of(value: object) -> int:
    if not isinstance(value, list | dict):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inside), default=0)


def count_of(value: object) -> int:
    """As `count_values` promises: an empty list or object counts as one more."""
    if not isinstance(value, list | dict):
        return 1
    inside = list(value.values()) if isinstance(value, dict) else value
    return 1 + (sum(map(count_of, inside)) if inside else 1)


@given(json_values, st.integers(0, 40))
def test_values_are_counted_whatever_stands_in_texts(value, most) -> None:
    counted, there = count_values(orjson.dumps(value), most), count_of(value)
    assert (counted > most) == (there > most)
    assert counted <= there if counted > most else counted >= there


texts_of_json = st.lists(st.text(alphabet='"\\\\[{,:a', max_size=6), max_size=6)


def strings_dropped(data: bytes) -> bytes:
    """Byte after byte, as a parser goes."""
    outside, is_string, is_escaped = bytearray(), False, False
    for byte in data:
        if not is_string:
            is_string = byte == ord('"')
            outside += b"" if is_string else bytes([byte])
        elif is_escaped:
            is_escaped = False
        else:
            is_escaped, is_string = byte == ord("\\"), byte != ord('"')
    return bytes(outside)


@given(texts_of_json | json_values)
def test_strings_are_dropped_as_a_parser_would(value) -> None:
    data = orjson.dumps(value)
    assert drop_strings(data) == strings_dropped(data)


@given(st.dictionaries(st.text(alphabet='"\\\\:a', max_size=3), st.just(1)), st.integers(0, 40))
def test_the_values_of_keys_are_counted_whatever_keys_are_made_of(value, most) -> None:
    assert (count_values(orjson.dumps(value), most) > most) == (count_of(value) > most)


def towers(heights: list[int]) -> bytes:
    return b"[" + b",".join(b"[" * height + b"]" * height for height in heights) + b"]"


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.integers(1, 90))
def test_the_depth_of_towers_is_that_of_the_highest(heights, limit) -> None:
    assert is_deeper(towers(heights), limit) == (1 + max(heights) > limit)


@pytest.mark.parametrize("height", [1, 3, 5, 16, 21, 25])
def test_depth_is_counted_on_behind_what_was_closed(height: int) -> None:
    data = b"[" * 40 + towers([height, height + 1])[1:-1] + b"]" * 40
    assert [is_deeper(data, limit) for limit in (40 + height, 41 + height)] == [True, False]


@given(json_values, st.integers(0, 6))
def test_depth_is_counted_as_a_parser_would(value, limit) -> None:
    assert is_deeper(orjson.dumps(value), limit) == (depth_of(value) > limit)


@given(st.binary(max_size=50))
def test_bytes_stand_in_json_and_come_back(data) -> None:
    text, encoding = text_of(data)
    assert bytes_of(text, encoding) == data


def test_bytes_that_are_text_are_text() -> None:
    assert value_of(b"hi") == "hi"
    assert value_of(b"\xff") == b"\xff"


@pytest.mark.parametrize(
    ("text", "encoding"), [("!!", "base64"), ("YQ==\n", "base64"), ("a", "hex"), ("ä", "base64")]
)
def test_text_that_is_not_what_its_encoding_says_is_an_error(text, encoding) -> None:
    with pytest.raises(ValueError, match="base64"):
        bytes_of(text, encoding)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("\ufeff{}".encode(), "UTF-8"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff\x00{", "UTF-16"),
    ],
)
def test_a_byte_order_mark_is_named(data: bytes, name: str) -> None:
    """It cannot be seen: "not valid JSON" of what an editor shows as good JSON is a riddle."""
    readers = [
        read_object,
        partial(flow.read_body, headers={}),
        partial(worker.read_body, kind=RESULT),
        partial(worker.read_body, kind=INGRESS),
        partial(read_provider_request, headers={}),
        read_exec_assignment,
        read_envelope,
        partial(load_policy, tenant_id="acme", policy_id="p"),
        read_document,
        read_unread_report,
        read_request,
        read_processor_answer,
        read_validator_answer,
        partial(read_answer, provider_id="echo"),
        read_chunk,
        read_response,
        lambda data: read_agent_envelope(a_command(body=data)),
    ]
    for read in readers:
        with pytest.raises((RouterError, ValueError), match=rf"byte order mark \(BOM\) of {name}"):
            read(data)


@pytest.mark.parametrize("data", ["\ufeff{}".encode(), "{}".encode("utf-16")])
def test_a_byte_order_mark_of_an_event_and_of_a_heartbeat_is_named(data: bytes) -> None:
    """What an inbox cannot read is a dead letter, and its words say so."""
    for fault in (read_event(an_inbox_message(data)), read_heartbeat(data, 0)):
        assert isinstance(fault, Fault)
        assert "byte order mark (BOM)" in fault.message


def test_a_byte_order_mark_of_what_a_command_reads_is_named(tmp_path: Path) -> None:
    file = tmp_path / "given.json"
    file.write_bytes("\ufeff{}".encode())
    with pytest.raises(typer.BadParameter, match=r"byte order mark \(BOM\) of UTF-8"):
        read_json(f"@{file}", "--payload")
    with pytest.raises(ValueError, match=r"byte order mark \(BOM\) of UTF-8"):
        _read_json(file)
    (tmp_path / "request.json").write_bytes(file.read_bytes())
    with pytest.raises(Misconfigured, match=r"byte order mark \(BOM\) of UTF-8"):
        read_example(tmp_path)
