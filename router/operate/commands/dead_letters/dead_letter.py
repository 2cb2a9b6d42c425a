"""A dead letter, printed for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from router.operate.dead_letters import DeadLetter
from router.shell.formatting import format_bytes, format_time
from router.shell.output import build_grid, build_heading, build_panel, open_console


def build_row(letter: DeadLetter) -> Sequence[object]:
    """Return one line of a list."""
    stored, subject = format_time(letter.stored_at), letter.original_subject
    error = " at ".join(text for text in (letter.code, letter.field) if text)
    return (letter.sequence, stored, subject, letter.reason, error, letter.tenant_id, letter.msg_id)


def print_dead_letter(letter: DeadLetter) -> None:
    """Print the whole dead letter in a frame: what happened, the message's headers, its payload."""
    parts: list[RenderableType] = [build_grid(_list_facts(letter))]
    if letter.headers:
        parts += [build_heading("headers"), build_grid(letter.headers.items())]
    parts.append(
        build_heading("payload" + (f"  ({letter.payload_note})" if letter.payload_note else ""))
    )
    parts.append(Text(format_bytes(letter.payload) if letter.payload is not None else ""))
    open_console().print(build_panel(f"dead letter {letter.sequence}", parts))


def _list_facts(letter: DeadLetter) -> list[tuple[str, object]]:
    source = letter.source
    unconfirmed = (
        " (the first of them not confirmed: its process died)"
        if source.attempts_unconfirmed
        else ""
    )
    place = (
        f"{source.stream} {source.sequence}, delivery {source.deliveries}, start "
        f"{source.attempts}{unconfirmed}"
    )
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
        ("from", place if source.stream else None),
    ]
    return [(name, value) for name, value in facts if value]
