"""JSON values as YAML 1.2, for people: one key a line. It needs no library, because YAML takes
JSON's strings and numbers as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from router.contracts.usage import decimal

# Words that are text in every version of YAML; all others are written in quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def write_yaml(value: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in _write_block(value, ""))


def _write_block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _write_entry(f"{indent}{_write_scalar(name)}:", inner, f"{indent}  ")
    else:
        for inner in value:
            yield from _write_entry(f"{indent}-", inner, f"{indent}  ")


def _write_entry(start: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield start
        yield from _write_block(value, indent)
    else:
        yield f"{start} {_write_scalar(value)}"


def _write_scalar(value: Any) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _RESERVED
        return value if is_plain else "".join(map(_escape, orjson.dumps(value).decode()))
    if isinstance(value, float):
        return decimal(value)
    return orjson.dumps(value).decode()


def _escape(letter: str) -> str:
    """YAML refuses letters that cannot be printed; JSON leaves some of them as they are."""
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
