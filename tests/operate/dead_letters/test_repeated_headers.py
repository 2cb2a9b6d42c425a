"""A header that a message has several times goes into its dead letter, and out again with its
replay, with every value in order.
"""

import base64

import orjson
import pytest

from router.core.header_names import tell_headers
from router.delivery.wire.api import JetStream
from router.delivery.wire.frames import parse_head
from router.operate.catalogue import build_shapes
from router.operate.dead_letters.original import Effect, original_of
from router.operate.dead_letters.parse import as_fields, parse
from router.shell.output import format_json
from tests.support.dead_letters import DeadLetterStreams, a_dead_letter, a_failed_message
from tests.support.waiting import until

LINES = (
    "X-Own: one",
    "Nats-Msg-Id: m-1",
    "X-Own: two",
    "tenant_id: acme",
    "X-Own: one",
    "api_key: s3cret",
    "api_key: s4cret",
)
HEAD = "\r\n".join(("NATS/1.0", *LINES, "", "")).encode()
VALUES = ["one", "two", "one"]


def find_values(head: bytes, name: bytes = b"X-Own") -> list[str]:
    return [
        line.partition(b": ")[2].decode()
        for line in head.split(b"\r\n")
        if line.startswith(name + b":")
    ]


def test_a_dead_letter_holds_every_value_and_hides_every_secret() -> None:
    letter = a_dead_letter(a_failed_message(headers=parse_head(HEAD)))
    told = orjson.loads(letter.data)["message"]["headers"]
    assert told == {
        "X-Own": VALUES,
        "Nats-Msg-Id": "m-1",
        "tenant_id": "acme",
        "api_key": ["***", "***"],
    }
    assert parse(letter).headers["X-Own"] == "one"  # what readers take
    assert tell_headers(parse(letter).headers)["X-Own"] == VALUES
    assert orjson.loads(format_json(as_fields(parse(letter))))["headers"]["X-Own"] == VALUES


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("is_large", [False, True], ids=["in the dead letter", "in its stream"])
async def test_a_replay_sends_every_value_in_order(
    jetstream: JetStream, prefix: str, *, no_ack: bool, is_large: bool
) -> None:
    house = await DeadLetterStreams(jetstream, f"{prefix[:30]}_{no_ack}_{is_large}").build(
        no_ack=no_ack
    )
    data = b'"%b"' % (b"x" * 100_000 * is_large)
    jetstream.connection.publish_nowait(house.subject, data, head=HEAD)
    await jetstream.connection.flush()
    await until(lambda: jetstream.message(house.stream, 1))
    await house.store(data=data, headers=parse_head(HEAD))
    assert (await house.replay()).sent == 1
    heads = await _read_heads(house)
    assert find_values(heads[-1]) == VALUES
    assert len(find_values(heads[-1], b"x-replay-run")) == 1
    # a stream that keeps the original keeps its secrets
    assert b"cret" not in heads[-1] or is_large


async def test_a_forged_value_of_ours_beside_ours_is_not_sent(jetstream: JetStream) -> None:
    head = (
        b"NATS/1.0\r\nx-replay-count: 1\r\nx-replay-count: 0\r\n"
        b"x-first-stored-ms: 1600000000000\r\nx-first-stored-ms: 1\r\n\r\n"
    )
    found = await original_of(
        jetstream, parse(a_dead_letter(a_failed_message(headers=parse_head(head))))
    )
    assert isinstance(found, Effect)
    assert tell_headers(found.headers)["x-replay-count"] == "2"
    assert tell_headers(found.headers)["x-first-stored-ms"] == "1600000000000"


def test_the_schema_of_a_dead_letter_takes_both_forms() -> None:
    shape = build_shapes()["dead-letter"]
    assert "array" in orjson.dumps(shape.build_schema()).decode()


async def _read_heads(house: DeadLetterStreams) -> list[bytes]:
    async def read(sequence: int) -> bytes:
        found = await house.jetstream.ask(f"STREAM.MSG.GET.{house.stream}", {"seq": sequence})
        return base64.b64decode(found["message"]["hdrs"])

    last = (await house.jetstream.stream(house.stream) or {})["state"]["last_seq"]
    return [await read(sequence) for sequence in range(1, last + 1)]
