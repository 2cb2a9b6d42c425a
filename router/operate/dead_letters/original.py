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
    jetstream: JetStream, letters: Sequence[DeadLetter], how: ReplayOptions
) -> list[Effect | NotReplayed]:
    """`original_of` for many: only messages that are not in their dead letter are fetched. Raises
    BrokerUnavailable.
    """
    found = [_rebuild_from_dead_letter(letter, how) for letter in letters]
    elsewhere = [place for place, one in enumerate(found) if one is None]
    fetched = await asyncio.gather(*(_fetch(jetstream, letters[place], how) for place in elsewhere))
    for place, one in zip(elsewhere, fetched, strict=True):
        found[place] = one
    return [one for one in found if one is not None]


async def original_of(
    jetstream: JetStream,
    letter: DeadLetter,
    how: ReplayOptions = ReplayOptions(),  # noqa: B008 - frozen
) -> Effect | NotReplayed:
    """The message to send again, under the id `replay:{letter's sequence}:{n}`, n = its replays so
    far + 1. Raises BrokerUnavailable.
    """
    return _rebuild_from_dead_letter(letter, how) or await _fetch(jetstream, letter, how)


def _rebuild_from_dead_letter(
    letter: DeadLetter, how: ReplayOptions
) -> Effect | NotReplayed | None:
    """The message from the dead letter itself; None: it does not hold it."""
    if letter.reason == UNREADABLE:
        return NotReplayed(letter.sequence, "it is no dead letter of ours")
    if letter.subject in WORKERS_SUBJECTS:
        return None
    subject = letter.original_subject
    if (
        not ids.is_literal_subject(subject)
        or subject.startswith("$")
        or dead_letter_subject(subject, how.subject_pattern) != letter.subject
    ):
        return NotReplayed(
            letter.sequence, f"dead letters of {subject} do not stand on {letter.subject}"
        )
    if letter.payload is None or letter.payload_note is not None:
        return None
    return _rebuild(letter, how, subject, letter.payload, _add_first_stored(letter, letter.headers))


async def _fetch(
    jetstream: JetStream, letter: DeadLetter, how: ReplayOptions
) -> Effect | NotReplayed:
    take = _assignment if letter.subject in WORKERS_SUBJECTS else _from_source
    try:
        return _rebuild(letter, how, *await take(jetstream, letter, how))
    except _MessageLostError as exc:
        return NotReplayed(letter.sequence, str(exc))


def _rebuild(
    letter: DeadLetter, how: ReplayOptions, subject: str, data: bytes, given: Mapping[str, str]
) -> Effect | NotReplayed:
    count = _count(given) + 1
    if count > how.max_replays:
        return NotReplayed(letter.sequence, f"it was replayed {how.max_replays} times already")
    headers = replace_headers(keep_headers(given, _is_kept_header), {REPLAY_COUNT: str(count)})
    if letter.msg_id is not None:
        headers.setdefault(ORIGINAL_ID, letter.msg_id)
    return Effect(
        subject,
        data if how.payload is None else how.payload,
        f"replay:{letter.sequence}:{count}",
        headers,
    )


_Original = tuple[str, bytes, Mapping[str, str]]  # subject, payload, headers


async def _from_source(jetstream: JetStream, letter: DeadLetter, _: ReplayOptions) -> _Original:
    source = letter.source
    stored = (
        await jetstream.message(source.stream, source.sequence)
        if source.stream and source.sequence
        else None
    )
    place = f"{source.stream} {source.sequence}"
    if stored is None:
        raise _MessageLostError(f"its message is in neither the dead letter nor {place}")
    if (
        not is_stored_as(stored.subject, letter.original_subject)
        or ids.sha256_hex(stored.data) != letter.payload_hash
    ):
        raise _MessageLostError(f"another message stands in {place}: the stream was made anew")
    return letter.original_subject, stored.data, _add_first_stored(letter, stored.headers)


def _add_first_stored(letter: DeadLetter, headers: Mapping[str, str]) -> Mapping[str, str]:
    """When the message was stored first: what an earlier replay said, unless the failed message was
    stored before that.
    """
    times = [
        at
        for at in (read_first_stored(headers.get(FIRST_STORED, "")), letter.received_ms)
        if at is not None
    ]
    return replace_headers(headers, {FIRST_STORED: str(min(times))}) if times else headers


async def _assignment(jetstream: JetStream, letter: DeadLetter, how: ReplayOptions) -> _Original:
    if letter.assignment_id is None:
        raise _MessageLostError("it names no assignment")
    stored = await jetstream.get_last(
        f"KV_{how.assignments}", ids.bucket_prefix(how.assignments) + ids.key(letter.assignment_id)
    )
    if stored is None or not stored.data:
        raise _MessageLostError("its assignment is gone")
    try:
        record = read_record(stored.data)
    except Poison as exc:
        raise _MessageLostError("its assignment cannot be read") from exc
    count = letter.headers.get(REPLAY_COUNT, "0")
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
