"""One listing of a bucket, and what comes after it: an ephemeral push consumer on our own
connection.

    open ──> the newest of each key (or all of them), in order ──> listed ──> every change, as it is stored

It notices when it no longer receives every change (`is_complete`): the connection came back, a
message is missing, the server's heartbeats stay out. It does not recover: the caller opens another
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from router.core.clock import steady
from router.core.errors import BrokerRefused, NoLeader
from router.core.ids import bucket_prefix
from router.core.message import parse_ack_subject
from router.delivery.kv.entries import (
    BucketEntry,
    DeletedKey,
    missing_bucket,
    read_entry,
    unavailable_bucket,
)
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.frames import Headers

# A change of a policy that is missed until then is late, and nothing else: the last known state
# serves.
HEARTBEAT_S = 4.0
# where something else tells of a missed change: of fifty idle instances, the others were half of
# all messages
RARE_HEARTBEAT_S = 20.0
SILENCE_LIMIT = 2.5  # heartbeats: its consumer is gone, or its server hangs
ANSWER_S = 2.5  # for each answer, and between two messages of a listing
_FORGOTTEN_S = 10  # then the server removes a consumer that was not closed, for its process died
_FLOW_CONTROL = "$JS.FC."  # nothing else is answered: an address in a message is input

_NUMBERS = count(1)

BucketState = tuple[object, ...]


def read_state(info: Json) -> BucketState:
    """What changes with each write to a bucket, and with each removal of entries."""
    state = info["state"]
    return info["created"], state["messages"], state["bytes"], state["first_seq"], state["last_seq"]


class KvWatcher:
    """`key`: one key, or all. `on_entry` is called from the connection's reader: it must be short,
    and must not raise.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        on_entry: Callable[[BucketEntry | DeletedKey], None],
        *,
        key: str = ">",
        deliver: str = "last_per_subject",  # | "all"
        heartbeat_s: float | None = None,  # None: HEARTBEAT_S
    ) -> None:
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._bucket = bucket
        self._stream = f"KV_{bucket}"
        self._prefix = bucket_prefix(bucket)
        self._on_entry = on_entry
        self._key = key
        self._deliver = deliver
        self._heartbeat_s = heartbeat_s if heartbeat_s is not None else HEARTBEAT_S
        self._inbox = self._connection.new_inbox()
        self._name = f"follow-{self._inbox.rpartition('.')[2]}-{next(_NUMBERS)}"
        self._lives = self._connection.reconnect_count
        self._sid: int | None = None
        self._last = 0  # the consumer's sequence: without a gap
        self._has_gap = False
        self._is_made = False  # the server has its consumer
        self._last_message_at = steady()
        self._listed = asyncio.Event()
        self.opened_at = steady()
        # the stream's sequence of the newest change that was received, or that was stored before
        # the listing
        self.last_stored = 0
        self.created = ""  # which bucket it is, by the time it was made
        self.state: BucketState = ()  # just before the listing began

    @property
    def is_complete(self) -> bool:
        """Whether every stored change was received, or will be."""
        is_silent = steady() - self._last_message_at > SILENCE_LIMIT * self._heartbeat_s
        return (
            not (self._has_gap or is_silent)
            and self._connection.is_connected
            and self._lives == self._connection.reconnect_count
        )

    async def open(self) -> None:
        """Return when all existing entries were received. Raises BrokerUnavailable: no bucket, no
        answer.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                self._sid = await self._connection.subscribe_direct(self._inbox, self._on_message)
                self.created = await self._identify()
                info = await self._create()
                self._is_made = True
        except TimeoutError:
            raise NoLeader(f"bucket {self._bucket}: no answer") from None
        if not info["num_pending"] and not info["delivered"]["consumer_seq"]:
            self._listed.set()
        while not self._listed.is_set():
            await self._wait()

    async def close(self) -> None:
        if self._sid is not None:
            sid, self._sid = self._sid, None
            if self._connection.is_connected and self._is_made:
                self._connection.publish_nowait(
                    f"{self._jetstream.prefix}.CONSUMER.DELETE.{self._stream}.{self._name}",
                    reply=self._inbox,
                )
            # do not wait for a server that may be gone
            await self._connection.unsubscribe(sid, at_once=True)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._listed.wait()
        except TimeoutError:
            if not self.is_complete or steady() - self._last_message_at > ANSWER_S:
                raise NoLeader(f"bucket {self._bucket}: the listing stopped halfway") from None

    async def _identify(self) -> str:
        info = await self._jetstream.stream(self._stream)
        if info is None:
            raise missing_bucket(self._bucket)
        self.state = read_state(info)
        self.last_stored = max(self.last_stored, info["state"]["last_seq"])
        return str(info["created"])

    async def _create(self) -> Json:
        config = {
            "name": self._name,
            "deliver_policy": self._deliver,
            "deliver_subject": self._inbox,
            "filter_subject": self._prefix + self._key,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "flow_control": True,
            "idle_heartbeat": int(self._heartbeat_s * 1e9),
            "inactive_threshold": _FORGOTTEN_S * 1_000_000_000,
        }
        try:
            body = {"stream_name": self._stream, "config": config, "action": "create"}
            return await self._jetstream.ask(f"CONSUMER.CREATE.{self._stream}.{self._name}", body)
        except BrokerRefused as exc:
            raise unavailable_bucket(self._bucket, exc) from None

    def _on_message(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self._last_message_at = steady()
        if subject == self._inbox:
            self._on_status(reply, headers or {})
            return
        place = parse_ack_subject(reply)
        self._has_gap |= place.consumer_sequence != self._last + 1
        self._last = place.consumer_sequence
        self.last_stored = max(self.last_stored, place.sequence)
        self._on_entry(
            read_entry(
                subject.removeprefix(self._prefix), data, headers, place.sequence, place.stored_ns
            )
        )
        if not place.pending:
            self._listed.set()

    def _on_status(self, reply: str, headers: Headers) -> None:
        """Handle a heartbeat, or a flow-control request, which any reply answers."""
        go_on = reply or headers.get("Nats-Consumer-Stalled", "")
        if go_on.startswith(_FLOW_CONTROL):
            self._connection.publish_nowait(go_on)
            return
        if (last := headers.get("Nats-Last-Consumer")) is not None:
            self._has_gap |= int(last) != self._last
            self._listed.set()  # idle: there is nothing more to send
