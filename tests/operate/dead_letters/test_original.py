"""What is sent again for a dead letter, and why some dead letters stay."""

from typing import Any

import orjson
import pytest

from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.core import ids
from router.core.message import Effect
from router.delivery.wire.api import StoredMessage
from router.operate.dead_letters import NotReplayed, ReplayOptions, original_of, parse
from tests.support.dead_letters import a_dead_letter, a_failed_message, a_stored_dead_letter
from tests.support.workers import ASSIGNED

KNOWN = "$KV.ROUTER_ASSIGNMENTS_KNOWN." + ids.key(ASSIGNED)
RECORD = {
    "version": "1",
    "subject": "caf.exec.assign.v1",
    "headers": {"tenant_id": "acme"},
    "requested_at_ms": 1_700_000_000_000,
    "assignment": {"assignment_id": ASSIGNED},
}
FIRST = {"x-first-stored-ms": "1700000000000"}


class Streams:
    """A JetStream that holds these messages."""

    def __init__(self, *there: StoredMessage) -> None:
        self._there = there

    async def message(self, stream: str, sequence: int) -> StoredMessage | None:
        return next((one for one in self._there if one.sequence == sequence), None)

    async def get_last(self, stream: str, subject: str) -> StoredMessage | None:
        return next((one for one in self._there if one.subject == subject), None)


async def _original(letter: StoredMessage, *there: StoredMessage, **how: Any) -> Effect:
    found = await original_of(Streams(*there), parse(letter), ReplayOptions(**how))  # type: ignore[arg-type]
    assert isinstance(found, Effect), found
    return found


async def _cause(letter: StoredMessage, *there: StoredMessage, **how: Any) -> str:
    found = await original_of(Streams(*there), parse(letter), ReplayOptions(**how))  # type: ignore[arg-type]
    assert isinstance(found, NotReplayed), found
    return found.cause


async def test_a_message_goes_to_where_it_failed_with_its_own_ids_and_a_fresh_message_id() -> None:
    letter = a_dead_letter(
        a_failed_message(
            b"\x00\xff", headers={"Nats-Msg-Id": "m-1", "trace_id": "t", "traceparent": "00-x"}
        )
    )
    found = await _original(letter)
    assert (found.subject, found.data, found.id) == (
        "beamline.router.v1.decide",
        b"\x00\xff",
        "replay:1:1",
    )
    assert found.headers == {
        "trace_id": "t",
        "traceparent": "00-x",
        "x-replay-count": "1",
        "x-original-msg-id": "m-1",
        **FIRST,
    }


async def test_what_was_masked_what_steers_the_broker_and_the_reply_address_stay_behind() -> None:
    given = {
        "api_key": "secret",
        "Nats-Rollup": "all",
        "nats-ttl": "1",
        "Reply-To": "_INBOX.x",
        "bad\r\nNats-TTL": "1",
        "kept": "1",
    }
    found = await _original(a_dead_letter(a_failed_message(headers=given)))
    assert "secret" not in str(found.headers)
    assert set(found.headers) == {"kept", "x-replay-count", "x-original-msg-id", *FIRST}


async def test_replays_are_counted_over_dead_letters_and_capped() -> None:
    letter = a_dead_letter(a_failed_message(headers={"x-replay-count": "2"}))
    assert (await _original(letter)).id == "replay:1:3"
    assert "replayed 2 times" in await _cause(letter, max_replays=2)


async def test_the_time_of_the_first_storing_goes_from_dead_letter_to_dead_letter_and_only_backwards() -> (
    None
):
    for told, sent in {
        "1600000000000": "1600000000000",
        "1800000000000": "1700000000000",
        "soon": "1700000000000",
    }.items():
        found = await _original(
            a_dead_letter(a_failed_message(headers={"x-first-stored-ms": told}))
        )
        assert found.headers["x-first-stored-ms"] == sent


async def test_a_dead_letter_that_names_no_time_says_none() -> None:
    for claimed in (None, "1", -1, True, 1e9, 10**15):
        forged = a_stored_dead_letter(
            {
                "reason": "x",
                "original_subject": "a",
                "received_at": claimed,
                "message": {"payload": "x"},
            },
            "a.dlq",
        )
        assert "x-first-stored-ms" not in (await _original(forged)).headers


