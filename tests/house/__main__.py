"""How many offenders each rule still finds, by room: `python -m tests.house`.

--list ROOM    the offenders of one room (delivery, tests/serve), with their places
--write        take off the lists what offends no more; a new offender is never listed
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.house.listed import RULES, read_list, shrink_list
from tests.house.measure import REPOSITORY, Places


def main(arguments: Sequence[str]) -> int:
    found = {rule: find() for rule, find in RULES.items()}
    if "--write" in arguments:
        for rule, places in found.items():
            shrink_list(rule, set(places))
    if "--list" in arguments:
        print_room(arguments[arguments.index("--list") + 1], found)
    else:
        print_counts(found)
    new = {rule: sorted(set(places) - read_list(rule)) for rule, places in found.items()}
    for rule, names in new.items():
        if names:
            print(f"new in {rule}: {', '.join(names)}", file=sys.stderr)
    return 1 if any(new.values()) else 0


def print_counts(found: dict[str, Places]) -> None:
    """A line for each room, a column for each rule: in how many places it is broken."""
    counts = {
        rule: Counter(room_of(file) for files in places.values() for file in files)
        for rule, places in found.items()
    }
    print(f"{'room':28}" + "".join(f"{rule:>20}" for rule in found))
    for room in sorted(set().union(*counts.values())):
        print(f"{room:28}" + "".join(f"{counts[rule][room]:20}" for rule in found))
    print(f"{'places':28}" + "".join(f"{counts[rule].total():20}" for rule in found))
    print(f"{'names':28}" + "".join(f"{len(places):20}" for places in found.values()))


def print_room(room: str, found: dict[str, Places]) -> None:
    for rule, places in found.items():
        print(f"{rule}:")
        for name, files in sorted(places.items()):
            if here := sorted(
                {str(file.relative_to(REPOSITORY)) for file in files if room_of(file) == room}
            ):
                print(f"  {name}" + ("" if here == [name] else f"    {', '.join(here)}"))


def room_of(file: Path) -> str:
    """`delivery` for router/delivery/consume/pull.py, `core` for router/core/clock.py,
    `tests/serve` for tests/serve/test_x.py.
    """
    folder, *rest = file.relative_to(REPOSITORY).parts
    within = rest[0] if len(rest) > 1 else ""
    return (within or folder) if folder == "router" else f"{folder}/{within}".rstrip("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
