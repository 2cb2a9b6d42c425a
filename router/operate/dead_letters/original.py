"""Rebuild the failed message from a dead letter, ready to be sent again; or say why that is
impossible.

    payload in the dead letter                      taken from it
    left out, or too large for a dead letter        taken from its source stream by sequence, if
                                                    that still holds these very bytes
    a worker's ExecResult (caf.exec.dlq.v1)    its assignment is published again, by id
                                               (docs/reference/contracts.md#workers-dead-letters)

Any client may publish to a dead-letter subject, so a dead letter is untrusted: its message is sent
only to the subject whose dead letters belong on its subject. Masked headers, `Nats-*` and
`Reply-To` are left out: the requester has had its answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from router.contracts.assignment_record import read_record
from router.contracts.dead_letter import DEFAULT_SUBJECT_PATTERN, dead_letter_subject
from router.contracts.headers import FIRST_STORED, read_first_stored
from router.core import ids
from router.core.errors import Poison
from router.core.header_names import keep_headers, replace_headers
from router.core.masking import MASK
from router.core.message import Effect
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.parse import UNREADABLE, WORKERS_SUBJECTS, DeadLetter
from router.operate.topology.declared_topology import is_stored_as

REPLAY_COUNT = "x-replay-count"
REPLAY_RUN = "x-replay-run"  # proves which replay sent the message (`journal.prove`)
ORIGINAL_ID = "x-original-msg-id"
MOST_REPLAYS = 3

_NAME = re.compile(r"[!-9;-~]{1,256}")
_LEFT_BEHIND = frozenset({"reply-to", REPLAY_COUNT})


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """How dead letters are replayed. `payload` replaces the original's; for one dead letter only."""

    subject_pattern: str = DEFAULT_SUBJECT_PATTERN
    assignments: str = "ROUTER_ASSIGNMENTS_KNOWN"
    max_replays: int = MOST_REPLAYS
    payload: bytes | None = None


class NotReplayed(Struct, frozen=True):
    """A dead letter that was not replayed, and why. It stays in its stream."""

    sequence: int
    cause: str


class _MessageLostError(Exception):
    """The failed message is not available any more; the text is for people."""


async def originals_of(
    jetstream: JetStream, dead_letters: Sequence[DeadLetter], how: ReplayOptions
) -> list[Effect | NotReplayed]:
    """`original_of` for many: only messages that are not in their dead letter are fetched. Raises
    BrokerUnavailable.
    """
    originals = [_rebuild_from_dead_letter(dead_letter, how) for dead_letter in dead_letters]
    elsewhere = [place for place, original in enumerate(originals) if original is None]
    fetched = await asyncio.gather(
        *(_fetch(jetstream, dead_letters[place], how) for place in elsewhere)
    )
    for place, original in zip(elsewhere, fetched, strict=True):
        originals[place] = original
    return [original for original in originals if original is not None]


async def original_of(
    jetstream: JetStream,
    dead_letter: DeadLetter,
    how: ReplayOptions = ReplayOptions(),  # noqa: B008 - frozen
) -> Effect | NotReplayed:
    """The message to send again, under the id `replay:{letter's sequence}:{n}`, n = its replays so
    far + 1. Raises BrokerUnavailable.
    """
    return _rebuild_from_dead_letter(dead_letter, how) or await _fetch(jetstream, dead_letter, how)


def _rebuild_from_dead_letter(
    dead_letter: DeadLetter, how: ReplayOptions
) -> Effect | NotReplayed | None:
    """The message from the dead letter itself; None: it does not hold it."""
    if dead_letter.reason == UNREADABLE:
        return NotReplayed(dead_letter.sequence, "it is no dead letter of ours")
    if dead_letter.subject in WORKERS_SUBJECTS:
        return None
    subject = dead_letter.original_subject
    if (
        not ids.is_literal_subject(subject)
        or subject.startswith("$")
        or dead_letter_subject(subject, how.subject_pattern) != dead_letter.subject
    ):
        return NotReplayed(
            dead_letter.sequence, f"dead letters of {subject} do not stand on {dead_letter.subject}"
        )
    if dead_letter.payload is None or dead_letter.payload_note is not None:
        return None
    return _rebuild(
        dead_letter,
        how,
        subject,
        dead_letter.payload,
        _add_first_stored(dead_letter, dead_letter.headers),
    )


