"""Offsets of a query, the size of a micro-batch, how a range is split, and what counts as lost,
with its errors. Pure.

    {"stream": name, "next": the sequence to read next, "created": the stream's creation time}

A recreated stream counts from 1 again: its creation time shows that. A message that was deleted
from the middle is no loss, it only has no row. Messages that the stream's limits, a purge or a
recreation removed are a loss.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec import Struct

from router.core.errors import Misconfigured, RouterError, Transient

# -- Errors of a stream that is read by ranges.


class DataLoss(RouterError):
    """Messages of the range are gone, or the stream was recreated. `failOnDataLoss=false` continues
    without them.
    """

    code = "data_loss"


class Interrupted(Transient):
    """The consumer ended before its range was read: deleted, or cut off. The caller continues with
    another one.
    """

    code = "interrupted"


# -- Offsets of a query, the size of a micro-batch, how a range is split, and what counts as lost.


Json = dict[str, Any]
NANOS_PER_S = 1e9


class StreamState(Struct, frozen=True):
    """The state of a stream, from its info. `first` is above `last` if the stream is empty."""

    stream: str
    created: str
    first: int
    last: int
    messages: int
    bytes: int
    max_age_s: float = 0.0  # 0: messages do not grow too old
    read_at: str = ""  # the server's time, RFC 3339
    first_at: str = ""  # when the first message was stored, RFC 3339

    @property
    def head(self) -> int:
        """The sequence that the next message will have."""
        return self.last + 1

    @property
    def average_bytes(self) -> float:
        return self.bytes / self.messages if self.messages else 1.0


class SequenceRange(Struct, frozen=True):
    """Sequences from `start` up to and without `end`, of the stream with this creation time."""

    start: int
    end: int
    created: str

    def __len__(self) -> int:
        return max(0, self.end - self.start)


def parse_facts(info: Json) -> StreamState:
    """Read the answer of STREAM.INFO."""
    state = info["state"]
    first = max(state["first_seq"], 1)
    return StreamState(
        stream=info["config"]["name"],
        created=info["created"],
        first=first,
        last=state["last_seq"],
        messages=state["messages"],
        bytes=state["bytes"],
        max_age_s=info["config"].get("max_age", 0) / NANOS_PER_S,
        read_at=info.get("ts", ""),
        first_at=state["first_ts"],
    )


def make_offset(facts: StreamState, following: int) -> Json:
    return {"stream": facts.stream, "next": following, "created": facts.created}


def resolve_start(wanted: int | None, facts: StreamState) -> int:
    """Return the first sequence to read: the wanted one, the earliest there is (0), or the head
    (None).
    """
    if wanted is None:
        return facts.head
    return wanted or facts.first


def resolve_offset(offset: Json, facts: StreamState, *, fails_on_loss: bool) -> int:
    """Return the next sequence to read in the stream as it is now. Loss raises DataLoss, or is
    passed over.
    """
    if offset["stream"] != facts.stream:
        raise Misconfigured(
            "stream",
            (
                f"the checkpoint is of {offset['stream']}, this is {facts.stream}: use another "
                "checkpoint"
            ),
        )
    following: int = offset["next"]
    refuse_loss(
        SequenceRange(following, following, offset["created"]), facts, fails_on_loss=fails_on_loss
    )
    if offset["created"] != facts.created:
        return facts.first
    return min(max(following, facts.first), facts.head)


def refuse_loss(missing: SequenceRange, facts: StreamState, *, fails_on_loss: bool) -> None:
    """Raise DataLoss if these sequences, which gave no rows, were removed by more than single
    deletions.
    """
    if fails_on_loss and (loss := _find_loss(missing, facts)) is not None:
        raise DataLoss(f"{facts.stream} {loss}. failOnDataLoss=false goes on without them")


def _find_loss(missing: SequenceRange, facts: StreamState) -> str | None:
    if missing.created != facts.created:
        return (
            f"was made anew at {facts.created}: sequences from {missing.start} on of the one "
            "before cannot be read"
        )
    if missing.start < facts.first:
        return (
            f"begins at {facts.first} now: sequences {missing.start} to {facts.first - 1} are gone"
        )
    if missing.end > facts.head:
        return f"ends at {facts.last} now: sequences {facts.head} to {missing.end - 1} are gone"
    return None


def limit_batch(
    start: int, facts: StreamState, *, max_rows: int | None = None, max_bytes: int | None = None
) -> int:
    """Return the end of a micro-batch from `start`: never beyond the head, never back, and at least
    one sequence on if there is one.
    """
    end = max(start, facts.head)
    if max_bytes is not None:
        max_rows = max(1, int(max_bytes / facts.average_bytes))
    return end if max_rows is None else min(end, start + max_rows)


def split(whole: SequenceRange, parts: int, smallest: int) -> list[SequenceRange]:
    """Split a range into neighbouring ones of even size: at most `parts`, none below `smallest`
    unless there is only one.
    """
    if not len(whole):
        return []
    count = max(1, min(parts, len(whole) // smallest))
    cuts = [whole.start + len(whole) * number // count for number in range(count + 1)]
    return [SequenceRange(start, end, whole.created) for start, end in pairwise(cuts)]
