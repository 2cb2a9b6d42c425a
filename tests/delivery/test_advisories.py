"""What the server says of a message that it stopped delivering."""

import json

from router.core.ids import subject_matcher
from router.delivery.consume.advisories import (
    advisories_stream,
    advisory_subject,
    stranded_sequence,
)


def test_the_stream_keeps_what_is_said_of_any_durable_for_a_week() -> None:
    spec = advisories_stream("ROUTER_ADVISORIES", 3)
    subject = advisory_subject("MESHFORGE_COMMANDS", "witness_consumer")
    assert subject_matcher(spec.subjects)(subject)
    assert (spec.max_age, spec.max_bytes, spec.replicas) == (604_800, 67_108_864, 3)


def test_an_advisory_names_a_sequence_and_anything_else_none() -> None:
    assert (
        stranded_sequence(json.dumps({"stream": "S", "consumer": "C", "stream_seq": 1}).encode())
        == 1
    )
    for data in (b"", b"no", b"[]", b"{}", b'{"stream_seq": "7"}', b'{"stream_seq": 0}'):
        assert stranded_sequence(data) is None
