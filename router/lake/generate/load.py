"""Make the messages of a plan, in the order of the stream, and record their exact figures.

An ordinary event is one f-string and costs a few microseconds. Half of them have the identity of
their assignment in the body, and one in eight tells tokens. The few irregular ones (escaped ids,
costs that a float writes long or with an exponent, damage) are made from ordinary ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256
from random import Random
from typing import Any

import orjson

from router.contracts.usage import decimal, derive_identity
from router.lake.generate.population import (
    DAY_MS,
    FACTORS,
    Irregularity,
    LoadPlan,
    Population,
    Profile,
)
from router.lake.generate.truth import ProfileDay, Truth
from router.lake.tables.gold_columns import NO_MODEL

# -- The load.

LoadMessage = tuple[str, bytes]  # Nats-Msg-Id, body

_OUTCOMES = (Irregularity.LATE, Irregularity.UNCORRELATED)
CHUNK_EVENTS = 1_000
REMEMBERED = 1 << 16  # events that may be repeated: a duplicate reaches this far back
ODD_IDS, ODD_COSTS = 997, 251  # one event in so many
LATE_MS = (3_600_000, 10 * DAY_MS)  # from, to
JITTER_MS = 30_000
_KNOWN = (1, 2)  # positions, of each four, of events of known assignments
_TELLS_TOKENS = 2  # the position, of each eight
TOLD_MODEL, ESTIMATED_MODEL = "large", "small"
MOST_ADJUSTED = 10_000_000  # nanos, up or down


class Load:
    """One run of a plan."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self._rng = rng = Random(f"load {plan.seed}")  # noqa: S311 - a load, not a secret
        self._population = Population(plan.tenants, rng)
        self.truth = Truth([*self._population.profiles, *self._population.adjustments.values()])
        self._kinds = plan.draw_irregular()
        self._past: list[LoadMessage] = []

    def make_chunks(self) -> Iterator[list[LoadMessage]]:
        for start in range(0, self.plan.events, CHUNK_EVENTS):
            yield self._make_chunk(range(start, min(start + CHUNK_EVENTS, self.plan.events)))

    def _make_chunk(self, positions: range) -> list[LoadMessage]:
        count, rng, population = len(positions), self._rng, self._population
        profiles = rng.choices(
            population.profiles, cum_weights=population.cumulative_weights, k=count
        )
        draws, digits = rng.randbytes(count * 6), rng.randbytes(count * 32).hex()
        kinds, event, made = self._kinds, self._make_event, []
        for place, position in enumerate(positions):
            kind = kinds.get(position)
            if kind is None or kind in _OUTCOMES:
                draw = int.from_bytes(draws[place * 6 : place * 6 + 6])
                made.append(
                    event(
                        position, profiles[place], draw, digits[place * 64 : place * 64 + 64], kind
                    )
                )
            else:
                made.append(self._make_irregular(kind, position))
        return made

    # -- an event ----------------------------------------------------------------------------------

    def _make_event(
        self, position: int, profile: Profile, draw: int, digits: str, kind: Irregularity | None
    ) -> LoadMessage:
        factors = self._population.factors
        latency = int(profile.latency_ms * factors[draw % FACTORS]) + 1
        cost, nanos = self._make_cost(position, profile.nanos * factors[(draw >> 16) % FACTORS])
        timestamp = self._make_time(position, draw >> 32, kind)
        ids, reference = _make_ids(position, digits)
        is_marked = kind is Irregularity.UNCORRELATED
        model = NO_MODEL if is_marked else _choose_model(position)
        is_known = position % 4 in _KNOWN and not is_marked
        array = (
            f'["{profile.tenant_id}",{reference}]'
            if is_known
            else f'["{profile.tenant_id}",{reference},"{profile.status}"]'
        )
        event_id = "usage:" + sha256(array.encode()).hexdigest()[:32]
        cell = self.truth.cell(timestamp // DAY_MS, profile.index, model)
        if is_marked:
            self.truth.counts[Irregularity.UNCORRELATED] += 1
            cell.add_uncorrelated(nanos)
            more = ',"correlated":false'
        else:
            more = _tell_more(model, draw, nanos, cell)
            cell.add_outcome(nanos, latency)
        own = f',"event_id":"{event_id}"' if is_known else ""
        made = (
            event_id,
            f'{profile.head}{latency},"cost":{cost}{profile.foot}{timestamp}{ids}{own}{more}}}'.encode(),
        )
        if len(self._past) < REMEMBERED:
            self._past.append(made)
        else:
            self._past[position % REMEMBERED] = made
        return made

    def _make_cost(self, position: int, about: float) -> tuple[str, int]:
        """Return the cost as text and in whole 1e-9, rounded half up."""
        nanos = int(about)
        if not nanos:
            return "0.0", 0
        # as a summed float is written: 0.30000000000000004, or 1.5e-07
        if position % ODD_COSTS == 0:
            text = decimal(about * 1e-9 if position % 2 else 1.5e-7)
            return text, int(Decimal(text).scaleb(9).to_integral_value(ROUND_HALF_UP))
        fraction = f"{nanos % 1_000_000_000:09d}".rstrip("0") or "0"
        return f"{nanos // 1_000_000_000}.{fraction}", nanos

    def _make_time(self, position: int, draw: int, kind: Irregularity | None) -> int:
        plan = self.plan
        span = plan.days * DAY_MS
        at = int(plan.until_ms - span + span * position / plan.events) - draw % JITTER_MS
        if kind is Irregularity.LATE:
            self.truth.counts[kind] += 1
            return at - self._rng.randint(*LATE_MS)
        return at

    # -- an irregular message ----------------------------------------------------------------------

    def _make_irregular(self, kind: Irregularity, position: int) -> LoadMessage:
        self.truth.counts[kind] += 1
        event_id, body = self._rng.choice(self._past)
        message_id = f"{kind.value}:{self.plan.seed}:{position}"
        if kind is Irregularity.ADJUSTMENT:
            return self._make_adjustment(position, event_id, orjson.loads(body))
        if kind is Irregularity.MALFORMED:
            return message_id, damage(body, self.truth.counts[kind])
        if kind is Irregularity.CONFLICT:
            self.truth.conflict_ids.append(event_id)
            return message_id, _contradict(body)
        return message_id, body if position % 4 else _repeat_later(body)

    def _make_adjustment(self, position: int, corrected: str, event: dict[str, Any]) -> LoadMessage:
        """Adjust an earlier event: at its time, under its model, by an amount of either sign."""
        profile = self._population.adjustments[event["tenant_id"], event["provider_id"]]
        nanos, timestamp, model = (
            self._rng.randint(-MOST_ADJUSTED, MOST_ADJUSTED),
            event["timestamp"],
            event.get("model", NO_MODEL),
        )
        self.truth.cell(timestamp // DAY_MS, profile.index, model).add_adjustment(nanos)
        event_id = derive_identity(
            "adjustment", "bill", profile.tenant_id, f"load-{self.plan.seed}-{position}"
        )
        own = (
            f',"event_id":"{event_id}","adjustment":"bill","adjusts":"{corrected}","reason":"of '
            'a load"'
        )
        own += f',"model":"{model}"' if model else ""
        return (
            event_id,
            f"{profile.head}{_write_nanos(nanos)}{profile.foot}{timestamp}{own}}}".encode(),
        )


def _choose_model(position: int) -> str:
    """Return the model of one event in eight, in turn the one of told tokens and the one of
    estimated ones.
    """
    if position % 8 != _TELLS_TOKENS:
        return NO_MODEL
    return ESTIMATED_MODEL if position % 16 == _TELLS_TOKENS else TOLD_MODEL


def _tell_more(model: str, draw: int, nanos: int, cell: ProfileDay) -> str:
    """Return the model and the tokens of an event that has a model."""
    if model == NO_MODEL:
        return ""
    tokens = draw & 0xFFFF, draw & 0xFFF, (draw >> 16) & 0x3FF  # input, of it cached, output
    cell.add_tokens(*tokens)
    counts = f'"input_tokens":{tokens[0]},"cached_tokens":{tokens[1]},"output_tokens":{tokens[2]}'
    told = f',"model":"{model}",{counts},"price":"openai/{model}#3"'
    if model != ESTIMATED_MODEL:
        return told
    cell.estimated_nanos += nanos
    return f'{told},"estimated":true'


def _write_nanos(nanos: int) -> str:
    """Return the amount as JSON, with a decimal point."""
    return (
        f"{'-' if nanos < 0 else ''}{abs(nanos) // 1_000_000_000}.{abs(nanos) % 1_000_000_000:09d}"
    )


def _make_ids(position: int, digits: str) -> tuple[str, str]:
    """Return the last fields of the body, and the field that is part of the identity, as JSON."""
    trace = f',"trace_id":"{digits[:32]}"' if position % 16 else ""
    assignment = (
        f'"{digits[32:40]}-{digits[40:44]}-5{digits[45:48]}-a{digits[49:52]}-{digits[52:]}"'
    )
    request = (
        f'"r-{digits[:20]}"'
        if position % ODD_IDS
        else orjson.dumps(f'r"{digits[:8]}\\/{digits[8:20]}').decode()
    )
    match position % 4:
        case 0:
            return f'{trace},"request_id":{request}', request
        case 1:
            return f'{trace},"assignment_id":{assignment}', assignment
        case _:
            return f'{trace},"assignment_id":{assignment},"request_id":{request}', assignment


def _repeat_later(body: bytes) -> bytes:
    """Repeat an event as a worker does: later, and under another trace id. Its content is the same
    all the same.
    """
    event = orjson.loads(body)
    return orjson.dumps({**event, "timestamp": event["timestamp"] + 1_500, "trace_id": "f" * 32})


def _contradict(body: bytes) -> bytes:
    event = orjson.loads(body)
    return orjson.dumps(
        {**event, "latency_ms": event["latency_ms"] + 1, "cost": event["cost"] + 1.0}
    )


# -- Damage: bodies that are no usage events, each for another reason. The lake puts them into
# quarantine with the reason.

_DAMAGES: tuple[Callable[[dict[str, object]], bytes], ...] = (
    lambda body: orjson.dumps(body)[:-20],
    lambda _: b"",
    lambda body: b"\xff\xfe" + orjson.dumps(body),
    lambda body: orjson.dumps([body]),
    lambda body: _drop_fields(body, "tenant_id"),
    lambda body: _drop_fields(body, "timestamp"),
    lambda body: _drop_fields(body, "assignment_id", "request_id"),
    lambda body: orjson.dumps({**body, "cost": "free"}),
    lambda body: orjson.dumps({**body, "latency_ms": "slow"}),
    lambda body: orjson.dumps({**body, "provider_id": None}),
)


def damage(body: bytes, which: int) -> bytes:
    """Damage the body of a good event in one of ten ways."""
    return _DAMAGES[which % len(_DAMAGES)](orjson.loads(body))


def _drop_fields(body: dict[str, object], *names: str) -> bytes:
    return orjson.dumps({name: value for name, value in body.items() if name not in names})
