"""How dead letters, violations of the header contract, and findings of the doctor are shown.

A command lists them in a terminal, or as JSON; a page in a table: both by these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from router.operate.dead_letters import DeadLetter, DeadLetterHead, as_fields
from router.operate.violations import ViolationGroup
from router.shell.formatting import format_time
from router.shell.table import Row
from router.shell.view import View, ViewColumn


def _describe_error(letter: DeadLetter) -> str:
    return " at ".join(text for text in (letter.code, letter.field) if text)


def _link_dead_letter(letter: DeadLetterHead) -> Row:
    return {"address": f"/dead-letters/{letter.sequence}"}


# A terminal lists a `DeadLetter`, the console a `DeadLetterHead`.
# A column that both show is a field of both.
DEAD_LETTERS = View(
    ViewColumn("sequence", "seq", "No.", kind="id", href="address"),
    ViewColumn("stored", label="Stored", of="stored_at", tell=format_time, kind="time"),
    ViewColumn("subject", label="Subject", of="original_subject"),
    ViewColumn("reason", label="Reason"),
    ViewColumn("error", of=_describe_error),
    ViewColumn("code", None, "Code"),
    ViewColumn("field", None, "Field"),
    ViewColumn("tenant", label="Tenant", of="tenant_id"),
    ViewColumn("message_id", of="msg_id"),
    ViewColumn("bytes", None, "Bytes", of="size", kind="number"),
    fields=as_fields,
    links=_link_dead_letter,
)

FINDINGS = View(
    ViewColumn("verdict", "", "Verdict", of="verdict.value", kind="verdict"),
    ViewColumn("check", label="Check"),
    ViewColumn("found", label="Found", kind="prose"),
    ViewColumn("remedy", "what to do", "What to do", page=lambda text: text or None, kind="prose"),
)


def make_violations_view(names: Sequence[str]) -> View:
    """Return the view of violations that are added up by these dimensions."""
    return View(
        *(_make_dimension(name) for name in names),
        ViewColumn("violations", label="Violations", of="count", kind="number"),
        ViewColumn("messages", label="Messages", kind="number"),
        ViewColumn("first_seen", label="First seen", tell=format_time, kind="time"),
        ViewColumn("last_seen", label="Last seen", tell=format_time, kind="time"),
        ViewColumn("example", "seq", "Example", kind="id", href="address"),
        ViewColumn("message_id"),
        fields=_list_violation_fields,
        links=lambda group: {"address": f"/contract/{group.example}"},
    )


def _make_dimension(name: str) -> ViewColumn:
    return ViewColumn(name, label=name.capitalize(), of=lambda group: group.of[name])


def _list_violation_fields(group: ViolationGroup) -> Mapping[str, object]:
    fields = to_builtins(group)
    return {**fields.pop("of"), **fields}
