"""Make the messages of a plan, in the order of the stream, and record their exact figures.

An ordinary event is one f-string and costs a few microseconds. The few irregular ones (escaped ids, costs that a float writes
long or with an exponent, damage) are made from ordinary ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256
from random import Random

import orjson

from router.contracts.usage import decimal
from router.lake.generate.malformed import damage
from router.lake.generate.plan import DAY_MS, Irregularity, LoadPlan
from router.lake.generate.population import FACTORS, Population, Profile
from router.lake.generate.truth import Truth

LoadMessage = tuple[str, bytes]  # Nats-Msg-Id, body

CHUNK = 1_000
REMEMBERED = 1 << 16  # events that may be repeated: a duplicate reaches this far back
ODD_IDS, ODD_COSTS = 997, 251  # one event in so many
LATE_MS = (3_600_000, 10 * DAY_MS)  # from, to
JITTER_MS = 30_000


class Load:
    """One run of a plan."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self._rng = rng = Random(f"load {plan.seed}")  # noqa: S311 - a load, not a secret
        self._population = Population(plan.tenants, rng)
        self.truth = Truth(self._population.profiles)
        self._kinds = plan.draw_irregular()
        self._past: list[LoadMessage] = []

    def make_chunks(self) -> Iterator[list[LoadMessage]]:
        for start in range(0, self.plan.events, CHUNK):
            yield self._make_chunk(range(start, min(start + CHUNK, self.plan.events)))

    def _make_chunk(self, positions: range) -> list[LoadMessage]:
        count, rng, population = len(positions), self._rng, self._population
        profiles = rng.choices(population.profiles, cum_weights=population.cumulative_weights, k=count)
        draws, digits = rng.randbytes(count * 6), rng.randbytes(count * 32).hex()
        kinds, event, made = self._kinds, self._make_event, []
        for place, position in enumerate(positions):
            kind = kinds.get(position)
            if kind is None or kind is Irregularity.LATE:
                draw = int.from_bytes(draws[place * 6 : place * 6 + 6])
                made.append(event(position, profiles[place], draw, digits[place * 64 : place * 64 + 64], kind))
            else:
                made.append(self._make_irregular(kind, position))
        return made

    # -- an event ----------------------------------------------------------------------------------------------

    def _make_event(self, position: int, profile: Profile, draw: int, digits: str, kind: Irregularity | None) -> LoadMessage:
        factors = self._population.factors
        latency = int(profile.latency_ms * factors[draw % FACTORS]) + 1
        cost, nanos = self._make_cost(position, profile.nanos * factors[(draw >> 16) % FACTORS])
        timestamp = self._make_time(position, draw >> 32, kind)
        ids, reference = _make_ids(position, digits)
        body = f'{profile.head}{latency},"cost":{cost}{profile.foot}{timestamp}{ids}}}'
        cell = self.truth.cell(timestamp // DAY_MS, profile.index)
        cell.nanos += nanos
        cell.latencies.append(latency)
        array = f'["{profile.tenant_id}",{reference},"{profile.status}"]'
        made = "usage:" + sha256(array.encode()).hexdigest()[:32], body.encode()
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
        if position % ODD_COSTS == 0:  # as a summed float is written: 0.30000000000000004, or 1.5e-07
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

    # -- an irregular message ----------------------------------------------------------------------------------

    def _make_irregular(self, kind: Irregularity, position: int) -> LoadMessage:
        self.truth.counts[kind] += 1
        event_id, body = self._rng.choice(self._past)
        message_id = f"{kind.value}:{self.plan.seed}:{position}"
        if kind is Irregularity.MALFORMED:
            return message_id, damage(body, self.truth.counts[kind])
        if kind is Irregularity.CONFLICT:
            self.truth.conflict_ids.append(event_id)
            return message_id, _contradict(body)
        return message_id, body if position % 4 else _repeat_later(body)


def _make_ids(position: int, digits: str) -> tuple[str, str]:
    """Return the last fields of the body, and the field that is part of the identity, as JSON."""
    trace = f',"trace_id":"{digits[:32]}"' if position % 16 else ""
    assignment = f'"{digits[32:40]}-{digits[40:44]}-5{digits[45:48]}-a{digits[49:52]}-{digits[52:]}"'
    request = f'"r-{digits[:20]}"' if position % ODD_IDS else orjson.dumps(f'r"{digits[:8]}\\/{digits[8:20]}').decode()
    match position % 4:
        case 0:
            return f'{trace},"request_id":{request}', request
        case 1:
            return f'{trace},"assignment_id":{assignment}', assignment
        case _:
            return f'{trace},"assignment_id":{assignment},"request_id":{request}', assignment


def _repeat_later(body: bytes) -> bytes:
    """Repeat an event as a worker does: later, and under another trace id. Its content is the same all the same."""
    event = orjson.loads(body)
    return orjson.dumps({**event, "timestamp": event["timestamp"] + 1_500, "trace_id": "f" * 32})


def _contradict(body: bytes) -> bytes:
    event = orjson.loads(body)
    return orjson.dumps({**event, "latency_ms": event["latency_ms"] + 1, "cost": event["cost"] + 1.0})
