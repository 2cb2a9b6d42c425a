"""Format policies, versions and differences: a row for people and an object for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from router.app.policy_store import StoredPolicy
    from router.buckets.versioned_store import Change
    from router.policy.difference import DocumentDifference

DELETED = "deleted"


def list_stored_fields(one: StoredPolicy) -> dict[str, object]:
    record = one.record
    written = {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}
    return {"tenant": one.tenant_id, "policy": one.policy_id, **written}


def build_stored_row(one: StoredPolicy) -> tuple[object, ...]:
    record = one.record
    return (one.tenant_id, one.policy_id, record.version, record.author, _format_minute(record.time), record.hash[:12])


def list_change_fields(change: Change[StoredPolicy]) -> dict[str, object]:
    if change.document is None:
        time = datetime.fromtimestamp(change.stored_ns / 1e9, UTC).isoformat(timespec="milliseconds")
        return {"version": DELETED, "author": None, "time": time, "hash": None}
    record = change.document.record
    return {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}


def list_difference_fields(one: DocumentDifference) -> dict[str, object]:
    """Leave out `before` or `after` if it has no value."""
    from router.policy.difference import ABSENT

    sides = {"before": one.before, "after": one.after}
    return {"path": one.path, **{name: value for name, value in sides.items() if value is not ABSENT}}


def build_difference_row(one: DocumentDifference) -> tuple[str, str, str]:
    return (one.path, _format_value(one.before), _format_value(one.after))


def _format_value(value: object) -> str:
    from router.policy.difference import ABSENT

    return "–" if value is ABSENT else orjson.dumps(value).decode()


def _format_minute(time: str) -> str:
    return time[:19].replace("T", " ")
