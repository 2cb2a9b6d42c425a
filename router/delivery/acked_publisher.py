"""The PubAck window: effects go out, and their receipts come back by callback.

Waiting for PubAcks one by one gives 5 k/s, with a future each 23 k/s, by callback in one window 39 k/s
(docs/durability.md#publish-window). Effects of many messages share the window; each bundle is told once, when its last receipt
is in or the first refusal is. EffectPublisher a bundle again is harmless: ids are deterministic.

    store(effects, told)  ->  HPUB with our inbox as reply  ->  PubAck  ->  told(receipts | NotPublished)

An effect that is known to be stored, or on its way, is not published again (`known_effects`).
A receipt marked duplicate is no evidence for a dead letter whose first copy is gone (a replay removes it, the
server's memory of its id stays): then it is stored again under an id of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.delivery.api import JetStream
from router.delivery.connection import head_of
from router.delivery.frame_parser import Headers
from router.delivery.known_effects import KnownEffects
from router.errors import RouterError
from router.message import Effect
from router.outcome import Receipt

Receipts = tuple[Receipt, ...]


class NotPublished(Struct, frozen=True):
    """Why an effect could not be stored: the broker's error number, 0 when it did not answer."""

    subject: str
    err_code: int
    cause: str


PublishCallback = Callable[[Receipts | NotPublished], None]


class EffectPublisher(Protocol):
    """Where effects are stored: `AckedPublisher`, or `together`."""

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None: ...

    async def publish_and_wait(self, effects: Sequence[Effect]) -> Receipts | NotPublished: ...


class PublishGroup:
    """The effects of one message, waiting for their receipts."""

    __slots__ = ("callback", "receipts", "waiting")

    def __init__(self, count: int, callback: PublishCallback) -> None:
        self.waiting = count  # 0 = told already
        self.receipts: list[Receipt | None] = [None] * count
        self.callback = callback


class PendingPublish(Struct):
    """One effect on its way: its bundle, its place in it, and when it is given up (steady seconds).

    `others` are the same effect in other bundles: they have this one's receipt, or its refusal."""

    bundle: PublishGroup
    place: int
    effect: Effect
    until: float
    others: list[PendingPublish] | None = None


