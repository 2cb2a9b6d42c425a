"""The figures of the house beside their ceilings: `python -m tests.house.figures`.

    (no option)     a table: figure, today, ceiling, goal
    --set           make today's figures the ceilings, and say which of them rise
    --features      which files belong to which feature, and in which rooms they stand
    --slips         the small files that one file beside them imports
    --sentences     the long sentences, page by page

A ceiling may only fall. Exit status: 0, or 1 when a figure is above its ceiling.
"""

import sys
import tomllib
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from tests.house.code_figures import (
    average_rooms,
    count_arguments,
    count_files,
    count_router_lines,
    count_slips,
    count_test_lines,
    find_slips,
    list_files_of,
    list_rooms,
    measure_imports,
    measure_wide_lines,
    read_features,
)
from tests.house.decide_request import find_files, list_transport
from tests.house.long_sentences import EASY, count_long_sentences, find_long_sentences, list_pages
from tests.house.measure import HERE, REPOSITORY

CEILINGS = HERE / "ceilings.toml"
HEAD = (
    "# What the figures of the house may be at most. `python -m tests.house.figures --set` "
    "writes today's.\n"
)
WORTH_LOWERING = 0.02


class HouseFigure(NamedTuple):
    """What is measured, how, and what it shall become; None where it shall only not grow."""

    title: str
    measure: Callable[[], float]
    goal: float | None


FIGURES = {
    "rooms_of_a_feature": HouseFigure(
        "rooms that a feature's files stand in (mean of 15)", average_rooms, 2
    ),
    "files": HouseFigure("files of router/ (generated aside)", count_files, 520),
    "imports_percent": HouseFigure("imports, share of code lines, percent", measure_imports, 11),
    "router_lines": HouseFigure("lines of router/ (generated aside)", count_router_lines, 74_000),
    "wide_lines_percent": HouseFigure("lines above 100 columns, percent", measure_wide_lines, 1),
    "slips": HouseFigure("small files with one importer, beside them", count_slips, None),
    "constructor_arguments": HouseFigure("arguments of the widest constructor", count_arguments, 8),
    "long_sentences": HouseFigure(
        "sentences above 40 words (README, docs, ARCHITECTURE)", count_long_sentences, 0
    ),
    "sentences_to_split": HouseFigure(
        f"sentences above {EASY} words, there", lambda: count_long_sentences(limit=EASY), 0
    ),
    "test_lines": HouseFigure("lines of tests and rigs", count_test_lines, 76_000),
    "request_files": HouseFigure(
        "files of a decide request, socket to ack", lambda: len(find_files()), 16
    ),
    "transport_files": HouseFigure(
        "of them transport (delivery/)", lambda: len(list_transport(find_files())), 6
    ),
}


def main(arguments: Sequence[str]) -> int:
    for option, show in {
        "--features": print_features,
        "--slips": print_slips,
        "--sentences": print_sentences,
    }.items():
        if option in arguments:
            show()
            return 0
    figures = {name: round_up(figure.measure()) for name, figure in FIGURES.items()}
    ceilings = read_ceilings()
    if "--set" in arguments:
        print_raised(figures, ceilings)
        CEILINGS.write_text(format_ceilings(figures))
        ceilings = figures
    print_table(figures, ceilings)
    return 1 if any(value > ceilings[name] for name, value in figures.items()) else 0


def round_up(value: float) -> float:
    """To two digits, so that a figure is not above the ceiling that it became."""
    return value if isinstance(value, int) else ceil(value * 100) / 100


def read_ceilings() -> dict[str, float]:
    return tomllib.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}


def format_ceilings(figures: dict[str, float]) -> str:
    return HEAD + "".join(f"{name} = {value}\n" for name, value in figures.items())


def is_worth_lowering(value: float, ceiling: float) -> bool:
    return value <= ceiling * (1 - WORTH_LOWERING) and value < ceiling


def print_raised(figures: dict[str, float], ceilings: dict[str, float]) -> None:
    for name, value in figures.items():
        if name in ceilings and value > ceilings[name]:
            print(f"RAISED: {FIGURES[name].title}: {ceilings[name]} -> {value}")


def print_table(figures: dict[str, float], ceilings: dict[str, float]) -> None:
    rows = [
        (FIGURES[name].title, value, ceilings[name], FIGURES[name].goal)
        for name, value in figures.items()
    ]
    print(f"{'figure':56} {'today':>8} {'ceiling':>8} {'goal':>8}")
    for title, value, ceiling, goal in rows:
        print(
            f"{title:56} {value:>8} {ceiling:>8} "
            f"{'' if goal is None else goal:>8}{'  ABOVE' if value > ceiling else ''}"
        )


def print_features() -> None:
    for name, patterns in read_features().items():
        files = list_files_of(patterns)
        rooms = list_rooms(files)
        print(
            f"{name}: {len(files)} files in {len(rooms)} rooms ({', '.join(rooms)})",
            *(f"    {file}" for file in files),
            sep="\n",
        )


def print_slips() -> None:
    print(*(file.relative_to(REPOSITORY) for file in find_slips()), sep="\n")


def print_sentences() -> None:
    for page in list_pages():
        for sentence in find_long_sentences(page.read_text(), EASY):
            print(f"{page.relative_to(REPOSITORY)}: {sentence}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
