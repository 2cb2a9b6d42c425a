"""What the streams came to: each attempt against its event, and how far the estimates are off.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from tests.rigs.money.events import Event
from tests.rigs.money.ledger import Call, End, Work
from tests.rigs.money.prices import PRICES

WHOLE, BY_READER, BY_PROVIDER, BY_ROUTER = (
    "whole",
    "its reader left",
    "its provider fell silent",
    "its router stopped",
)
TORN = "its reader's connection was torn"
OFF_BY = Decimal("0.02")  # of the sum of each text, and of each end
FACTS = ("date", "commit", "command", "CPU", "memory", "system", "Python", "nats-server", "load")


class Asking(Struct, frozen=True, kw_only=True):
    """One stream that is asked for."""

    name: str
    tenant: str
    text: str
    pieces: int
    seed: int
    prompt_at: int
    tells: bool
    leave_after: int | None = None
    torn_after: int | None = None  # bytes after these pieces
    silent_after: int | None = None


class Sums(Struct):
    """Some streams together."""

    streams: int = 0
    exact: int = 0  # their usage was told, and their cost is what it says
    wrong: int = 0  # their usage was told, and their cost is another
    free: int = 0
    estimated: int = 0
    owed: Decimal = Decimal(0)  # of the estimated ones
    billed: Decimal = Decimal(0)

    @property
    def is_off_by(self) -> Decimal:
        """A part of what is owed."""
        return (self.billed - self.owed) / self.owed if self.owed else Decimal(0)

    @property
    def is_near(self) -> bool:
        return abs(self.is_off_by) <= OFF_BY


class StreamFigures(Struct, frozen=True):
    """All of them. `missing`: attempts without an event; `twice`: events beyond the attempts."""

    commit: str
    seconds: float
    attempts: int
    events: int
    again: int
    missing: int
    twice: int
    whole: Sums
    by_cut: Mapping[str, Sums]
    by_text: Mapping[str, Sums]
    answers: Mapping[str, int]

    @property
    def checks(self) -> dict[str, bool]:
        return {
            "events are attempts": self.missing == self.twice == 0,
            "exact where usage was told": self.whole.wrong == 0,
            "at most 2 % off where it was estimated, of each text and each end": all(
                one.is_near for one in self._list_sums()
            ),
            "never free": self.whole.free == 0,
        }

    def _list_sums(self) -> list[Sums]:
        return [self.whole, *self.by_cut.values(), *self.by_text.values()]

    @property
    def is_kept(self) -> bool:
        return all(self.checks.values())


def compare(
    asked: Sequence[Asking],
    work: Work,
    events: Iterable[Event],
    answers: Mapping[str, int],
    *,
    again: int,
    commit: str,
    seconds: float,
) -> StreamFigures:
    """By the ledger's calls: each has one event under its name."""
    by_name: dict[str, list[Event]] = {}
    for event in events:
        by_name.setdefault(event.request_id or "", []).append(event)
    asking = {one.name: one for one in asked}
    whole, by_cut, by_text, missing = Sums(), dict[str, Sums](), dict[str, Sums](), 0
    stored = sum(map(len, by_name.values()))
    for call in work.calls:
        metered = by_name.get(call.name, [])
        if not metered:
            missing += 1
            continue
        one, end, event = asking[call.name], work.ends.get(call.number), metered.pop(0)
        cut = _cut_of(one, end)
        for sums in (whole, by_cut.setdefault(cut, Sums()), by_text.setdefault(one.text, Sums())):
            _add(sums, call, end, event, is_whole=cut == WHOLE)
    twice = sum(map(len, by_name.values()))
    return StreamFigures(
        commit,
        seconds,
        len(work.calls),
        stored,
        again,
        missing,
        twice,
        whole,
        by_cut,
        by_text,
        answers,
    )


def _cut_of(one: Asking, end: End | None) -> str:
    """A long stream that did not tell its usage was cut by its router; a short one that its reader
    wanted to leave may have ended.
    """
    if one.leave_after is not None:
        return BY_READER if one.torn_after is None else TORN
    if one.silent_after is not None:
        return BY_PROVIDER
    return WHOLE if end is not None and (end.is_told or not one.tells) else BY_ROUTER


def _add(sums: Sums, call: Call, end: End | None, event: Event, *, is_whole: bool) -> None:
    """What was told of a stream that its reader left may have come too late for its event; of a
    whole one it may not.
    """
    price = PRICES[call.provider]
    owed = price.cost(end.input, end.cached, end.output) if end is not None else Decimal(0)
    sums.streams += 1
    sums.free += event.cost <= 0
    if end is not None and end.is_told and (is_whole or not event.is_estimated):
        sums.exact += event.cost == owed
        sums.wrong += event.cost != owed
        return
    sums.estimated += 1
    sums.owed += owed
    sums.billed += event.cost


def render_streams(found: StreamFigures, machine: Mapping[str, str]) -> str:
    told = "\n".join(f"- {name}: {machine[name]}" for name in FACTS)
    answers = ", ".join(f"{count} {code}" for code, count in sorted(found.answers.items()))
    checks = "\n".join(
        f"| {name} | {'yes' if is_kept else '**no**'} |" for name, is_kept in found.checks.items()
    )
    return f"""# Streams that are cut

Made by `python -m tests.rigs.money.streams`; nothing here was written by hand.

{told}
- {found.commit}: {found.attempts:,} attempts reached the provider in {found.seconds:.0f} s, {found.events:,} events;
  {found.missing} attempts without one, {found.twice} events beyond them, {found.again} stored again
- how they ended for their readers: {answers}

| promise | kept |
|---|---|
{checks}

{_table("how it ended", found.by_cut, found.whole)}
{_table("text", found.by_text, found.whole)}
*Exact*, *wrong*: the provider told its usage, and the cost is what the price says of it, or not. *Owed*: by the stand-in's own count of
what was heard of its stream, for those that were estimated. *Free*: cost 0.
"""


def _table(what: str, parts: Mapping[str, Sums], whole: Sums) -> str:
    lines = [
        f"| {what} | streams | exact | wrong | free | estimated | owed | billed | off |",
        "|---|" + "---:|" * 8,
    ]
    lines += [_line(name, sums) for name, sums in [*parts.items(), ("all", whole)]]
    return "\n".join(lines) + "\n"


def _line(name: str, sums: Sums) -> str:
    counts = (sums.streams, sums.exact, sums.wrong, sums.free, sums.estimated)
    return (
        f"| {name} | {' | '.join(map(str, counts))} | {sums.owed:f} | {sums.billed:f} | "
        f"{sums.is_off_by:+.2%} |"
    )
