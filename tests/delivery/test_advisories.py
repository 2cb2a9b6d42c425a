"""What the server says of a message that it stopped delivering."""

import json

from router.core.ids import subject_matcher
from router.delivery.consume.advisories import (
    advisories_stream,
    advisory_subject,
    stranded_sequence,
)


def test_the_stream_keeps_what_is_said_of_any_durable() -> None:
    assert subject_matcher(advisories_stream().subjects)(
        advisory_subject("MESHFORGE_COMMANDS", "witness_consumer")
    )


def test_an_advisory_names_a_sequence_and_anything_else_none() -> None:
    assert (
        stranded_sequence(json.dumps({"stream": "S", "consumer": "C", "stream_seq": 7}).encode())
        == 7
    )
    for data in (b"", b"no", b"[]", b"{}", b'{"stream_seq": "7"}', b'{"stream_seq": 0}'):
        assert stranded_sequence(data) is None
