"""What is read of a message before its handler gets it: headers first, then its subject and the
stream's time.
"""

from uuid import UUID

import pytest

from router.core.outcome import Fault
from router.mailbox.inbox.event import InboxEvent, message_id_of, read_event
from tests.support.inbox import a_message, an_id

HEADERS = {
    "Nats-Msg-Id": an_id(0),
    "Event-Type": "vibe_changed",
    "Event-Version": "3",
    "Occurred-At": "2025-12-28T22:00:00Z",
    "Correlation-Id": an_id(1).upper(),
    "Causation-Id": an_id(2),
}


def test_headers_say_everything() -> None:
    """SD-5, SD-6, SD-32."""
    event = _read(headers=HEADERS)
    assert (event.message_id, event.event_type, event.event_version) == (
        an_id(0),
        "vibe_changed",
        3,
    )
    assert (event.occurred_at, event.correlation_id, event.causation_id) == (
        "2025-12-28T22:00:00Z",
        an_id(1),
        an_id(2),
    )


def test_what_no_header_says_the_subject_and_the_stream_say() -> None:
    """SD-4, SD-5: correlation and causation may both be absent."""
    event = _read()
    assert (event.event_type, event.event_version, event.occurred_at) == (
        "vibe_created",
        1,
        "2023-11-14T22:13:20.123457Z",
    )
    assert (event.correlation_id, event.causation_id) == (None, None)


@pytest.mark.parametrize(
    "headers",
    [
        {"Event-Version": "x"},
        {"Occurred-At": "yesterday"},
        {"Occurred-At": "2025-12-28T22:00:00"},
        {"Correlation-Id": "7"},
    ],
)
def test_a_malformed_header_counts_as_absent(headers: dict[str, str]) -> None:
    assert _read(headers={**headers, "Nats-Msg-Id": an_id(0)}) == _read(
        headers={"Nats-Msg-Id": an_id(0)}
    )


def test_an_id_that_is_no_uuid_gives_the_same_uuid_each_time() -> None:
    """SD-3, X1; without any id, the place in the stream does."""
    some, none = a_message(headers={"Nats-Msg-Id": "evt_01"}), a_message()
    assert message_id_of(some) == message_id_of(some) != message_id_of(none) == message_id_of(none)
    assert [str(UUID(message_id_of(one))) for one in (some, none)] == [
        message_id_of(some),
        message_id_of(none),
    ]


def test_the_payload_is_told_byte_for_byte() -> None:
    assert _read(b'{"b": 1.0, "a":[1,  2]}').body == b'{"b": 1.0, "a":[1,  2]}'


@pytest.mark.parametrize(
    "data", [b"", b"not json", b"[" * 100 + b"]" * 100, b'"' + b"x" * 1024 * 1024 + b'"']
)
def test_what_is_not_json_or_beyond_the_limits_is_never_told(data: bytes) -> None:
    assert isinstance(read_event(a_message(data)), Fault)


@pytest.mark.parametrize(
    "subject", ["vibespro.event", "vibespro.vibe_created.v1", "vibespro.event.vibe_created.vx"]
)
def test_an_event_without_a_type_is_never_told(subject: str) -> None:
    """SD-4."""
    assert isinstance(read_event(a_message(subject=subject)), Fault)


def test_a_subject_that_no_row_can_hold_is_never_told() -> None:
    assert isinstance(
        read_event(a_message(subject="vibespro.event.a\x00b.v1", headers=HEADERS)), Fault
    )


def _read(data: bytes = b"{}", headers: dict[str, str] | None = None) -> InboxEvent:
    event = read_event(a_message(data, headers=headers))
    assert isinstance(event, InboxEvent)
    return event
