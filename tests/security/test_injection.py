"""Names from outside, wherever one becomes part of a subject, key, path, label, header, statement
or file name.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from router.bus.subjects import UnknownSubject, command_subject, event_subject, query_subject
from router.config import load
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.provider_request import read_request as read_invocation
from router.contracts.result import read_result
from router.core import ids
from router.core.errors import Misconfigured, RouterError
from router.core.outcome import Fault
from router.decide.model.read import read
from router.delivery.kv.directory import Document, read_documents
from router.delivery.replies.reply_sender import ReplySender
from router.delivery.settings import ReplyConfig
from router.delivery.wire.calls.request_server import ReplyAddresses
from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import parse_head
from router.extensions.model import EntryError, load_entry
from router.mailbox.entities import EventSubject
from router.operate.admin import RequestGuard, ServiceError
from router.operate.admin.service import RequestFields
from router.operate.dead_letters import NotReplayed
from router.operate.dead_letters.original import ReplayOptions, _rebuild_from_dead_letter
from router.operate.dead_letters.parse import parse
from router.policies.model import PolicyError
from router.policies.store import check_ids
from router.process.observability import Metrics, render
from router.process.observability.instruments import MAX_LABEL, label_of
from router.sdk import Worker
from tests.support.dead_letters import a_dead_letter, a_failed_message, a_stored_dead_letter
from tests.support.extension_author import a_prompt
from tests.support.registry import an_entry
from tests.support.requests import a_body, a_message
from tests.support.sdk import a_body as an_assignment
from tests.support.workers import a_result

HOSTILE = {
    "a wildcard": "*",
    "the rest": ">",
    "a wildcard's token": "a.*.b",
    "an empty token": "a..b",
    "a space": "a b",
    "a tab": "a\tb",
    "a line break": "a\r\nNats-Rollup: all",
    "a frame": "a\r\nPUB $JS.API.STREAM.PURGE.X 0\r\n\r\n",
    "NUL": "a\x00b",
    "upwards": "../../etc/passwd",
    "an absolute path": "/etc/passwd",
    "a backslash": "..\\..\\x",
    "unicode": "ünï",
    "a line separator": "a\u2028b",
    "half a surrogate pair": "a\ud800",
    "over-long": "x" * 2000,
    "a quote": "a'; DROP TABLE outbox_events; --",
    "an API of the server": "$JS.API.STREAM.PURGE.X ",
    "a hidden name": "_shared ",
}
SAFE_KEY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=.")


def _refused(work: Callable[[], object], *errors: type[Exception]) -> bool:
    try:
        work()
    except errors:
        return True
    return False


def _bytes(body: object) -> bytes:
    """JSON, where half a surrogate pair has to be escaped to travel at all."""
    return json.dumps(body).encode()


def _asked(**body: Any) -> bool:
    """A decide request that bears it is refused."""
    return isinstance(read(a_message(_bytes(body))).asked, Fault)


def _header(name: str, value: str) -> bool:
    """A malformed header counts as absent (docs/reference/contracts.md#fields)."""
    reading = read(a_message(_bytes(a_body()), {name: value, "Nats-Msg-Id": "m"}))
    return value not in (reading.tenant_id, reading.trace_id, reading.answer_id)


def _is_scoped(value: str) -> bool:
    """A tenant or a policy may hold dots; as a key it is one part all the same, and as a path one
    name.
    """
    return ids.is_scoped(value) and "/" not in value and "." not in ids.key(value)


def _may_reach(address: str) -> bool:
    answers = SimpleNamespace(_prefixes=ReplyConfig().prefixes, _own=())
    return ReplySender._may_reach(answers, address) or ReplyAddresses().may_reach(address)  # type: ignore[arg-type]


def _replayed(value: str) -> bool:
    """A dead letter that names another subject than the one whose dead letters stand there is kept."""
    letter = a_dead_letter(a_failed_message())
    body = {**orjson.loads(letter.data), "original_subject": value}
    return isinstance(
        _rebuild_from_dead_letter(parse(a_stored_dead_letter(_bytes(body))), ReplayOptions()),
        NotReplayed,
    )


def _setting(name: str, value: str) -> bool:
    return _refused(lambda: load(None, {name: value}, {}), Misconfigured)


def _metric_label(value: str) -> bool:
    """A label is short text that a scrape gives back whole, and all of it can be printed: no name
    from outside begins another line.
    """
    metrics = Metrics((value,))
    metrics.violations["s", "h", "r", "t"] += 1
    clean = value.encode("utf-8", "replace").decode()
    metrics.extension_calls[metrics.extension[clean], "pre", "ok"] += 1
    families = text_string_to_metric_families(render(metrics.registry.snapshot()).decode())
    labels = [
        sample.labels
        for family in families
        for sample in family.samples
        if sample.name == "router_extension_calls_total"
    ]
    (label,) = [one["extension"] for one in labels]
    is_itself = label == clean or not clean.isprintable() or len(clean) > MAX_LABEL
    return (
        label == label_of(clean) and label.isprintable() and len(label) <= MAX_LABEL and is_itself
    )


PLACES: Mapping[str, Callable[[str], bool]] = {
    "decide: tenant": lambda value: _is_scoped(value) or _asked(**a_body(tenant_id=value)),
    "decide: policy": lambda value: _is_scoped(value) or _asked(policy_id=value, **a_body()),
    "decide: assignment subject": lambda value: _asked(
        push_assignment=True, assignment_subject=value, **a_body()
    ),
    "decide: header tenant": lambda value: _header("tenant_id", value) or _is_scoped(value),
    "decide: header trace": lambda value: _header("trace_id", value) or ids.is_opaque(value),
    "decide: reply address": lambda value: (
        not _may_reach(value)
        and (not _may_reach(f"_INBOX.{value}") or ids.is_literal_subject(f"_INBOX.{value}"))
    ),
    "result: tenant": lambda value: (
        _is_scoped(value)
        or isinstance(
            read_result(
                a_message(_bytes({**orjson.loads(a_result().data), "tenant_id": value}))
            ).found,
            Fault,
        )
    ),
    "assignment: id": lambda value: (
        ids.is_opaque(value)
        or _refused(lambda: read_exec_assignment(_bytes(an_assignment(value))), RouterError)
    ),
    "extension: id": lambda value: _refused(
        lambda: load_entry(_bytes(an_entry(value))), EntryError
    ),
    "extension: subject": lambda value: _refused(
        lambda: load_entry(_bytes(an_entry("guard", subject=value))), EntryError
    ),
    "extension: instance": lambda value: _refused(
        lambda: load_entry(
            _bytes(an_entry("guard", instances=[{"id": "a", "subject": f"x.{value}"}]))
        ),
        EntryError,
    ),
    "provider: id": lambda value: _refused(
        lambda: read_invocation(_bytes(a_prompt(provider_id=value)), {}), RouterError
    ),
    "admin: tenant": lambda value: (
        _is_scoped(value)
        or _refused(RequestFields({"tenant_id": value}).policy_tenant, ServiceError)
    ),
    "admin: policy": lambda value: (
        _is_scoped(value) or _refused(RequestFields({"policy_id": value}).policy_id, ServiceError)
    ),
    "admin: extension": lambda value: _refused(
        RequestFields({"id": value}).extension_id, ServiceError
    ),
    "policy store: key": lambda value: (
        _is_scoped(value)
        or (
            _refused(lambda: check_ids(value, "default"), PolicyError)
            and _refused(lambda: check_ids("acme", value), PolicyError)
        )
    ),
    "bucket: key": lambda value: SAFE_KEY.issuperset(
        ids.key(value.encode("utf-8", "replace").decode(), "x")
    ),
    "replay: original subject": _replayed,
    "bus: event type": lambda value: event_subject("sr", value) == "sr.events.other",
    "bus: command": lambda value: _refused(lambda: command_subject("sr", value), UnknownSubject),
    "bus: query": lambda value: _refused(lambda: query_subject("sr", value), UnknownSubject),
    "mailbox: context, event": lambda value: (
        _refused(lambda: EventSubject.from_parts(value, "made", 1), ValueError)
        and _refused(lambda: EventSubject.from_parts("sea", value, 1), ValueError)
    ),
    "worker: id": lambda value: (
        ids.is_opaque(value)
        or _refused(lambda: Worker("nats://x", print, worker_id=value), Misconfigured)
    ),
    "worker: durable": lambda value: _refused(
        lambda: Worker("nats://x", print, worker_id="w", durable=value), Misconfigured
    ),
    "metrics: label": _metric_label,
    **{
        f"setting: {name}": lambda value, name=name: _setting(name, value)
        for name in (
            "decide.durable",
            "streams.decide.name",
            "buckets.policies.name",
            "mailbox.context",
            "mailbox.db_schema",
            "admin.queue_group",
        )
    },
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_refused_or_harmless(place: str, hostile: str) -> None:
    """Issue 9: subject injection."""
    assert PLACES[place](HOSTILE[hostile])


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_value_begins_a_header_of_its_own(hostile: str) -> None:
    block = head_of({"tenant_id": HOSTILE[hostile], "version": "1"})
    assert block.count(b"\r\n") == 4  # the first line, two headers, the end
    assert block.count(b"\n") == 4
    assert list(parse_head(block) or ()) == ["tenant_id", "version"]


@pytest.mark.parametrize("name", ["..", "a b", "*", "x\ny", "_other", ".hidden"])
def test_a_directory_of_policies_is_read_one_level_down_and_nowhere_else(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret.json").write_text("{}")
    root = tmp_path / "policies"
    (root / "acme").mkdir(parents=True)
    (root / "acme" / "good.json").write_text("{}")
    if name != "..":
        (root / name).mkdir()
        (root / name / "default.json").write_text("{}")
    (root / "acme" / "link.json").symlink_to(tmp_path / "secret.json")
    assert [found.key for found in read_documents(root) if isinstance(found, Document)] == [
        ("acme", "good")
    ]


def test_a_key_is_compared_in_constant_time_whatever_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `hmac.compare_digest`, as bytes: with text it would raise for anything beyond ASCII."""
    seen: list[tuple[object, object]] = []
    monkeypatch.setattr(
        "router.operate.admin.request_guard.hmac.compare_digest",
        lambda one, other: bool(seen.append((one, other))),
    )
    for given in ("wrong", "ünï", "a\ud800", "x" * 5000):
        with pytest.raises(ServiceError):
            RequestGuard("sesame").open(b"", {"api_key": given})
    assert [(type(one), type(other)) for one, other in seen] == [(bytes, bytes)] * 4
