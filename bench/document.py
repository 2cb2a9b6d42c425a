"""What a run came to, as it is kept: JSON that holds every round of every side, and is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bench.rounds import Answer, Line, Rounds, lines
from bench.ways import DEFAULT, Way

NONE: Mapping[str, str] = {}


class Asked(Struct, frozen=True):
    """One question: what was measured, by side and round; `seconds` is how long that took."""

    asks: str
    rounds: Rounds
    seconds: float = 0.0
    # in the other ways, by their names
    beside: Mapping[str, Rounds] = {}


class Document(Struct, frozen=True):
    """`machine`: where and with what; `lines`: the table; `broken`: questions without an answer,
    and why; `left_out`: questions that were not asked, and how to get them.
    """

    machine: dict[str, str]
    lines: list[Line]
    questions: dict[str, Asked]
    broken: dict[str, str] = {}  # msgspec copies it
    # the names of the ways; the first is that of `router`, `ratio` and all that is judged
    ways: tuple[str, ...] = (DEFAULT,)
    left_out: dict[str, str] = {}


def document(
    answers: Sequence[Answer],
    broken: Mapping[str, str],
    machine: Mapping[str, str],
    *,
    is_judged: bool = True,
    ways: Sequence[Way] = (Way(),),
    left_out: Mapping[str, str] = NONE,
) -> Document:
    """`is_judged` False: too short a run to say that a target is met, or missed."""
    table = [
        line if is_judged else replace(line, is_met=None)
        for answer in answers
        for line in lines(answer)
    ]
    asked = {
        answer.question.name: Asked(
            answer.question.asks, answer.rounds, round(answer.seconds, 1), answer.beside
        )
        for answer in answers
    }
    return Document(
        dict(machine),
        table,
        asked,
        dict(broken),
        tuple(way.name for way in ways),
        dict(left_out),
    )


def encoded(measured: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(measured), indent=2) + b"\n"


def read(file: Path) -> Document:
    return msgspec.json.decode(file.read_bytes(), type=Document)


def missed(measured: Document) -> list[Line]:
    return [line for line in measured.lines if line.is_met is False]
