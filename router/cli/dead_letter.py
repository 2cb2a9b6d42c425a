"""A dead letter, printed for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from router.cli.formatting import format_bytes
from router.cli.output import build_grid, build_heading, open_console

if TYPE_CHECKING:
    from router.operations.deadletters import DeadLetter


def build_row(letter: DeadLetter) -> Sequence[object]:
    """Return one line of a list."""
    stored, subject = letter.stored_at[:19].replace("T", " "), letter.original_subject
    error = " at ".join(text for text in (letter.code, letter.field) if text)
    return (letter.sequence, stored, subject, letter.reason, error, letter.tenant_id, letter.msg_id)


def print_dead_letter(letter: DeadLetter) -> None:
    open_console().print(build_panel(letter))


def build_panel(letter: DeadLetter) -> Panel:
    """Return the whole dead letter in a frame: what happened, the message's headers, its payload."""
    body = format_bytes(letter.payload) if letter.payload is not None else ""
    parts: list[RenderableType] = [build_grid(_list_facts(letter))]
    if letter.headers:
        parts += [build_heading("headers"), build_grid(letter.headers.items())]
    parts += [build_heading("payload" + (f"  ({letter.payload_note})" if letter.payload_note else "")), Text(body)]
    title = f"dead letter {letter.sequence}"
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, border_style="dim", padding=(0, 1), expand=False)


def _list_facts(letter: DeadLetter) -> list[tuple[str, object]]:
    source = letter.source
    unconfirmed = " (the first of them not confirmed: its process died)" if source.attempts_unconfirmed else ""
    place = f"{source.stream} {source.sequence}, delivery {source.deliveries}, start {source.attempts}{unconfirmed}"
    origin = place if source.stream else None
    facts: list[tuple[str, object]] = [
        ("subject", letter.original_subject),
        ("reason", letter.reason),
        ("error", ": ".join(text for text in (letter.code, letter.message) if text)),
        ("field", letter.field),
        ("stage", letter.stage),
        ("tenant", letter.tenant_id),
        ("request", letter.request_id),
        ("message id", letter.msg_id),
        ("trace", letter.trace_id),
        ("stored", letter.stored_at),
        ("from", origin),
    ]
    return [(name, value) for name, value in facts if value]
