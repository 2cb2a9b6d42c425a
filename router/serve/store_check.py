"""Whether this version, and the one before, read what a store holds: `router version
--check-store`.

Of each stream and bucket the newest messages are read by the reader that the router itself uses. A
version before this one is not at hand to be asked: FORMATS says which versions write and read the
same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from router.budgets.model.prices.ratio_sums import read_ratios_record
from router.budgets.model.spent_record import BOOKING_KEY, read_booking_record, read_spent_record
from router.config import Settings
from router.contracts import assignment_record, version_record
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.usage import UsageEvent
from router.core.errors import RouterError
from router.decide.model.tenant_places import read_places_record
from router.decide.stored_places import PLACES_KEY
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.audit.audit_event import read_audit_event
from router.operate.violations.events import read_violation
from router.policies.model.breakers import read_breaker_record
from router.policies.model.canary import read_canary_record
from router.policies.model.measurements.values import read_figures_record
from router.policies.model.rate_limits import read_rate_record
from router.work.model import invocation_record

# The format of the records that a version writes, the oldest version first. A release whose records
# the one before it cannot read has a higher number than that, and upgrade notes in CHANGELOG.md.
FORMATS: Mapping[str, int] = {"0.1.0": 1}

EXAMINED = 500  # messages of each stream, the newest
MAX_NAMED = 5  # unreadable messages of each stream

# of the key, or the subject, and the content; raises what it cannot read
Read = Callable[[str, bytes], object]


class UnreadableMessage(Struct, frozen=True):
    sequence: int
    cause: str


class StoreReport(Struct, frozen=True):
    """`messages`: stored; None: the server has no such stream. `unreadable`: how many of
    `examined`; `named`: the first of them.
    """

    stream: str
    messages: int | None = None
    examined: int = 0
    unreadable: int = 0
    named: tuple[UnreadableMessage, ...] = ()


def list_readers(settings: Settings) -> Mapping[str, Read]:
    """Return the reader of each stream whose messages routers read again later."""
    streams, buckets = settings.streams, settings.buckets
    return {
        streams.assignments.name: lambda _, data: read_exec_assignment(data),
        streams.usage.name: lambda _, data: msgspec.json.decode(data, type=UsageEvent),
        streams.held.name: lambda _, data: msgspec.json.decode(data, type=UsageEvent),
        streams.audit.name: lambda _, data: read_audit_event(data),
        streams.violations.name: lambda _, data: read_violation(data),
        f"KV_{buckets.policies.name}": lambda _, data: version_record.read_record(data),
        f"KV_{buckets.extensions.name}": lambda _, data: version_record.read_record(data),
        f"KV_{buckets.budgets.name}": lambda _, data: version_record.read_record(data),
        f"KV_{buckets.prices.name}": lambda _, data: version_record.read_record(data),
        f"KV_{buckets.keys.name}": lambda _, data: version_record.read_record(data),
        f"KV_{buckets.budgets_spent.name}": _read_spent,
        f"KV_{buckets.assignments_known.name}": _read_known_assignment,
        f"KV_{buckets.invocations.name}": lambda _, data: invocation_record.read_record(data),
        f"KV_{buckets.breakers.name}": read_breaker_record,
        f"KV_{buckets.figures.name}": read_figures_record,
        f"KV_{buckets.ratios.name}": read_ratios_record,
        f"KV_{buckets.canaries.name}": read_canary_record,
        f"KV_{buckets.rate_limits.name}": _read_rates,
    }


def _read_spent(key: str, data: bytes) -> object:
    """The bucket holds the settlement's record beside the documents."""
    return read_booking_record(data) if key == BOOKING_KEY else read_spent_record(data)


def _read_rates(key: str, data: bytes) -> object:
    """The bucket holds the tenants that have earned a place beside the tokens."""
    return read_places_record(data) if key == PLACES_KEY else read_rate_record(data)


def _read_known_assignment(key: str, data: bytes) -> object:
    """The bucket holds a record, the newest ack, the invocation and the report of each assignment,
    and notes of reports.
    """
    if key.endswith(assignment_record.OF_INVOCATIONS):
        return data.decode("ascii")
    is_acknowledgement = key.endswith(assignment_record.ACKNOWLEDGEMENT_SUFFIX)
    return (
        assignment_record.read_stored_acknowledgement(data)
        if is_acknowledgement
        else assignment_record.read_record(data)
    )


async def examine_store(jetstream: JetStream, settings: Settings) -> list[StoreReport]:
    """Read the newest messages of each stream. Raises BrokerUnavailable."""
    return [
        await _examine(jetstream, stream, read) for stream, read in list_readers(settings).items()
    ]


async def _examine(jetstream: JetStream, stream: str, read: Read) -> StoreReport:
    info = await jetstream.stream(stream)
    if info is None:
        return StoreReport(stream)
    state = info["state"]
    if not state["messages"]:
        return StoreReport(stream, 0)
    async with open_reader(jetstream, stream, max(1, state["last_seq"] - EXAMINED + 1)) as reader:
        stored = await reader.read(min(reader.total, EXAMINED)) if reader.total else []
    unreadable = [
        UnreadableMessage(message.sequence, cause)
        for message in stored
        if (cause := _find_cause(read, message.subject, message.data)) is not None
    ]
    return StoreReport(
        stream, state["messages"], len(stored), len(unreadable), tuple(unreadable[:MAX_NAMED])
    )


def _find_cause(read: Read, subject: str, data: bytes) -> str | None:
    """None: it can be read. An empty message is a key that was deleted."""
    if not data:
        return None
    key = ".".join(subject.split(".")[2:]) if subject.startswith("$KV.") else subject
    try:
        read(key, data)
    except (RouterError, msgspec.MsgspecError, ValueError, KeyError) as exc:
        return f"{type(exc).__name__}: {exc}"[:200]
    return None


def find_version_before(version: str) -> str | None:
    """Return the version before this one; None: there is none."""
    versions = [*FORMATS]
    place = versions.index(version)
    return versions[place - 1] if place else None


def is_readable(reports: Iterable[StoreReport]) -> bool:
    return not any(report.unreadable for report in reports)


def is_readable_before(version: str, reports: Sequence[StoreReport]) -> bool | None:
    """Whether the version before reads what is stored; None: there is no version before."""
    before = find_version_before(version)
    return None if before is None else FORMATS[before] == FORMATS[version] and is_readable(reports)
