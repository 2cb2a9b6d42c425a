"""One payload in the operator's editor."""

from __future__ import annotations

import click
import orjson

from router.cli import ends


def edited(data: bytes) -> bytes | None:
    """What was saved; JSON is opened indented. None, and said why: not changed, no text, or JSON no more."""
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
        return orjson.dumps(orjson.loads(saved))
    except orjson.JSONDecodeError as exc:
        ends.complain(f"what was saved is not JSON, so nothing is sent: {exc}")
        return None


def _text(data: bytes) -> str | None:
    try:
        return orjson.dumps(orjson.loads(data), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
