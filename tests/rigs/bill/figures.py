"""What was billed beside what was called, and the page of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from tests.rigs.bill.upstream import UpstreamCall

Json = dict[str, Any]
Called = tuple[int, str]  # the request's number, the provider


class BillFigures(Struct, frozen=True, kw_only=True):
    """`answers`: how clients saw their requests end. `without_call`: attempts that the ledger has
    not: a process died around the call, or no service listened.
    """

    requests: int
    answers: Mapping[str, int]
    kills: Mapping[str, int]
    calls: int
    events: int
    lost: int  # calls without an event
    double: int  # calls with more than one
    asked_twice: int  # calls of one provider for one request
    without_call: int
    unbilled_answers: int  # answered well, and no event that says so
    told: int  # calls that told their tokens to the end
    wrong_tokens: int  # of these, whose event says otherwise and is no estimate
    estimated_told: int  # of these, whose event is an estimate: the process died before it heard
    unanswered: int
    budget_off: str  # settled less the sum of the events, of all tenants
    seconds: float

    @property
    def is_kept(self) -> bool:
        bad = (self.lost, self.double, self.unbilled_answers, self.wrong_tokens, self.unanswered)
        return not any(bad) and Decimal(self.budget_off) == 0


def compare(
    answers: Sequence[str],
    calls: Sequence[UpstreamCall],
    events: Iterable[Json],
    *,
    kills: Mapping[str, int],
    settled: Decimal,
    seconds: float,
) -> BillFigures:
    """`answers`: by number. Pure."""
    called: Counter[Called] = Counter((call.number, call.provider) for call in calls)
    billed: dict[Called, list[Json]] = {}
    for event in events:
        number = int(event["request_id"].partition("~")[0].partition("-")[2])
        billed.setdefault((number, event["provider_id"]), []).append(event)
    told = {(call.number, call.provider): call.tokens for call in calls if call.tokens is not None}
    succeeded = {
        number for (number, _), all_ in billed.items() if any(_is_success(one) for one in all_)
    }
    one_event = {pair: all_[0] for pair, all_ in billed.items() if len(all_) == 1}
    exact = {pair: one_event[pair] for pair in told if pair in one_event}
    cost = sum((Decimal(repr(e["cost"])) for all_ in billed.values() for e in all_), Decimal(0))
    return BillFigures(
        requests=len(answers),
        answers=dict(Counter(answers)),
        kills=dict(kills),
        calls=len(calls),
        events=sum(map(len, billed.values())),
        lost=sum(pair not in billed for pair in called),
        double=sum(len(all_) > called.get(pair, 1) for pair, all_ in billed.items()),
        asked_twice=sum(count > 1 for count in called.values()),
        without_call=sum(pair not in called for pair in billed),
        unbilled_answers=sum(
            how == "200" and number not in succeeded for number, how in enumerate(answers)
        ),
        told=len(told),
        wrong_tokens=sum(
            not event.get("estimated") and _tokens(event) != told[pair]
            for pair, event in exact.items()
        ),
        estimated_told=sum(bool(event.get("estimated")) for event in exact.values()),
        unanswered=sum(how == "unanswered" for how in answers),
        budget_off=str(settled - cost),
        seconds=seconds,
    )


def _is_success(event: Json) -> bool:
    return bool(event["status"] == "success")


def _tokens(event: Json) -> tuple[object, object]:
    return event.get("input_tokens"), event.get("output_tokens")


def render_page(found: BillFigures, machine: Mapping[str, object]) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    kept = "holds" if found.is_kept else "**does not hold**"
    rows = [
        ("requests of HTTP clients, half of them streams", found.requests),
        ("how they ended", _list(found.answers)),
        ("processes killed", _list(found.kills)),
        ("calls that the HTTP API heard", found.calls),
        ("usage events", found.events),
        ("calls without an event", found.lost),
        ("calls with more than one", found.double),
        ("answered well, and no event says so", found.unbilled_answers),
        ("requests that never ended", found.unanswered),
        ("calls that told their tokens", found.told),
        ("of these, an event with other tokens that is no estimate", found.wrong_tokens),
        ("of these, estimated: a process died before it heard", found.estimated_told),
        ("events of attempts that no call is known of", found.without_call),
        ("one provider called twice for one request", found.asked_twice),
        ("budgets: settled less the sum of the events", found.budget_off),
        ("seconds", round(found.seconds)),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        f"# The bill of HTTP clients\n\n{facts}\n\nTwo gateways, two routers, three provider "
        f"services before one HTTP API: {kept}. `make bill` runs it.\n\n| figure | |\n|---|---:|\n"
        f"{table}\n"
    )


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
