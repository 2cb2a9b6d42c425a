"""The ledger: what was asked against what is there, by ids (Jepsen's words: lost, double,
unexpected).

    asked     -> answered       at least once; what comes again says the same
    decided   -> assigned       exactly once, and nothing that was refused
    assigned  -> executed       at least once: a worker may die between its work and its word
              -> results        exactly once; hopeless jobs are letters of the workers instead
    results   -> metered        exactly once
    poisoned  -> dead letters   each stored copy exactly once, with its body; nothing healthy
    single    -> answered       at least once, if it is stored: a cluster without a leader stores
                                none, and says nothing

Nothing is looked up here: `gathered` brings the facts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from tests.rigs.faults.job import HEALTHY, HOPELESS
from tests.rigs.faults.load import OVERLOADED, POISONED, SINGLE, Asked

NO_DECISION = {"expired", OVERLOADED}  # docs/reference/contracts.md#expired, #overloaded


class Letter(Struct, frozen=True):
    """One dead letter: of which message (id and place), with which body, and why."""

    msg_id: str
    sequence: int
    body: bytes
    reason: str = ""
    attempts: int = 0


class Facts(Struct, frozen=True):
    """What is counted. Lists have an id for each time that it was found."""

    asked: dict[str, Asked]
    poisons: dict[str, bytes]  # results that are none, by message id
    copies: list[tuple[str, int]]  # of poisoned requests in their stream: message id, sequence
    assigned: list[str]  # request ids
    executed: list[str]  # assignment ids, like the following three
    results: list[str]
    hopeless: list[str]
    metered: list[str]
    dead_letters: list[Letter]  # of requests
    result_letters: list[Letter]
    stored_singles: frozenset[str] = frozenset()  # names


class Row(Struct, frozen=True):
    """One stage of the circle. `may_repeat`: a double is told, and is no fault."""

    name: str
    expected: int
    found: int
    lost: tuple[str, ...]
    double: tuple[str, ...]
    unexpected: tuple[str, ...]
    may_repeat: bool = False

    @property
    def is_clean(self) -> bool:
        return not self.lost and not self.unexpected and (self.may_repeat or not self.double)


class Ledger(Struct, frozen=True):
    """All stages, and answers that contradict an earlier one: (request, first, later)."""

    rows: tuple[Row, ...]
    different: tuple[tuple[str, str, str], ...]
    refused: dict[str, int]  # healthy requests that were told no, by code
    asked_times: int  # every repetition counted
    strange: tuple[str, ...] = ()  # dead letters of what was no poison, in words

    @property
    def is_clean(self) -> bool:
        return not self.different and all(row.is_clean for row in self.rows)

    @property
    def lost(self) -> list[str]:
        return [name for row in self.rows for name in row.lost]

    @property
    def double(self) -> list[str]:
        return [name for row in self.rows if not row.may_repeat for name in row.double]

    @property
    def unexpected(self) -> list[str]:
        return [name for row in self.rows for name in row.unexpected]

    def table(self) -> str:
        return as_table(self.rows, self.asked_times, len(self.different), self.refused)


def as_table(
    rows: Iterable[Row], asked_times: int, different: int, refused: Mapping[str, int]
) -> str:
    """The books as Markdown."""
    lines = [
        "| | expected | found | lost | double | unexpected |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        double = f"({len(row.double)})" if row.may_repeat else str(len(row.double))
        lines.append(
            f"| {row.name} | {row.expected} | {row.found} | {len(row.lost)} | {double} | "
            f"{len(row.unexpected)} |"
        )
    said = ", ".join(f"{count} {code}" for code, count in sorted(refused.items())) or "none"
    told = (
        f"Asked {asked_times} times in all. Answers that differ from an earlier one: "
        f"{different}. Healthy requests refused: {said}."
    )
    return "\n".join([*lines, "", told, ""])


def add_rows(rows: Sequence[Row]) -> Row:
    """The same row of several runs as one."""
    first = rows[0]
    lost, double, unexpected = (
        tuple(name for row in rows for name in getattr(row, what))
        for what in ("lost", "double", "unexpected")
    )
    return Row(
        first.name,
        sum(r.expected for r in rows),
        sum(r.found for r in rows),
        lost,
        double,
        unexpected,
        first.may_repeat,
    )


def balanced(facts: Facts) -> Ledger:
    """The books, closed."""
    asked = facts.asked.values()
    repeated = [one for one in asked if one.kind != SINGLE]
    decided = [one for one in asked if one.is_decided]
    ids = {one.assignment_id: one.name for one in asked}
    healthy = {one.name for one in decided if one.kind == HEALTHY}
    hopeless = {one.name for one in decided if one.kind == HOPELESS}

    def names(found: Iterable[str]) -> list[str]:
        return [ids.get(one, one) for one in found]

    rows = (
        _row(
            "answered",
            {one.name for one in repeated},
            [one.name for one in repeated for _ in one.answers],
            may_repeat=True,
        ),
        _row("assigned", healthy | hopeless, facts.assigned),
        _row("executed", set(facts.assigned), names(facts.executed), may_repeat=True),
        _row("results", healthy, names(facts.results)),
        _row("given up by workers", hopeless, names(facts.hopeless)),
        _row("metered", healthy, names(facts.metered)),
        _letters(
            "letters of requests",
            facts.copies,
            {one.name: one.body for one in asked if one.kind == POISONED},
            facts.dead_letters,
        ),
        _letters("letters of results", None, facts.poisons, facts.result_letters),
        *_singles(facts),
    )
    return Ledger(
        rows,
        tuple(_different(asked)),
        _refused(asked),
        sum(one.times for one in asked),
        tuple(_describe_strange(facts)),
    )


def _describe_strange(facts: Facts) -> Iterable[str]:
    for letter in facts.dead_letters:
        one = facts.asked.get(letter.msg_id)
        if one is not None and one.kind != POISONED:
            said = ", ".join(heard.said for heard in one.answers) or "nothing"
            yield (
                f"{one.name}, asked {one.times} times: {letter.reason} after {letter.attempts} "
                f"attempts; answered: {said}"
            )


def _row(name: str, expected: set[str], found: Sequence[str], *, may_repeat: bool = False) -> Row:
    there = Counter(found)
    double = tuple(
        chain.from_iterable([one] * (times - 1) for one, times in there.items() if times > 1)
    )
    unexpected = tuple(sorted(set(there) - expected))
    return Row(
        name,
        len(expected),
        len(found),
        tuple(sorted(expected - set(there))),
        double,
        unexpected,
        may_repeat,
    )


def _letters(
    name: str,
    copies: list[tuple[str, int]] | None,
    bodies: dict[str, bytes],
    letters: Sequence[Letter],
) -> Row:
    """Each stored copy of what cannot be read has one dead letter, with the body that was sent;
    what has another body is unexpected.
    """
    good = [letter for letter in letters if bodies.get(letter.msg_id) == letter.body]
    bad = tuple(
        sorted(letter.msg_id for letter in letters if bodies.get(letter.msg_id) != letter.body)
    )
    if copies is None:
        row = _row(name, set(bodies), [letter.msg_id for letter in good])
    else:
        row = _row(
            name,
            {_place(*copy) for copy in copies},
            [_place(letter.msg_id, letter.sequence) for letter in good],
        )
    return Row(
        row.name,
        row.expected,
        row.found,
        _ids(row.lost),
        _ids(row.double),
        tuple(sorted((*_ids(row.unexpected), *bad))),
    )


def _singles(facts: Facts) -> Iterable[Row]:
    """No row where none was asked."""
    singles = [one for one in facts.asked.values() if one.kind == SINGLE]
    if singles:
        answered = [
            one.name for one in singles if one.name in facts.stored_singles for _ in one.answers
        ]
        yield _row("single plain requests", set(facts.stored_singles), answered, may_repeat=True)


def _place(msg_id: str, sequence: int) -> str:
    return f"{msg_id} {sequence}"


def _ids(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(place.partition(" ")[0] for place in places)


def _different(asked: Iterable[Asked]) -> Iterable[tuple[str, str, str]]:
    """A single request may be told `expired` or `overloaded` besides: a copy is refused by an
    instance that knows no other answer.
    """
    for one in asked:
        if one.kind == SINGLE:
            one = replace(
                one,
                answers=[heard for heard in one.answers if heard.code not in NO_DECISION]
                or one.answers[:1],
            )
        yield from (
            (one.name, one.answers[0].said, later.said)
            for later in one.answers[1:]
            if later.said != one.answers[0].said
        )


def _refused(asked: Iterable[Asked]) -> dict[str, int]:
    return Counter(
        one.answers[0].code
        for one in asked
        if one.answers and not one.is_decided and one.kind != POISONED
    )
