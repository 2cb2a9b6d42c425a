"""JSON laid out for a person to read and edit, and packed again: only the space between its tokens
changes.

    {"n":1.0,"e":"\\u00e9"}    indent ->    {\\n  "n": 1.0,\\n  "e": "\\u00e9"\\n}    pack ->    the
                                                  same bytes

Numbers, escapes, equal keys and their order stay as they were written, so what was not edited is
sent as it came. Both take JSON that was read before (`codec.require_foreign_value`); of other bytes
nothing is promised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A string that never closes runs to the end, so hostile text costs one pass.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_OPENINGS, _CLOSINGS = frozenset("[{"), frozenset("]}")


def indent(data: bytes) -> str:
    return "".join(_lay_out(_TOKEN.findall(data.decode())))


def pack(data: bytes) -> bytes:
    return "".join(_TOKEN.findall(data.decode())).encode()


def _lay_out(found: list[str]) -> Iterator[str]:
    depth, before = 0, ""
    for one in found:
        is_end, is_first = one in _CLOSINGS, before in _OPENINGS
        depth -= is_end
        if before == "," or is_end != is_first:  # `[]` stays on one line
            yield "\n" + "  " * depth
        yield ": " if one == ":" else one
        depth += one in _OPENINGS
        before = one
