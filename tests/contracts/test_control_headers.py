"""The headers that command the server: each is one that this server knows, and each is refused."""

from pathlib import Path

import pytest

from router.contracts.headers import CONTROL_HEADERS
from router.core.outcome import Fault
from router.decide.model import RequestLimits, read
from router.process.embedded import server_binary
from tests.support.requests import a_body, a_message


def test_each_is_known_to_the_server_that_the_tests_run() -> None:
    """A header that a newer server drops, or one that is misspelt here, is found."""
    binary = Path(server_binary()).read_bytes()
    assert [name for name in sorted(CONTROL_HEADERS) if name.encode() not in binary] == []


@pytest.mark.parametrize("name", sorted(CONTROL_HEADERS))
def test_a_request_with_one_is_refused(name: str) -> None:
    reading = read(a_message(a_body(), {name: "1", "Nats-Msg-Id": "m-1"}))
    assert isinstance(reading.asked, Fault)
    assert reading.asked.field == name
    assert reading.violations == ((name, "forbidden"),)


def test_where_requests_are_published_with_a_publish_ack_they_are_the_publishers_right() -> None:
    reading = read(
        a_message(a_body(), {"Nats-TTL": "1s", "Nats-Msg-Id": "m-1"}),
        RequestLimits(refuses_control_headers=False),
    )
    assert (reading.violations, isinstance(reading.asked, Fault)) == ((), False)
