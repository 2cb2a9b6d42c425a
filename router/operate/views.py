"""How dead letters, violations of the header contract, findings of the doctor, and the topology
are shown.

A command lists them in a terminal, or as JSON; a page in a table: both by these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from router.delivery.wire.topology import Difference
from router.operate.dead_letters import DeadLetter, DeadLetterGroup, DeadLetterHead, as_fields
from router.operate.violations import ViolationGroup
from router.shell.output import format_time
from router.shell.table import Row
from router.shell.view import View, ViewColumn


def _describe_error(dead_letter: DeadLetter | DeadLetterHead) -> str:
    return " at ".join(text for text in (dead_letter.code, dead_letter.field) if text)


def _link_dead_letter(dead_letter: DeadLetterHead) -> Row:
    return {"address": f"/dead-letters/{dead_letter.sequence}"}


# A terminal lists a `DeadLetter` (`dead_letters.parse`), the console a `DeadLetterHead`
# (`dead_letters.heads`), in which the same name means the same. What a column names must be there:
# `tests/cli/test_views.py` says where it is not.
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


def make_groups_view(
    names: Sequence[str],
    *,
    links: Callable[[DeadLetterGroup], Row] = lambda _: {},
    has_size: bool = False,
) -> View:
    """Return the view of dead letters that are counted by kind, whose parts are `names`; with their
    size in place of the last one's number.
    """
    size = ViewColumn("bytes", "MB", tell=lambda count: f"{count / 1e6:.1f}")
    last = ViewColumn("last_sequence", "last seq", "Last", kind="id", href="last_address")
    return View(
        ViewColumn("count", "dead letters", "Dead letters", kind="number"),
        *(_make_part(place, name) for place, name in enumerate(names)),
        *([size] if has_size else []),
        ViewColumn("oldest", label="Oldest", tell=_cut_time, kind="time"),
        ViewColumn("newest", label="Newest", tell=_cut_time, kind="time"),
        *([] if has_size else [last]),
        fields=lambda group: {**dict(zip(names, group.kind, strict=True)), **group.facts()},
        links=links,
        page_first=names,
    )


def _make_part(place: int, name: str) -> ViewColumn:
    href = "address" if name == "subject" else None
    return ViewColumn(name, label=name.capitalize(), of=lambda group: group.kind[place], href=href)


def _cut_time(time: str) -> str:
    return time[:19]


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
    return ViewColumn(name, label=name.capitalize(), of=f"of.{name}")


def _list_violation_fields(group: ViolationGroup) -> Mapping[str, object]:
    fields = to_builtins(group)
    return {**fields.pop("of"), **fields}


class DeclaredPart(Struct, frozen=True):
    """A stream or consumer that a router declares. `info`: what the server says of a stream;
    `difference`: what is not as declared.
    """

    kind: str
    name: str
    difference: Difference | None
    info: Mapping[str, Any] | None = None

    @property
    def state(self) -> str:
        return self.difference.state if self.difference is not None else "as declared"


def _describe_difference(difference: Difference) -> str:
    lines = [*_list_changes(difference), difference.remedy]
    return difference.cause or "\n".join(line for line in lines if line)


def _list_changes(difference: Difference) -> Sequence[str]:
    return [f"{name}: {want!r} / {has!r}" for name, (want, has) in difference.fields.items()]


def _find_changes(part: DeclaredPart) -> str | None:
    return "; ".join(_list_changes(part.difference)) or None if part.difference else None


def _find_limit(part: DeclaredPart) -> int | None:
    most = part.info["config"]["max_bytes"] if part.info is not None else 0
    return most if most > 0 else None


_KIND, _NAME = ViewColumn("kind", "", "Kind"), ViewColumn("name", label="Name")

# `router topology plan` lists each `Difference`, the console each `DeclaredPart`, with its size.
TOPOLOGY = View(
    _KIND,
    _NAME,
    ViewColumn("state", label="State", kind="verdict"),
    ViewColumn("messages", None, "Messages", "info.state.messages", kind="number"),
    ViewColumn("bytes", None, "Bytes", "info.state.bytes", kind="number"),
    ViewColumn("max_bytes", None, "At most", _find_limit, kind="number"),
    ViewColumn("replicas", None, "Copies", "info.config.num_replicas", kind="number"),
    ViewColumn("changes", "declared / on the server", of=_describe_difference),
    ViewColumn("differs", None, "Declared / on the server", of=_find_changes, kind="prose"),
    page_first=("state",),
)

# by the state before
DONE = {
    "missing": "made",
    "drifted": "brought back",
    "widened": "brought back",
    "unbatched": "brought back",
}
APPLIED = View(
    _KIND,
    _NAME,
    ViewColumn("done", of=lambda difference: DONE[difference.state]),
    ViewColumn("changes", "declared / before", of=_describe_difference),
    fields=lambda difference: {**to_builtins(difference), "done": DONE[difference.state]},
)