async def test_a_payload_that_is_not_in_the_dead_letter_is_taken_from_its_stream() -> None:
    big = a_failed_message(b"x" * 5000, headers={"trace_id": "t"})
    source = StoredMessage(big.subject, 7, big.data, {"trace_id": "t", "x-replay-count": "1"}, "")
    found = await _original(a_dead_letter(big, max_bytes=2000), source)
    assert (found.data, found.id, found.headers["trace_id"]) == (big.data, "replay:1:2", "t")


async def test_a_payload_that_stands_under_a_partition_s_subject_is_sent_to_the_public_one() -> (
    None
):
    letter = a_dead_letter(a_failed_message(b"x" * 5000), max_bytes=2000)
    found = await _original(
        letter, StoredMessage("beamline.router.v1.decide.p.1", 7, b"x" * 5000, {}, "")
    )
    assert (found.subject, found.data) == ("beamline.router.v1.decide", b"x" * 5000)
    for other in (
        "beamline.router.v1.decide.p.1.x",
        "beamline.router.v1.decide.x.1",
        "beamline.router.v1.decide.p.",
    ):
        assert "another message" in await _cause(
            letter, StoredMessage(other, 7, b"x" * 5000, {}, "")
        )


async def test_a_payload_that_its_stream_no_longer_holds_is_said_to_be_gone() -> None:
    letter = a_dead_letter(a_failed_message(b"x" * 5000), max_bytes=2000)
    assert await _cause(letter) == "its message is in neither the dead letter nor ROUTER_DECIDE 7"
    other = StoredMessage("beamline.router.v1.decide", 7, b"another", {}, "")
    assert "another message stands in ROUTER_DECIDE 7" in await _cause(letter, other)


@pytest.mark.parametrize(
    "claimed",
    [
        "$JS.API.STREAM.PURGE.ROUTER_DLQ",
        "$KV.ROUTER_POLICIES.a",
        "caf.exec.result.v1",
        "a.>",
        "a b",
        "",
    ],
)
async def test_a_dead_letter_cannot_send_anything_to_another_subject_than_its_own(
    claimed: str,
) -> None:
    forged = a_stored_dead_letter(
        {"reason": "validation_failed", "original_subject": claimed, "message": {"payload": "x"}},
        f"{claimed or 'x'}.y",
    )
    assert "do not stand on" in await _cause(forged)


async def test_what_is_no_dead_letter_stays() -> None:
    assert await _cause(a_stored_dead_letter(b"\xff")) == "it is no dead letter of ours"


@pytest.mark.parametrize(
    "data",
    [
        orjson.dumps({"assignment_id": ASSIGNED}),
        result_pb2.ExecResult(assignment_id=ASSIGNED).SerializeToString(),
    ],
)
async def test_a_worker_s_dead_letter_publishes_its_assignment_again(data: bytes) -> None:
    found = await _original(
        a_stored_dead_letter(data, "caf.exec.dlq.v1"),
        StoredMessage(KNOWN, 9, orjson.dumps(RECORD), {}, ""),
    )
    assert (found.subject, orjson.loads(found.data), found.id) == (
        "caf.exec.assign.v1",
        {"assignment_id": ASSIGNED},
        "replay:1:1",
    )
    assert found.headers["tenant_id"] == "acme"


async def test_an_assignment_that_is_gone_is_said_to_be() -> None:
    assert (
        await _cause(a_stored_dead_letter({"assignment_id": ASSIGNED}, "caf.exec.dlq.v1"))
        == "its assignment is gone"
    )
    assert (
        await _cause(a_stored_dead_letter({"tenant_id": "acme"}, "caf.exec.dlq.v1"))
        == "it names no assignment"
    )


async def test_an_edited_payload_takes_the_place_of_the_original_s() -> None:
    found = await _original(a_dead_letter(), payload=b"mended")
    assert (found.data, found.id) == (b"mended", "replay:1:1")
