"""A profile by rooms: what a message costs in each, in calls and as a share of the time.

    python -m bench --only decide_backlog --scale 0.25 --profile FILE
    python -m bench.rooms FILE.router.decide.prof --messages 25000

What C does is counted where it was called from. Waiting for the socket (`poll`) counts for no room.
cProfile makes Python calls dear, so the shares show where Python works, and are wrong about what C
does.
"""

from __future__ import annotations

import argparse
import pstats
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Function = tuple[str, int, str]  # file, line, name
# calls without recursion, calls, own seconds, all seconds: of those from there
Callers = dict[Function, tuple[int, int, float, float]]
Stats = dict[Function, tuple[int, int, float, float, Callers]]
LEAST_SHARE = 0.01
NOT_WORK = "'poll' of 'select.epoll'"
ROOT = "router"


def rooms(file: Path) -> dict[str, tuple[float, int]]:
    """Seconds and calls by room."""
    by_room: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for room, seconds, calls in _spent(pstats.Stats(str(file)).stats):  # type: ignore[attr-defined]
        before = by_room[room]
        by_room[room] = before[0] + seconds, before[1] + calls
    return dict(by_room)


def _spent(stats: Stats) -> Iterator[tuple[str, float, int]]:
    for function, (_, calls, seconds, _, callers) in stats.items():
        if NOT_WORK in function[2]:
            continue
        if function[0] != "~" or not callers:
            yield room_of(function[0]), seconds, calls
            continue
        for caller, (_, from_there, its_seconds, _) in callers.items():
            yield room_of(caller[0]), its_seconds, from_there


def room_of(file: str) -> str:
    """`router/decide/model` for ours, else the package it comes from."""
    parts = Path(file).parts
    if "site-packages" in parts:
        return Path(parts[parts.index("site-packages") + 1]).stem
    if ROOT in parts:
        rest = parts[len(parts) - parts[::-1].index(ROOT) :]
        # each file of core is a thing of its own
        folders = rest[:2] if rest[0] == "core" else rest[:-1][:2]
        return "/".join((ROOT, *folders)).removesuffix(".py")
    return "asyncio" if "asyncio" in parts or Path(file).stem == "selectors" else "elsewhere"


def table(by_room: dict[str, tuple[float, int]], messages: int) -> str:
    """As Markdown, the dearest room first; what is below a hundredth is one line."""
    whole = sum(seconds for seconds, _ in by_room.values())
    rows = sorted(
        ((seconds / whole, calls / messages, room) for room, (seconds, calls) in by_room.items()),
        reverse=True,
    )
    big = [row for row in rows if row[0] >= LEAST_SHARE]
    small = [row for row in rows if row[0] < LEAST_SHARE]
    big.append((sum(row[0] for row in small), sum(row[1] for row in small), "all others"))
    lines = [f"| {room} | {calls:.1f} | {share:.0%} |" for share, calls, room in big]
    total = f"| together | {sum(row[1] for row in rows):.1f} | |"
    return (
        "\n".join(
            [
                "| room | calls a message | share of the time |",
                "| --- | ---: | ---: |",
                *lines,
                total,
            ]
        )
        + "\n"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.rooms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", type=Path, help="what `--profile` wrote for the process that is asked about"
    )
    parser.add_argument("--messages", type=int, required=True, help="how many it handled")
    options = parser.parse_args(arguments)
    if not options.file.is_file():
        print(
            (
                f"bench.rooms: {options.file} is no file: `python -m bench --only … --profile "
                f"{options.file}` writes some"
            ),
            file=sys.stderr,
        )
        return 2
    print(table(rooms(options.file), options.messages), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
