"""A payload for a person: laid out to read and edit, and with the values of masked names hidden.

    {"n":1.0,"e":"\\u00e9"}    indent ->    {\\n  "n": 1.0,\\n  "e": "\\u00e9"\\n}    pack ->    the
                                                  same bytes

Numbers, escapes, equal keys and their order stay as they were written, so what was not edited is
sent as it came. Both take JSON that was read before (`codec.require_foreign_value`); of other bytes
nothing is promised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from router.contracts.codec import check_limits
from router.contracts.exact_json import load_written
from router.contracts.malformed import Malformed
from router.core.ids import sha256_hex
from router.core.masking import mask_secrets

# A string that never closes runs to the end, so hostile text costs one pass.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_OPENINGS, _CLOSINGS = frozenset("[{"), frozenset("]}")


def indent(data: bytes) -> str:
    return "".join(_lay_out(_TOKEN.findall(data.decode())))


def pack(data: bytes) -> bytes:
    return "".join(_TOKEN.findall(data.decode())).encode()


def _lay_out(pieces: list[str]) -> Iterator[str]:
    depth, before = 0, ""
    for piece in pieces:
        is_end, is_first = piece in _CLOSINGS, before in _OPENINGS
        depth -= is_end
        if before == "," or is_end != is_first:  # `[]` stays on one line
            yield "\n" + "  " * depth
        yield ": " if piece == ":" else piece
        depth += piece in _OPENINGS
        before = piece


# -- A message's payload for people: JSON with the values of masked names hidden; what cannot be
# masked is described, not shown.
#
# Every number is there with its digits (`exact_json.load_written`), so it is written by
# `dump_json`.


def describe_payload(data: bytes) -> dict[str, Any]:
    """`{"payload": …}` of a JSON object or list, masked; `{"payload_sha256": …}` of all other
    bytes.
    """
    try:
        check_limits(data, len(data))
        payload = load_written(data)
    except (Malformed, ValueError):
        payload = None
    return (
        {"payload": mask_secrets(payload)}
        if isinstance(payload, dict | list)
        else {"payload_sha256": sha256_hex(data)}
    )
