"""What the servers promised: every publish ack of an assignment, a result and a usage event, by
assignment.

If something is lost, this tells who has lost it. There was a publish ack, and its sequence holds
another message now: the servers have lost what they acknowledged. There was none: the sender went
on without it.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator

import nats.errors
import orjson
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import Settings
from router.contracts.assignment import ASSIGNMENT_SUBJECT
from router.contracts.usage import USAGE_SUBJECT
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.ledger import Ledger
from tests.rigs.faults.load import Asked


class Ack(Struct, frozen=True):
    """`at`: by the steady clock of the suite."""

    stream: str
    sequence: int
    is_duplicate: bool
    at: float


class Loss(Struct, frozen=True):
    """One message that is not in its stream. Times count from when its request was first sent."""

    name: str
    stage: str  # the row of the ledger
    published_s: list[float]
    acked_s: list[float]
    sequences: list[int]  # that were promised; negative: as a duplicate
    holds: list[str]  # what these sequences hold now


class AckWatch:
    """Listens on every server: an ack counts if one of them passes it on."""

    def __init__(self, settings: Settings) -> None:
        self._stages = {
            ASSIGNMENT_SUBJECT: "assigned",
            settings.results.subject: "results",
            USAGE_SUBJECT: "metered",
        }
        # (stage, assignment) -> inbox -> when
        self._inboxes: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self._acks: dict[str, Ack] = {}  # by inbox

    async def start(self, clients: Clients) -> None:
        for subject in self._stages:
            await clients.subscribe(subject, self._on_publish)
        await clients.subscribe("_INBOX.>", self._on_reply)

    def list_published(self, stage: str) -> dict[str, list[float]]:
        """When each assignment's message was published, as often as it was; `stage`: a row of the
        ledger.
        """
        return {
            assignment: sorted(inboxes.values())
            for (row, assignment), inboxes in self._inboxes.items()
            if row == stage
        }

    async def explain(self, client: Client, ledger: Ledger, asked: dict[str, Asked]) -> list[Loss]:
        """Each loss of the ledger whose stream is watched."""
        lost = [
            (row.name, name)
            for row in ledger.rows
            if row.name in self._stages.values()
            for name in row.lost
            if name in asked
        ]
        return [await self._explain(client, stage, asked[name]) for stage, name in lost]

    async def _explain(self, client: Client, stage: str, one: Asked) -> Loss:
        published = self._inboxes[stage, one.assignment_id]
        acks = [self._acks[inbox] for inbox in published if inbox in self._acks]
        return Loss(
            name=one.name,
            stage=stage,
            published_s=[round(at - one.sent_at, 3) for at in published.values()],
            acked_s=[round(ack.at - one.sent_at, 3) for ack in acks],
            sequences=[-ack.sequence if ack.is_duplicate else ack.sequence for ack in acks],
            holds=[await _read_id(client, ack) for ack in acks],
        )

    async def _on_publish(self, _: int, message: Msg) -> None:
        if (assignment := read_assignment_id(message.data)) is not None:
            self._inboxes[self._stages[message.subject], assignment].setdefault(
                message.reply, time.monotonic()
            )

    async def _on_reply(self, _: int, message: Msg) -> None:
        if message.data.startswith(b'{"stream"') and message.subject not in self._acks:
            for ack in _read_ack(message.data):
                self._acks[message.subject] = ack


def read_assignment_id(data: bytes) -> str | None:
    """None for a poisoned result."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(orjson.loads(data)["assignment_id"])
    return None


def _read_ack(data: bytes) -> Iterator[Ack]:
    with contextlib.suppress(ValueError, KeyError):
        ack = orjson.loads(data)
        if "error" not in ack:
            yield Ack(ack["stream"], ack["seq"], ack.get("duplicate", False), time.monotonic())


async def _read_id(client: Client, ack: Ack) -> str:
    """The id of the message at the sequence of the ack."""
    with contextlib.suppress(nats.errors.Error):
        found = await client.jsm().get_msg(ack.stream, ack.sequence)
        return str((found.headers or {}).get("Nats-Msg-Id", "a message without an id"))
    return "nothing"
