"""The events' stream, figure by figure as the specification has it."""

import pytest

from router.mailbox.streams import events_stream

WEEK_NS = 7 * 24 * 3600 * 1_000_000_000


@pytest.mark.parametrize(
    ("context", "name", "subject"),
    [("sea", "SEA_EVENTS", "sea.event.>"), ("vibespro", "VIBESPRO_EVENTS", "vibespro.event.>")],
)
def test_the_stream_of_a_context_is_as_specified(context: str, name: str, subject: str) -> None:
    """SD-29, SD-30: seven days, 10 GiB, limits, files; three replicas are a production's setting."""
    config = events_stream(context, replicas=3).to_json()
    assert (config["name"], config["subjects"]) == (name, [subject])
    assert (config["max_age"], config["max_bytes"], config["num_replicas"]) == (
        WEEK_NS,
        10 * 1024**3,
        3,
    )
    assert (config["storage"], config["retention"]) == ("file", "limits")
