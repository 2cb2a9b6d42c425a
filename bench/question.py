"""What a question is: sides that are measured, figures that are compared, targets that should be
met.

    QUESTION = Question(
        name="decide_backlog", asks="…",
        sides=(Side("router", measure), Side("bare nats-py", measure)),     # ours first
        figures=(Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.5)),),
    )

A figure with a yardstick is judged by its ratio to it in the same round, one without by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

Measured = Mapping[str, float]  # by figure: rate (1/s), cpu_us (a message), peak_mib, p50_ms, …
# the scale (1 = as published, less = sooner done) -> one round's figures
Measure = Callable[[float], Awaitable[Measured]]


class Broken(Exception):
    """A side did not do what it was asked to do: there is no figure to show."""


class Absent(Exception):
    """A yardstick cannot be had here; the text says why, and its row shows it."""


class Target(Struct, frozen=True):
    """A bound of a figure, or of its ratio to the yardstick's."""

    bound: float
    is_floor: bool

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.is_floor else '≤'} {self.bound:g}"


class Figure(Struct, frozen=True):
    """One line of the table.

    `name`: the key in what the sides measured; `of`: whose, None = the first side's; `against`: the
    yardstick's. `is_of_acks`: of publish acks alone, so it is told of three servers on one machine,
    too.
    """

    name: str
    unit: str
    against: str | None = None
    target: Target | None = None
    of: str | None = None
    is_of_acks: bool = False


class Side(Struct, frozen=True):
    """The router or a yardstick, as it can be measured."""

    name: str
    measure: Measure


class Question(Struct, frozen=True):
    """One file of this package.

    `lasts`: seconds of a round, (at any scale, at scale 1 in addition), roughly: what is told at
    the start of a run. `most_rounds`: a slow question is asked less often, and says why. `is_long`:
    only by `--long`, or by its name. `needs`: what the bench alone installs, or Java (`extras`).
    `unaffected`: why it does not matter how the servers keep what they are given (`ways`).
    """

    name: str
    asks: str
    sides: tuple[Side, ...]
    figures: tuple[Figure, ...]
    lasts: tuple[float, float] = (5.0, 20.0)
    most_rounds: int | None = None
    is_long: bool = False
    needs: tuple[str, ...] = ()
    unaffected: str = ""

    def rounds(self, wanted: int) -> int:
        return min(wanted, self.most_rounds or wanted)


def at_least(bound: float) -> Target:
    return Target(bound, is_floor=True)


def at_most(bound: float) -> Target:
    return Target(bound, is_floor=False)


def sized(full: int, scale: float, least: int = 100) -> int:
    """How many of something at this scale."""
    return max(least, round(full * scale))
