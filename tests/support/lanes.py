"""Which tests `make test` runs: the short lane, as tests/lanes.toml has it. `make test-all` runs
every test.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def read_lanes() -> dict[str, tuple[str, ...]]:
    """The entries of `slow` and of `short`."""
    lanes = tomllib.loads((TESTS / "lanes.toml").read_text())
    return {
        lane: tuple(entry for entries in groups.values() for entry in entries)
        for lane, groups in lanes.items()
    }


def is_short(address: str, *, is_marked: bool = False) -> bool:
    """Whether the short lane has a test. `is_marked`: as slow."""
    slow, short = (find_longest(address, read_lanes()[lane]) for lane in ("slow", "short"))
    if is_marked:
        return "::" in short and len(short) > len(slow)
    return len(short) >= len(slow)


def has_short_tests(path: str) -> bool:
    """Whether a file or a folder may have a test of the short lane."""
    return is_short(path) or any(entry.startswith(path) for entry in read_lanes()["short"])


def has_short_cases(address: str) -> bool:
    """Whether the short lane has a test only in some of its cases."""
    return any(entry.startswith(f"{address}[") for entry in read_lanes()["short"])


def find_longest(address: str, entries: Iterable[str]) -> str:
    return max((entry for entry in entries if covers(entry, address)), key=len, default="")


def covers(entry: str, address: str) -> bool:
    """A folder its files, a file its tests, a test its cases; no test another one whose name only
    begins as its own.
    """
    rest = address.removeprefix(entry)
    return address.startswith(entry) and (
        not rest or entry.endswith("/") or "[" in entry or rest.startswith(("::", "["))
    )
