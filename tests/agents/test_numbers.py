"""An agent gets, keeps and sends on the numbers that came."""

import json
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from msgspec import Raw

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope, read_envelope, stored_envelope
from router.agents.outgoing import command_of
from router.agents.state import list_state_entries
from router.contracts.malformed import Malformed
from router.core.outcome import Dead, Done
from router.shell.output import format_json
from tests.support.agents import a_batch_bench, a_message
from tests.support.any_json import iterate_json, read_exactly
from tests.support.counting_agent import COUNTED


class EchoAgent:
    name = "witness"

    def receive(self, envelope: Envelope) -> None: ...

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        ctx.state.put("last", Raw(envelope.payload_json))
        kept = ctx.state.get("last")
        return [
            Outgoing(COUNTED, "counted", one)
            for one in (Raw(envelope.payload_json), kept)
            if one != float("inf")
        ]


def a_body(payload: bytes, key: str = "k-1", **more: object) -> bytes:
    return orjson.dumps(
        {"idempotency_key": key, "type": "count", "payload": orjson.Fragment(payload), **more}
    )


def test_an_envelope_and_its_stored_content_hold_the_values_that_came() -> None:
    assert read_envelope(a_message(body=a_body(b"[18446744073709551616]"))).payload == [2**64]
    for payload in iterate_json(500, 1):
        expected = {} if payload == b"null" else read_exactly(payload)
        envelope = read_envelope(a_message(body=a_body(payload)))
        assert read_exactly(envelope.canonical)["payload"] == expected, payload
        assert stored_envelope(envelope.canonical).canonical == envelope.canonical


@pytest.mark.parametrize("ts", [b"18446744073709551616", b"1e999", b"-9223372036854775809"])
def test_a_time_beyond_64_bits_is_refused_by_its_name(ts: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        read_envelope(a_message(body=a_body(b"1", ts=orjson.Fragment(ts))))
    assert refused.value.field == "ts"


def test_an_agent_keeps_and_sends_on_every_digit(tmp_path: Path) -> None:
    for number, payload in enumerate(iterate_json(60, 2)):
        expected = {} if payload == b"null" else read_exactly(payload)
        path = tmp_path / f"{number}.db"
        with a_batch_bench(path, EchoAgent()) as bench:
            (outcome,) = bench.batch.handle([a_message(body=a_body(payload))])
            assert isinstance(outcome, Done), payload
            assert read_exactly(outcome.effects[0].data)["payload"] == expected, payload
            for again in outcome.effects[1:]:  # as Python sees it; no message can hold infinity
                assert json.loads(again.data)["payload"] == (
                    {} if payload == b"null" else json.loads(payload)
                ), payload
        (kept,) = list_state_entries(path, name="last", limit=1)
        assert read_exactly(format_json(kept.value)) == expected, payload


def test_a_command_by_hand_holds_a_number_of_any_length() -> None:
    assert read_exactly(
        command_of("cmd.default.demo.witness.count", "count", {"n": 2**64}, "k").data
    )["payload"] == {"n": 2**64}


def test_what_is_no_json_is_not_sent_as_raw_bytes(tmp_path: Path) -> None:
    class Careless(EchoAgent):
        def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
            return [Outgoing(COUNTED, "counted", Raw(b'{"n":'))]

    with a_batch_bench(tmp_path / "w.db", Careless()) as bench:
        (outcome,) = bench.batch.handle([a_message(body=a_body(b"1"))])
        assert isinstance(outcome, Dead)
