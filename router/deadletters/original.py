"""A letter becomes the message that failed, as it is to be sent again; or the reason why it cannot be.

    payload in the letter                      taken from it
    left out, or too large for a letter        taken from its source stream by sequence, if that still holds these very bytes
    a worker's ExecResult (caf.exec.dlq.v1)    its assignment is published again, found by id (docs/contracts.md#workers-dead-letters)

Anybody may publish to a dead-letter subject, so a letter is input: it is sent to the subject whose letters stand where
it stands, or to none; what the router masked, `Nats-*` and `Reply-To` are left behind: whoever asked has had its answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from router import ids
from router.contracts.assignment_record import read_record
from router.contracts.first_stored import FIRST_STORED, read_first_stored
from router.contracts.letter import DEFAULT_SUBJECT_PATTERN, letter_subject
from router.deadletters.parse import UNREADABLE, WORKERS_SUBJECTS, Letter
from router.delivery.api import JetStream
from router.errors import Poison
from router.masking import MASK
from router.message import Effect

REPLAY_COUNT = "x-replay-count"
ORIGINAL_ID = "x-original-msg-id"
MOST_REPLAYS = 3

_NAME = re.compile(r"[!-9;-~]{1,256}")
_LEFT_BEHIND = frozenset({"reply-to", REPLAY_COUNT})


class Replaying(Struct, frozen=True, kw_only=True):
    """How letters are sent again. `payload` takes the place of the original's; for one letter only."""

    subject_pattern: str = DEFAULT_SUBJECT_PATTERN
    assignments: str = "ROUTER_ASSIGNMENTS_KNOWN"
    max_replays: int = MOST_REPLAYS
    payload: bytes | None = None


class Kept(Struct, frozen=True):
    """A letter that stays where it is, and why."""

    sequence: int
    cause: str


class _Gone(Exception):
    """The message cannot be had any more; the text is for people."""


async def originals_of(jetstream: JetStream, letters: Sequence[Letter], how: Replaying) -> list[Effect | Kept]:
    """The same for many; only those whose message is elsewhere are waited for. Raises BrokerUnavailable."""
    found = [_at_hand(letter, how) for letter in letters]
    elsewhere = [place for place, one in enumerate(found) if one is None]
    fetched = await asyncio.gather(*(_fetched(jetstream, letters[place], how) for place in elsewhere))
    for place, one in zip(elsewhere, fetched, strict=True):
        found[place] = one
    return [one for one in found if one is not None]


async def original_of(jetstream: JetStream, letter: Letter, how: Replaying = Replaying()) -> Effect | Kept:  # noqa: B008 - frozen
    """The message to send again, under the id `replay:{letter's sequence}:{n}`, n = its replays so far + 1. Raises BrokerUnavailable."""
    return _at_hand(letter, how) or await _fetched(jetstream, letter, how)


def _at_hand(letter: Letter, how: Replaying) -> Effect | Kept | None:
    """None: the letter does not hold its message."""
    if letter.reason == UNREADABLE:
        return Kept(letter.sequence, "it is no letter of ours")
    if letter.subject in WORKERS_SUBJECTS:
        return None
    subject = letter.original_subject
    if not ids.is_literal_subject(subject) or subject.startswith("$") or letter_subject(subject, how.subject_pattern) != letter.subject:
        return Kept(letter.sequence, f"letters of {subject} do not stand on {letter.subject}")
    if letter.payload is None or letter.payload_note is not None:
        return None
    return _again(letter, how, subject, letter.payload, _with_first_stored(letter, letter.headers))


async def _fetched(jetstream: JetStream, letter: Letter, how: Replaying) -> Effect | Kept:
    take = _assignment if letter.subject in WORKERS_SUBJECTS else _from_source
    try:
        return _again(letter, how, *await take(jetstream, letter, how))
    except _Gone as exc:
        return Kept(letter.sequence, str(exc))


def _again(letter: Letter, how: Replaying, subject: str, data: bytes, given: Mapping[str, str]) -> Effect | Kept:
    count = _count(given) + 1
    if count > how.max_replays:
        return Kept(letter.sequence, f"it was replayed {how.max_replays} times already")
    headers = {name: value for name, value in given.items() if _goes_along(name, value)} | {REPLAY_COUNT: str(count)}
    if letter.msg_id is not None:
        headers.setdefault(ORIGINAL_ID, letter.msg_id)
    return Effect(subject, data if how.payload is None else how.payload, f"replay:{letter.sequence}:{count}", headers)


_Found = tuple[str, bytes, Mapping[str, str]]  # subject, payload, headers


async def _from_source(jetstream: JetStream, letter: Letter, _: Replaying) -> _Found:
    source = letter.source
    stored = await jetstream.message(source.stream, source.sequence) if source.stream and source.sequence else None
    place = f"{source.stream} {source.sequence}"
    if stored is None:
        raise _Gone(f"its message is in neither the letter nor {place}")
    if stored.subject != letter.original_subject or ids.sha256_hex(stored.data) != letter.payload_hash:
        raise _Gone(f"another message stands in {place}: the stream was made anew")
    return stored.subject, stored.data, _with_first_stored(letter, stored.headers)


def _with_first_stored(letter: Letter, headers: Mapping[str, str]) -> Mapping[str, str]:
    """When the message was stored first: what an earlier replay said, unless the failed message was stored before that."""
    times = [at for at in (read_first_stored(headers.get(FIRST_STORED, "")), letter.received_ms) if at is not None]
    return {**headers, FIRST_STORED: str(min(times))} if times else headers


async def _assignment(jetstream: JetStream, letter: Letter, how: Replaying) -> _Found:
    if letter.assignment_id is None:
        raise _Gone("it names no assignment")
    stored = await jetstream.last_on(f"KV_{how.assignments}", f"$KV.{how.assignments}.{ids.key(letter.assignment_id)}")
    if stored is None or not stored.data:
        raise _Gone("its assignment is gone")
    try:
        record = read_record(stored.data)
    except Poison as exc:
        raise _Gone("its assignment cannot be read") from exc
    count = letter.headers.get(REPLAY_COUNT, "0")
    return record.subject, bytes(record.assignment), {**record.headers, REPLAY_COUNT: count}


def _count(headers: Mapping[str, str]) -> int:
    text = headers.get(REPLAY_COUNT, "")
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _goes_along(name: str, value: str) -> bool:
    lower = name.lower()
    return _NAME.fullmatch(name) is not None and not lower.startswith("nats-") and lower not in _LEFT_BEHIND and value != MASK
