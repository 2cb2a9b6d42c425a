"""Edit one payload in the operator's editor."""

from __future__ import annotations

from router.contracts.codec import require_foreign_value
from router.contracts.json_layout import indent, pack
from router.contracts.malformed import Malformed
from router.shell import exit_codes


def edit_payload(data: bytes) -> bytes | None:
    """Return the saved text; JSON is opened indented. None, with a line on standard error: unchanged, no text, or no longer JSON."""
    import click

    text = _decode_text(data)
    if text is None:
        exit_codes.complain("the payload is no text, so it cannot be edited: replay it without --edit, or discard it")
        return None
    try:
        saved = click.edit(text, extension=".json" if _is_json(data) else ".txt")
    except (click.ClickException, ValueError) as exc:  # no such program, its status, a quote that is not closed, a text that is not UTF-8
        exit_codes.complain(f"the editor failed, so nothing is sent: {exc}")
        return None
    if saved is None:
        exit_codes.complain("nothing was changed: nothing is sent")
        return None
    if not _is_json(data):
        return saved.encode()
    try:
        return _pack_json(saved.encode())
    except Malformed as exc:
        exit_codes.complain(f"what was saved is not JSON, so nothing is sent: {exc}")
        return None


def _pack_json(data: bytes) -> bytes:
    """Every number, escape and key as it stands there. Raises Malformed."""
    require_foreign_value(data, len(data))
    return pack(data)


def _decode_text(data: bytes) -> str | None:
    if _is_json(data):
        return indent(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_json(data: bytes) -> bool:
    try:
        require_foreign_value(data, len(data))
    except Malformed:
        return False
    return True
