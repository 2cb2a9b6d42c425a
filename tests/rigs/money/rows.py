"""The rows: who does what, and which of them the code before issue 46 fails."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from tests.rigs.money import tricks
from tests.rigs.money.tricks import RECORD_TTL_MS, Move

AMPLE = Decimal(1_000_000)  # a budget that nothing here spends: it shows what is settled
WHO = {"tenant", "client", "worker", "extension"}


class Row(Struct, frozen=True, kw_only=True):
    """One move of one hostile player. `amount`: the hostile tenant's budget; `settings`: of the
    whole stage, beside the defaults.

    `is_found`: the issue lists it as found, so the control must fail it. `pieces_at_once`: streams
    that may be a piece beyond their budget at the same time.
    """

    name: str
    by: str
    does: str
    move: Move
    is_found: bool = True
    amount: Decimal = AMPLE
    settings: Mapping[str, object] = {}
    provider: str | None = None  # that every event of the hostile tenant must name
    pieces_at_once: int = 0


CLIENTS = (
    Row(
        name="one-id",
        by="client",
        does="invokes ten times under each message id, with the same content and others",
        move=tricks.invoke_under_one_id,
    ),
    Row(
        name="own-assignment",
        by="tenant",
        does="invokes four times under the id of each assignment of its own",
        move=tricks.invoke_for_own_assignment,
    ),
    Row(
        name="others-ids",
        by="client",
        does="invokes under the ids of another tenant's requests and assignments",
        move=tricks.invoke_for_others,
        is_found=False,
    ),
    Row(
        name="asked-again",
        by="client",
        does="asks for each decision and invocation three times at once, and once more later",
        move=tricks.ask_many_times,
    ),
    Row(
        name="calls-beyond",
        by="tenant",
        does="invokes more than its budget of 1.00 pays for",
        move=tricks.invoke_beyond,
        amount=Decimal(1),
    ),
    Row(
        name="free-first",
        by="tenant",
        does=(
            "has a first result for nothing, then pushes what costs 0.02 each under a budget "
            "of 1.00"
        ),
        move=tricks.push_dear,
        amount=Decimal(1),
    ),
    Row(
        name="cuts",
        by="client",
        does=(
            "leaves every third stream after any piece; some fall silent; two of three that "
            "end tell their usage"
        ),
        move=tricks.cut_streams,
    ),
)
WORKERS = (
    Row(
        name="statuses",
        by="worker",
        does="reports each assignment with four statuses, by its id and by its request's alone",
        move=tricks.push,
    ),
    Row(
        name="second-thoughts",
        by="worker",
        does="reports each assignment twice, with another status and cost",
        move=tricks.push,
    ),
    Row(
        name="provider-named",
        by="worker",
        does="names another provider than the decision did",
        move=tricks.push,
        provider="good",
    ),
    Row(
        name="odd-costs",
        by="worker",
        does="tells costs of 0, 1e-12, NaN, infinity, below 0, and no number at all",
        move=tricks.push,
        is_found=False,
    ),
    Row(
        name="billions",
        by="worker",
        does="tells 1e9 as the cost of each assignment",
        move=tricks.push,
    ),
    Row(
        name="unknown",
        by="worker",
        does="bills the honest tenant 1e9 and less for assignments that there never were",
        move=tricks.push,
    ),
    Row(
        name="others",
        by="worker",
        does="reports the honest tenant's assignments again: as its own, dearer, as failed",
        move=tricks.report_for_others,
    ),
    Row(
        name="replays",
        by="worker",
        does="sends each result four times; and an operator replays every dead letter of the run",
        move=tricks.push,
        is_found=False,
    ),
    Row(
        name="clock",
        by="worker",
        does="has a clock that is a day behind, a day ahead, or a year off",
        move=tricks.push,
        is_found=False,
    ),
    Row(
        name="early",
        by="worker",
        does="reports each assignment for nothing before there is one",
        move=tricks.report_early,
    ),
    Row(
        name="expired",
        by="worker",
        does="reports each assignment again, dearer, when its record is gone",
        move=tricks.report_after_expiry,
        settings={"buckets.assignments_known.ttl_ms": RECORD_TTL_MS},
    ),
)
EXTENSIONS = (
    Row(
        name="sly",
        by="extension",
        does="tells costs of 0, 1e9, NaN, below 0 and none, and token counts that are none",
        move=tricks.invoke_sly,
    ),
    Row(
        name="flaky",
        by="extension",
        does="fails the first attempt of every third invocation, which the router makes again",
        move=tricks.invoke_flaky,
    ),
    Row(
        name="endless",
        by="extension",
        does="streams without an end under a budget of 0.50",
        move=tricks.stream_beyond,
        amount=Decimal("0.5"),
        pieces_at_once=2,
    ),
)
ROWS = (*CLIENTS, *WORKERS, *EXTENSIONS)
BY_NAME = {row.name: row for row in ROWS}