async def _fetch(
    jetstream: JetStream, dead_letter: DeadLetter, how: ReplayOptions
) -> Effect | NotReplayed:
    read_original = _assignment if dead_letter.subject in WORKERS_SUBJECTS else _from_source
    try:
        return _rebuild(dead_letter, how, *await read_original(jetstream, dead_letter, how))
    except _MessageLostError as exc:
        return NotReplayed(dead_letter.sequence, str(exc))


def _rebuild(
    dead_letter: DeadLetter, how: ReplayOptions, subject: str, data: bytes, given: Mapping[str, str]
) -> Effect | NotReplayed:
    count = _count(given) + 1
    if count > how.max_replays:
        return NotReplayed(dead_letter.sequence, f"it was replayed {how.max_replays} times already")
    headers = replace_headers(keep_headers(given, _is_kept_header), {REPLAY_COUNT: str(count)})
    if dead_letter.msg_id is not None:
        headers.setdefault(ORIGINAL_ID, dead_letter.msg_id)
    return Effect(
        subject,
        data if how.payload is None else how.payload,
        f"replay:{dead_letter.sequence}:{count}",
        headers,
    )


_Original = tuple[str, bytes, Mapping[str, str]]  # subject, payload, headers


async def _from_source(
    jetstream: JetStream, dead_letter: DeadLetter, _: ReplayOptions
) -> _Original:
    source = dead_letter.source
    stored = (
        await jetstream.message(source.stream, source.sequence)
        if source.stream and source.sequence
        else None
    )
    place = f"{source.stream} {source.sequence}"
    if stored is None:
        raise _MessageLostError(f"its message is in neither the dead letter nor {place}")
    if (
        not is_stored_as(stored.subject, dead_letter.original_subject)
        or ids.sha256_hex(stored.data) != dead_letter.payload_hash
    ):
        raise _MessageLostError(f"another message stands in {place}: the stream was made anew")
    return dead_letter.original_subject, stored.data, _add_first_stored(dead_letter, stored.headers)


def _add_first_stored(dead_letter: DeadLetter, headers: Mapping[str, str]) -> Mapping[str, str]:
    """When the message was stored first: what an earlier replay said, unless the failed message was
    stored before that.
    """
    times = [
        at
        for at in (read_first_stored(headers.get(FIRST_STORED, "")), dead_letter.received_ms)
        if at is not None
    ]
    return replace_headers(headers, {FIRST_STORED: str(min(times))}) if times else headers


async def _assignment(
    jetstream: JetStream, dead_letter: DeadLetter, how: ReplayOptions
) -> _Original:
    if dead_letter.assignment_id is None:
        raise _MessageLostError("it names no assignment")
    stored = await jetstream.get_last(
        f"KV_{how.assignments}",
        ids.bucket_prefix(how.assignments) + ids.key(dead_letter.assignment_id),
    )
    if stored is None or not stored.data:
        raise _MessageLostError("its assignment is gone")
    try:
        record = read_record(stored.data)
    except Poison as exc:
        raise _MessageLostError("its assignment cannot be read") from exc
    count = dead_letter.headers.get(REPLAY_COUNT, "0")
    return record.subject, bytes(record.assignment), {**record.headers, REPLAY_COUNT: count}


def _count(headers: Mapping[str, str]) -> int:
    text = headers.get(REPLAY_COUNT, "")
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _is_kept_header(name: str, value: str) -> bool:
    lower = name.lower()
    return (
        _NAME.fullmatch(name) is not None
        and not lower.startswith("nats-")
        and lower not in _LEFT_BEHIND
        and value != MASK
    )
