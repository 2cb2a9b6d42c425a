"""Replay and discard dead letters: one, those chosen, or all that match a filter. Each is a run,
and leads to the page of it.
"""

from __future__ import annotations

from collections import Counter

from router.contracts.codec import require_foreign_value
from router.contracts.malformed import Malformed
from router.contracts.payload_display import pack
from router.core.clock import read_instant
from router.core.errors import BrokerUnavailable, Poison
from router.operate.audit import OperatorWrite, track
from router.operate.dead_letters import (
    DeadLetterChoice,
    DeadLetterFilter,
    ReplayOptions,
    discard,
    replay,
)
from router.shell.access import FormRefused
from router.shell.mend.frame import Mend
from router.shell.mend.runs import Facts, MendRun, take_until_stopped
from router.shell.page_data import Sources

AT_ONCE = 100  # so that progress moves and a stop is soon
MAX_CHOSEN = 1_000
MAX_CAUSES = 20


async def replay_one(mend: Mend) -> str:
    """With the field `payload`: an edited copy in place of the original."""
    sequence = _read_sequence(mend)
    payload = mend.form.document("payload") if mend.form.has("payload") else None
    if payload is None:
        return _start_replay(
            mend, DeadLetterChoice((sequence,), only_tenant=mend.access.tenant), None
        )
    mend.require_all_tenants()  # an edited message may name any tenant
    return _start_replay(
        mend,
        DeadLetterChoice((sequence,)),
        _read_payload(payload, is_json=mend.form.text("is_json") == "yes"),
    )


async def replay_chosen(mend: Mend) -> str:
    return _start_replay(mend, _read_choice(mend), None)


async def discard_one(mend: Mend) -> str:
    mend.require_confirmation()
    return _start_discard(
        mend, DeadLetterChoice((_read_sequence(mend),), only_tenant=mend.access.tenant)
    )


async def discard_chosen(mend: Mend) -> str:
    mend.require_confirmation()
    return _start_discard(mend, _read_choice(mend))


async def stop_run(mend: Mend) -> str:
    run = mend.runs.find(mend.path["run"])
    if run is None:
        raise FormRefused(404, "There is no such run.")
    mend.require_tenant(run.tenant)
    mend.runs.stop(run)
    return f"/dead-letters/runs/{run.name}"


def build_options(sources: Sources, payload: bytes | None = None) -> ReplayOptions:
    """As the command's."""
    settings = sources.settings
    return ReplayOptions(
        subject_pattern=settings.dlq.subject_pattern,
        assignments=settings.buckets.assignments_known.name,
        payload=payload,
    )


def _start_replay(mend: Mend, chosen: DeadLetterChoice, payload: bytes | None) -> str:
    sources, stream = mend.sources, mend.sources.settings.streams.dlq.name
    command = "dlq replay" if payload is None else "dlq replay --edit"

    async def work(run: MendRun) -> Facts:
        jetstream = sources.link.jetstream()
        write = OperatorWrite(
            command=command, target=run.target, tenant_id=chosen.tenant, note=note
        )
        dead_letters = take_until_stopped(run, chosen.read(jetstream, stream, AT_ONCE))
        async with track(mend.trail, write):
            report = await replay(
                jetstream,
                stream,
                dead_letters,
                build_options(sources, payload),
                on_progress=run.advance,
            )
            done = {
                "sent": report.sent,
                "finished": report.finished,
                "kept": len(report.kept),
                "in_doubt": report.is_in_doubt,
            }
            write.after = {**done, "stopped": True} if run.is_stopping else done
        causes = Counter(not_replayed.cause for not_replayed in report.kept).most_common(MAX_CAUSES)
        run.facts = {
            **done,
            "causes": [f"{count:,}: {cause}" for cause, count in causes],
            "audit": mend.trail.lost,
        }
        if report.is_in_doubt:
            raise BrokerUnavailable(
                "the broker was away for a moment: whether it has what was sent last is "
                "not known yet"
            )
        return run.facts

    note = mend.note
    return _lead_to(
        mend.runs.add(command, chosen.describe(stream), mend.by, mend.access.tenant, work)
    )


def _start_discard(mend: Mend, chosen: DeadLetterChoice) -> str:
    sources, stream = mend.sources, mend.sources.settings.streams.dlq.name
    note = mend.note

    async def work(run: MendRun) -> Facts:
        jetstream = sources.link.jetstream()
        write = OperatorWrite(
            command="dlq discard", target=run.target, tenant_id=chosen.tenant, note=note
        )
        dead_letters = take_until_stopped(run, chosen.read(jetstream, stream, AT_ONCE))
        async with track(mend.trail, write):
            write.after = {
                "discarded": await discard(jetstream, stream, dead_letters, on_progress=run.advance)
            }
        return {**write.after, "audit": mend.trail.lost}

    return _lead_to(
        mend.runs.add("dlq discard", chosen.describe(stream), mend.by, mend.access.tenant, work)
    )


def _lead_to(run: MendRun) -> str:
    return f"/dead-letters/runs/{run.name}"


def _read_sequence(mend: Mend) -> int:
    text = mend.path["sequence"]
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise FormRefused(404, "There is no such dead letter.")
    return int(text)


def _read_choice(mend: Mend) -> DeadLetterChoice:
    """The numbers that were chosen, else everything that matches, if that was said."""
    form = mend.form
    sequences = tuple(form.numbers("sequence"))
    if len(sequences) > MAX_CHOSEN:
        raise FormRefused(413, f"At most {MAX_CHOSEN:,} at a time are chosen one by one.")
    if sequences:
        return DeadLetterChoice(sequences, only_tenant=mend.access.tenant)
    if form.text("all") != "yes":
        raise FormRefused(400, "Choose some, or say that all are meant.")
    named = {name: form.text(name) or None for name in ("subject", "reason", "code", "tenant")}
    since = form.text("since")
    try:
        wanted = DeadLetterFilter(**named, since=read_instant(since) if since else None)
    except ValueError as exc:
        raise FormRefused(400, f"since: {exc}") from None
    return DeadLetterChoice((), wanted, only_tenant=mend.access.tenant)


def _read_payload(text: str, *, is_json: bool) -> bytes:
    """`is_json`: the original is, and so must be the copy."""
    data = text.encode("utf-8", "replace")
    if not is_json:
        return data
    try:
        require_foreign_value(data, len(data))
    except Malformed as exc:
        raise Poison(f"what was written is not JSON: {exc}") from exc
    return pack(data)
