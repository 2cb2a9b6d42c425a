"""Every entrance with its limits: how many bytes, how deep; looked at before anything is parsed.

The table is the page: docs/explanation/threats.md points here. Where an entrance has no size of its
own, the server's `max_payload` is it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest

from router.agents.envelope import read_envelope as read_agent_envelope
from router.contracts.acknowledgement import read_acknowledgement
from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.contracts.envelope import read_envelope as read_bus_envelope
from router.contracts.extension import (
    MAX_METADATA_BYTES,
    read_processor_answer,
    read_validator_answer,
)
from router.contracts.heartbeat import MAX_BYTES as MAX_HEARTBEAT_BYTES
from router.contracts.heartbeat import read_heartbeat
from router.contracts.ingress import read_body_of
from router.contracts.provider_call import read_answer, read_piece
from router.contracts.provider_chunk import read_chunk
from router.contracts.provider_request import read_request
from router.contracts.result import read_result
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record, read_record
from router.contracts.worker import DEFAULT_LIMITS
from router.core.errors import RouterError
from router.core.outcome import Fault
from router.decide.model.read import read as read_decide
from router.delivery.kv.entries import BucketEntry as Held
from router.extensions.model import load_entry
from router.extensions.model.entry import MAX_ENTRY_BYTES
from router.extensions.store import read_registered
from router.lake.tables.body import read_event as read_usage
from router.mailbox.inbox.event import read_event
from router.operate.admin import RequestGuard
from router.operate.commands.dead_letters.replay import _decode_text as opened_in_an_editor
from router.operate.dead_letters.parse import as_full_fields, parse
from router.policies.model import load_policy
from router.policies.model.parse import MAX_POLICY_BYTES
from router.policies.store import check_policy
from router.shell.output import format_bytes
from tests.support.dead_letters import a_stored_dead_letter
from tests.support.policy import a_document, a_provider
from tests.support.registry import an_entry
from tests.support.requests import a_message

SERVERS = None  # the server's max_payload


class Entrance(NamedTuple):
    """`refuses`: whether these bytes are turned away."""

    refuses: Callable[[bytes], bool]
    most_bytes: int | None
    around: bytes = b'{"x":%b}'  # what the depth stands in


def _raises(read: Callable[[bytes], Any]) -> Callable[[bytes], bool]:
    def refuses(data: bytes) -> bool:
        try:
            read(data)
        except RouterError:
            return True
        return False

    return refuses


def _faults(
    read: Callable[[Any], Any], subject: str = "x.event.made.v1"
) -> Callable[[bytes], bool]:
    def refuses(data: bytes) -> bool:
        found = read(a_message(data, subject=subject))
        return isinstance(getattr(found, "asked", getattr(found, "found", found)), Fault)

    return refuses


POLICY = orjson.dumps(a_document(a_provider("x"), metadata={"y": 0})).replace(b'"y":0', b'"y":%b')
ENTRY = orjson.dumps(an_entry("guard", metadata={"y": 0})).replace(b'"y":0', b'"y":%b')
RECORD = record_bytes(make_record({"y": 0}, version=1, author="a")).replace(b"0}", b"%b}")
CHUNK = b'{"request_id":"r","data":"x","done":true,"metadata":{"a":%b}}'

ENTRANCES = {
    "decide": Entrance(_faults(read_decide), MAX_PAYLOAD_BYTES),
    "results": Entrance(_faults(read_result), MAX_PAYLOAD_BYTES),
    "acks": Entrance(_faults(read_acknowledgement), MAX_PAYLOAD_BYTES),
    "heartbeats": Entrance(
        lambda data: isinstance(read_heartbeat(data, 1), Fault), MAX_HEARTBEAT_BYTES
    ),
    "ingress": Entrance(
        _raises(lambda data: read_body_of(data, DEFAULT_LIMITS)), MAX_PAYLOAD_BYTES
    ),
    "admin services": Entrance(
        _raises(lambda data: RequestGuard().open(data, {})), MAX_PAYLOAD_BYTES
    ),
    "extension answers: pre, post": Entrance(
        _raises(read_processor_answer), MAX_PAYLOAD_BYTES + 2 * MAX_METADATA_BYTES
    ),
    "extension answers: validators": Entrance(
        _raises(read_validator_answer), MAX_METADATA_BYTES, b'{"status":"ok","details":%b}'
    ),
    "provider invocations": Entrance(
        _raises(lambda data: read_request(data, {})), MAX_PAYLOAD_BYTES
    ),
    "provider answers": Entrance(
        _raises(lambda data: read_answer(data, "p")), MAX_PAYLOAD_BYTES, b'{"output":%b}'
    ),
    "provider streams": Entrance(
        _raises(lambda data: read_piece(data, "p")), MAX_PAYLOAD_BYTES, CHUNK
    ),
    "provider streams, at a client": Entrance(_raises(read_chunk), SERVERS, CHUNK),
    "bus": Entrance(_raises(read_bus_envelope), MAX_PAYLOAD_BYTES),
    "agents": Entrance(
        _raises(lambda data: read_agent_envelope(a_message(data))),
        MAX_PAYLOAD_BYTES,
        b'{"type":"t","payload":%b}',
    ),
    "inbox": Entrance(_faults(read_event), MAX_PAYLOAD_BYTES),
    "policy files": Entrance(
        _raises(lambda data: load_policy(data, "acme", "default")), MAX_POLICY_BYTES, POLICY
    ),
    "policies, as they are put": Entrance(
        _raises(lambda data: check_policy(data, "acme", "default")), MAX_POLICY_BYTES, POLICY
    ),
    "policies in their bucket": Entrance(_raises(read_record), SERVERS, RECORD),
    "extension entries": Entrance(_raises(load_entry), MAX_ENTRY_BYTES, ENTRY),
    "extensions in their bucket": Entrance(
        _raises(lambda data: read_registered(Held("guard", data, 1, 0))),
        MAX_ENTRY_BYTES + 4096,
        ENTRY,
    ),
    "dead letters, exported": Entrance(
        lambda data: as_full_fields(parse(a_stored_dead_letter(data)))["letter"] is None,
        SERVERS,
        b'{"reason":"x","y":%b}',
    ),
    "payloads, shown": Entrance(lambda data: not format_bytes(data).startswith("{\n"), 4096),
    "payloads, edited": Entrance(
        lambda data: "\n" not in (opened_in_an_editor(data) or ""), SERVERS
    ),
    "usage events in the lake": Entrance(lambda data: read_usage(data, 0) is None, SERVERS),
}


@pytest.mark.parametrize(
    "name", [name for name, entrance in ENTRANCES.items() if entrance.most_bytes is not None]
)
def test_what_is_too_large_is_turned_away_before_it_is_parsed(name: str) -> None:
    """Bytes that no parser could bear: they never get to one."""
    entrance = ENTRANCES[name]
    assert entrance.most_bytes is not None
    assert entrance.refuses(b"\xff" * (entrance.most_bytes + 1))
    assert entrance.refuses(entrance.around % (b'"%b"' % (b"x" * entrance.most_bytes)))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 300, 5_000])
@pytest.mark.parametrize("name", ENTRANCES)
def test_what_nests_too_deep_is_turned_away(name: str, depth: int) -> None:
    """Above 254 levels JSON can be read and never be written again; above a thousand Python's own
    stack ends.
    """
    inner = b"[" * depth + b"]" * depth
    assert ENTRANCES[name].refuses(ENTRANCES[name].around % inner)


@pytest.mark.parametrize(
    "name",
    [
        "policy files",
        "policies in their bucket",
        "extension entries",
        "provider streams, at a client",
        "dead letters, exported",
    ],
)
def test_what_is_deep_and_no_deeper_is_taken(name: str) -> None:
    entrance = ENTRANCES[name]
    inner = b"[" * 60 + b"]" * 60
    assert not entrance.refuses(entrance.around % (b'{"y":%b}' % inner))
