"""Edit one payload in the operator's editor."""

from __future__ import annotations

import orjson

from router.cli import ends
from router.contracts.codec import read_value
from router.contracts.malformed import Malformed


def edited(data: bytes) -> bytes | None:
    """Return the saved text; JSON is opened indented. None, with a line on standard error: unchanged, no text, or no longer JSON."""
    import click

    text = _text(data)
    if text is None:
        ends.complain("the payload is no text: it cannot be edited")
        return None
    saved = click.edit(text, extension=".json" if _is_json(data) else ".txt")
    if saved is None:
        ends.complain("nothing was changed: nothing is sent")
        return None
    if not _is_json(data):
        return saved.encode()
    try:
        return orjson.dumps(read_value(saved.encode(), len(saved.encode())))
    except Malformed as exc:
        ends.complain(f"what was saved is not JSON, so nothing is sent: {exc}")
        return None


def _text(data: bytes) -> str | None:
    try:
        return orjson.dumps(read_value(data, len(data)), option=orjson.OPT_INDENT_2).decode()
    except Malformed:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_json(data: bytes) -> bool:
    try:
        read_value(data, len(data))
    except Malformed:
        return False
    return True
