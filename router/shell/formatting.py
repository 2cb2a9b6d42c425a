"""Format times for tables, and bytes from outside so that they are safe to print: JSON indented,
text escaped, the rest as hexadecimal.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.contracts.codec import require_foreign_value
from router.contracts.json_layout import indent
from router.contracts.malformed import Malformed
from router.shell.output import printable

MAX_SHOWN_BYTES = 4096  # bytes; --json shows all of them
BYTES_PER_ROW = 16


def format_time(time: str) -> str:
    """Format an RFC 3339 time for a table, to the second."""
    return time[:19].replace("T", " ")


def format_bytes(data: bytes) -> str:
    """Format at most the first 4096 bytes, safe on any terminal."""
    if len(data) <= MAX_SHOWN_BYTES:
        return _format_json(data) or _format_text(data, data)
    return (
        f"{_format_text(data, data[:MAX_SHOWN_BYTES])}\n"
        f"… and {len(data) - MAX_SHOWN_BYTES} more bytes"
    )


def _format_json(data: bytes) -> str | None:
    try:
        require_foreign_value(data, MAX_SHOWN_BYTES)
    except Malformed:
        return None
    return printable(indent(data))


def _format_text(data: bytes, head: bytes) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(_format_hex(head))
    return printable(head.decode("utf-8", "ignore"))  # a character that was cut in two is left out


def _format_hex(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), BYTES_PER_ROW):
        row = data[start : start + BYTES_PER_ROW]
        ascii_ = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:06x}  {row.hex(' '):<{3 * BYTES_PER_ROW - 1}}  {ascii_}"