class AckedPublisher:
    """One window for one connection."""

    def __init__(self, jetstream: JetStream, timeout_s: float = 5.0, known: KnownEffects | None = None) -> None:
        self._jetstream = jetstream
        self._known = known
        self._owned: dict[str, PendingPublish] = {}  # effects with an owner, by id, on their way
        self._connection = connection = jetstream.connection
        self._timeout_s = timeout_s
        self._inbox = connection.new_inbox() + "."
        self._claims: dict[str, PendingPublish] = {}  # by inbox, oldest first
        self._checks: set[asyncio.Task[None]] = set()
        self._awaited: set[asyncio.Future[Receipts | NotPublished]] = set()
        self._count = 0
        self._sid = 0
        self._now = asyncio.get_running_loop().time

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_direct(self._inbox + "*", self._heard)

    async def close(self) -> None:
        """Whoever still awaits a receipt hears that there is none: it may run on after this window."""
        await self._connection.unsubscribe(self._sid)
        for future in self._awaited:
            if not future.done():
                future.set_result(NotPublished("", 0, "the window is closed"))

    @property
    def pending(self) -> int:
        return len(self._claims)

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None:
        """Publish effects; `told` hears of them once, later, never from inside this call."""
        bundle = PublishGroup(len(effects), callback)
        until = self._now() + self._timeout_s
        for place, effect in enumerate(effects):
            claim = PendingPublish(bundle, place, effect, until)
            if self._known is None or not effect.owner or self._is_needed(claim, self._known):
                self._publish(claim)

    def _is_needed(self, claim: PendingPublish, known: KnownEffects) -> bool:
        """Whether it must be published; what an earlier copy's receipt says of it is told later."""
        effect = claim.effect
        if (receipt := known.receipt_of(effect, self._connection.reconnect_count)) is not None:
            asyncio.get_running_loop().call_soon(self._count_in, claim, receipt)
            return False
        if (first := self._owned.get(effect.id)) is not None:
            first.others = [*(first.others or ()), claim]
            return False
        self._owned[effect.id] = claim
        return True

    def _publish(self, claim: PendingPublish) -> None:
        effect = claim.effect
        self._count += 1
        inbox = f"{self._inbox}{self._count}"
        self._claims[inbox] = claim
        self._connection.publish_nowait(effect.subject, effect.data, inbox, head_of({**effect.headers, "Nats-Msg-Id": effect.id}))

    async def publish_and_wait(self, effects: Sequence[Effect]) -> Receipts | NotPublished:
        """The same for who may wait: retries after a pause, and commands."""
        future: asyncio.Future[Receipts | NotPublished] = asyncio.get_running_loop().create_future()
        self.publish(effects, lambda result: None if future.done() else future.set_result(result))
        self._awaited.add(future)
        try:
            return await future
        finally:
            self._awaited.discard(future)

    def expire(self) -> None:
        """Called by a timer: what had no receipt in time was not stored, as far as we know."""
        now = self._now()
        while self._claims:
            inbox, claim = next(iter(self._claims.items()))
            if claim.until > now:
                return
            del self._claims[inbox]
            denied = self._connection.denials.of(claim.effect.subject)
            self._refuse(claim, 0, str(denied or "no receipt in time"))

    def _heard(self, subject: str, _reply: str, data: bytes, headers: Headers | None) -> None:
        claim = self._claims.pop(subject, None)
        if claim is None:
            return
        if not data:
            self._refuse(claim, 0, "no stream takes this subject" if headers and headers.get("Status") == "503" else "an empty receipt")
            return
        try:
            ack = orjson.loads(data)
            if "error" in ack:
                self._refuse(claim, ack["error"].get("err_code", 0), ack["error"].get("description", ""))
                return
            receipt = Receipt(claim.effect.id, ack["stream"], ack["seq"], ack.get("duplicate", False))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            self._refuse(claim, 0, "the receipt cannot be read")
            return
        if receipt.is_duplicate and claim.effect.is_dead_letter:
            check = asyncio.get_running_loop().create_task(self._check_letter(claim, receipt))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)
        else:
            self._accept(claim, receipt)

    async def _check_letter(self, claim: PendingPublish, receipt: Receipt) -> None:
        try:
            found = await self._jetstream.message(receipt.stream, receipt.sequence)
        except Exception as exc:  # whatever it was, the claim must not be lost with it
            self._refuse(claim, 0, exc.code if isinstance(exc, RouterError) else type(exc).__name__)
            return
        if found is not None and found.headers.get("Nats-Msg-Id") == receipt.id:
            self._accept(claim, receipt)
        else:
            again = replace(claim.effect, id=f"{claim.effect.id}:{receipt.sequence}")
            self._publish(PendingPublish(claim.bundle, claim.place, again, self._now() + self._timeout_s))

    def _accept(self, claim: PendingPublish, receipt: Receipt) -> None:
        others = self._end_owned(claim)
        if self._known is not None and claim.effect.owner:
            self._known.keep(claim.effect, receipt)
        self._count_in(claim, receipt)
        for other in others:
            self._count_in(other, replace(receipt, is_duplicate=True))

    def _end_owned(self, claim: PendingPublish) -> Sequence[PendingPublish]:
        """It is on its way no longer: those that wait for its receipt."""
        if self._owned.get(claim.effect.id) is claim:
            del self._owned[claim.effect.id]
        return claim.others or ()

    def _count_in(self, claim: PendingPublish, receipt: Receipt) -> None:
        bundle = claim.bundle
        if not bundle.waiting:
            return
        bundle.receipts[claim.place] = receipt
        bundle.waiting -= 1
        if not bundle.waiting:
            bundle.callback(tuple(r for r in bundle.receipts if r is not None))

    def _refuse(self, claim: PendingPublish, err_code: int, cause: str) -> None:
        for one in (claim, *self._end_owned(claim)):
            if one.bundle.waiting:
                one.bundle.waiting = 0
                one.bundle.callback(NotPublished(one.effect.subject, err_code, cause))
