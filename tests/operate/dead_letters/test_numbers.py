"""A replay sends the bytes that failed, an edited one all digits that were not edited, and what
people see of them is what is there.
"""

import orjson
import pytest

from router.contracts.payload_display import describe_payload
from router.delivery.wire.api import JetStream
from router.operate.commands.dead_letters.replay import edit_payload
from router.operate.dead_letters.parse import as_full_fields, parse
from router.shell.output import format_bytes, format_json
from tests.support.any_json import iterate_json, read_exactly, write_object
from tests.support.dead_letters import (
    DeadLetterStreams,
    a_dead_letter,
    a_failed_message,
    a_stored_dead_letter,
)

ROUNDS = 200


async def test_a_replay_sends_the_bytes_that_failed(jetstream: JetStream, prefix: str) -> None:
    house = await DeadLetterStreams(jetstream, prefix).build()
    sent = list(iterate_json(ROUNDS, 1))
    for payload in sent:
        await house.store(data=payload)
    assert (await house.replay()).is_whole
    assert [message.data for message in await house.sent()] == sent


def test_an_editor_shows_and_sends_what_was_not_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    for payload in iterate_json(ROUNDS, 2, write_object):
        failed = b'{"tenant":"wrong","body":%b}' % payload
        monkeypatch.setattr("click.edit", lambda text, **_: text.replace("wrong", "right"))
        edited = edit_payload(failed)
        assert edited is not None
        assert read_exactly(edited) == {"tenant": "right", "body": read_exactly(payload)}, payload


def test_a_compact_text_is_sent_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = (
        b'{"tenant":"wrong","n":1.0,"m":18446744073709551616,"e":1E5,"t":"\\u00e9 \\/ {, '
        b'","a":1,"a":[],"o":{},"z":1e999}'
    )
    monkeypatch.setattr("click.edit", lambda text, **_: text.replace("wrong", "right"))
    assert edit_payload(failed) == failed.replace(b"wrong", b"right")


def test_what_is_shown_and_exported_is_what_is_there() -> None:
    for payload in iterate_json(ROUNDS, 3):
        letter = parse(a_dead_letter(a_failed_message(payload)))
        assert orjson.loads(format_json(as_full_fields(letter)))["payload"].encode() == payload
        assert read_exactly(format_bytes(payload)) == read_exactly(payload), payload
        shown = describe_payload(payload)
        if "payload" in shown:
            assert read_exactly(format_json(shown))["payload"] == read_exactly(payload), payload


def test_an_export_holds_a_letter_of_others_with_its_digits() -> None:
    letter = parse(a_stored_dead_letter(b'{"reason":"broken","n":18446744073709551616}'))
    assert read_exactly(format_json(as_full_fields(letter)))["letter"]["n"] == 2**64
