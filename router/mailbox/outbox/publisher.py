"""OutboxPublisher: the worker that polls the outbox and publishes to JetStream
(docs/reference/requirements.md#sd-14).

    check ── batches while there are rows ── wait ──┐     5 ms, 10, 20 … up to `poll_most`, or until NOTIFY
     └──────────────────────────────────────────────┘
    broker unavailable     the relay claims nothing and spends no attempt; it tries again as soon as
                           the connection is back, on
                           another server if this one is cut off from the others
    database unavailable   the same; a refusal by the database, and a clock that stepped back, are
                           logged, and park nothing
    stop                   the relay finishes and commits the current batch, then it ends

Rule: docs/reference/requirements.md#x10.

Several relays may run: each batch takes free partitions, at most `partitions` of eight. With the
default of eight, one relay works and the others stand by; with 4, two share the work. A relay that
dies loses its partitions with its connection.

Each batch begins with `BrokerLossDetector`, which stands first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from router.core.clock import steady
from router.core.crashpoints import crashpoint
from router.core.errors import BrokerRefused, Misconfigured, RouterError, Transient
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_state import CutOffWatch
from router.mailbox.errors import DatabaseRefused
from router.mailbox.outbox.add import CHANNEL, EventEncoder
from router.mailbox.outbox.broker_loss import reset_lost_rows
from router.mailbox.outbox.integrity_scan import IntegrityScan
from router.mailbox.outbox.nats_publisher import NatsJetStreamPublisher, open_nats_publisher
from router.mailbox.outbox.relay_batch import RelayBatch, RelayReport
from router.mailbox.outbox.repository import PARTITIONS, PostgresOutboxAdapter
from router.mailbox.postgres import Database
from router.mailbox.settings import MailboxConfig
from router.process.observability import events, logs

# -- The relay.

log = logs.logger(__name__)

CAREFUL_ROUND = 100  # rows
# rows in one publish: it has a fixed cost of some milliseconds, and the server accepts no more
MAX_BATCH = 1000
RETRY_S = 0.5
CHECK_S = 60.0  # between two checks that the broker still has what it acknowledged
CLOCK_STEPPED_BACK = (
    "the database's clock stepped back: its rows cannot be marked until it has caught up"
)


async def _leave_stream() -> None:
    """Do nothing: another service makes the stream."""


class RelayTotals(Struct):
    """The counters of one process."""

    rounds: int = 0
    published: int = 0
    duplicates: int = 0
    failed: int = 0
    parked: int = 0
    lost: int = 0


class OutboxPublisher:
    """One relay. `run` works until it is cancelled."""

    def __init__(
        self,
        mailbox: MailboxConfig,
        database: Database,
        jetstream: JetStream,
        restore: Restore = _leave_stream,
        *,
        page: int = MAX_BATCH,
        store_timeout_s: float = 5.0,
        retry_s: float = RETRY_S,
    ) -> None:
        """`page`: rows in one publish. `retry_s`: after a failure of the broker or the database."""
        self._relay = relay = mailbox.relay
        self._stream = stream = mailbox.events_stream
        self._page, self._store_timeout_s, self._retry_s = (
            min(page, relay.round),
            store_timeout_s,
            retry_s,
        )
        self._poll_least_s, self._poll_most_s = (
            relay.poll_least_ms / 1000,
            relay.poll_most_ms / 1000,
        )
        self._database = database
        self._jetstream = jetstream
        self._encoder = EventEncoder(mailbox.context, self._jetstream.connection.max_payload)
        self._first_partition = 0
        # the last batch was refused: the next one reads row by row, to find a row that the database
        # cannot read
        self._is_careful = False
        # A child beside this one; begun by `BrokerLossDetector`.
        self.integrity_scan = IntegrityScan(database, jetstream, stream, self._on_lost)
        self._loss_detector = BrokerLossDetector(
            database,
            jetstream,
            stream,
            every=CHECK_S,
            restore=restore,
            on_new_life=self.integrity_scan.restart,
        )
        self._cut_off = CutOffWatch(jetstream, stream)
        self._is_stopping = asyncio.Event()
        self.totals = RelayTotals()
        self.on_batch: Callable[[RelayReport], None] = lambda _: None
        self.trouble: str | None = None  # why the relay publishes nothing now; for readiness

    async def run(self) -> None:
        """The supervised child: on cancellation it finishes the current batch. Raises what no
        waiting can mend.
        """
        self._is_stopping.clear()
        async with open_nats_publisher(
            self._jetstream, is_atomic=self._relay.atomic, timeout_s=self._store_timeout_s
        ) as publisher:
            working = asyncio.create_task(self._work(publisher))
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                self._is_stopping.set()
                await working
                raise

    @property
    def is_atomic(self) -> bool:
        return self._relay.atomic

    async def run_batch(self, publisher: NatsJetStreamPublisher) -> RelayReport:
        """Publish one transaction's rows. Raises DatabaseUnavailable, DatabaseRefused,
        BrokerUnavailable, BrokerRefused.
        """
        await self._check_for_loss()
        publisher.set_subjects(self._loss_detector.subjects)
        async with self._database.transaction() as session:
            page, most = (1, CAREFUL_ROUND) if self._is_careful else (self._page, self._relay.round)
            outbox = PostgresOutboxAdapter(
                session, limit=page, round=most, relay=self._relay, most=self._encoder.most
            )
            claimed = await outbox.claim_partitions(self._relay.partitions, self._first_partition)
            self._first_partition = (self._first_partition + self._relay.partitions) % PARTITIONS
            round_ = RelayBatch(
                outbox,
                publisher,
                self._encoder,
                stream_created=self._loss_detector.created,
                most=most,
            )
            report = await round_.run() if claimed else RelayReport()
        crashpoint("outbox_committed")
        self._loss_detector.observe(report)
        self._count(report)
        return report

    async def _work(self, publisher: NatsJetStreamPublisher) -> None:
        pause = self._poll_least_s
        while not self._is_stopping.is_set():
            began = steady()
            report = await self._try_batch(publisher)
            if report is None or report.broker_error is not None:
                await self._cut_off.look(began)
                await self._rest(self._retry_s)
            elif report.published or report.parked:
                pause = self._poll_least_s
            else:
                await self._rest(pause, is_idle=True)
                pause = min(pause * 2, self._poll_most_s)

    async def _try_batch(self, publisher: NatsJetStreamPublisher) -> RelayReport | None:
        """Run a batch; None if the broker or the database is unavailable, or refused it, which is
        logged.
        """
        if not self._jetstream.connection.is_connected:
            self._tell("the broker is not connected")
            return None
        try:
            report = await self.run_batch(publisher)
        except (Transient, BrokerRefused, Misconfigured) as exc:
            # Misconfigured: the stream is missing, and may not be made now
            self._tell(str(exc))
            return None
        except DatabaseRefused as exc:
            # a missing right, a trigger of the service: mended there, retried here
            self._is_careful = True
            self._tell(CLOCK_STEPPED_BACK if exc.is_clock_regression else str(exc))
            return None
        self._is_careful = False
        self._tell(report.broker_error)
        return report

    async def _check_for_loss(self) -> None:
        if taken_back := await self._loss_detector.check():
            self._on_lost(taken_back)

    def _on_lost(self, rows: int) -> None:
        self.totals.lost += rows
        log.error(events.OUTBOX_TAKEN_BACK, stream=self._stream, rows=rows)

    def _count(self, report: RelayReport) -> None:
        totals = self.totals
        totals.rounds += 1
        totals.published += report.published
        totals.duplicates += report.duplicates
        totals.failed += report.failed
        totals.parked += report.parked
        self.on_batch(report)
        if report.parked:
            log.error(events.OUTBOX_PARKED, rows=report.parked)

    async def _rest(self, seconds: float, *, is_idle: bool = False) -> None:
        """Wait so many seconds, or until a stop, or, while idle, until a service's NOTIFY."""
        causes: set[asyncio.Task[bool]] = {asyncio.create_task(self._wait_for_stop())}
        if is_idle and self._relay.listen:
            causes.add(asyncio.create_task(self._wait_for_notify(seconds)))
        await asyncio.wait(causes, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for cause in causes:
            cause.cancel()
        await asyncio.wait(causes)

    async def _wait_for_stop(self) -> bool:
        return await self._is_stopping.wait()

    async def _wait_for_notify(self, seconds: float) -> bool:
        try:
            return await self._database.wait_for_notification(CHANNEL, within=seconds)
        except RouterError:  # the database is unavailable: the next batch reports it
            await asyncio.sleep(seconds)
            return False

    def _tell(self, trouble: str | None) -> None:
        if trouble == self.trouble:
            return
        was, self.trouble = self.trouble, trouble
        if trouble is not None:
            log.warning(events.OUTBOX_PAUSED, cause=trouble)
        elif was is not None:
            log.info(events.OUTBOX_RESUMED)


# -- When to check that the broker still has what it acknowledged; `broker_loss` does the check.
#
# it reconnected                     a server that restarted may have lost messages: a quick check,
# then `integrity_scan` restarts
# it could not store something       it may be replaced soon
# its sequences went back            a stream of the same name was created anew while we were
# connected
# a minute passed

Restore = Callable[[], Awaitable[object]]  # makes the stream if it is missing and we may make it


class BrokerLossDetector:
    """The detector of one relay. `every`: seconds between two checks without a cause;
    `on_new_life`: called after a reconnect.
    """

    def __init__(
        self,
        database: Database,
        jetstream: JetStream,
        stream: str,
        *,
        every: float,
        restore: Restore,
        on_new_life: Callable[[], None],
    ) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._every = every
        self._restore = restore
        self._on_new_life = on_new_life
        self._newest = 0
        # the reconnect count at the last check, and its time
        self._looked: tuple[int, float] | None = None
        self.created = ""  # when the stream of that name was created
        self.subjects: tuple[str, ...] = (">",)  # that the stream accepts

    async def check(self) -> int:
        """Return how many rows are to be published again. Raises as `reset_lost_rows`, and what
        `restore` raises.
        """
        now, lives = steady(), self._jetstream.connection.reconnect_count
        if (
            self._looked is not None
            and self._looked[0] == lives
            and now < self._looked[1] + self._every
        ):
            return 0
        await self._restore()
        snapshot, taken_back = await reset_lost_rows(self._database, self._jetstream, self._stream)
        self.created, self.subjects = snapshot.created, snapshot.subjects
        if self._looked is None or self._looked[0] != lives:
            self._on_new_life()
        self._looked, self._newest = (lives, now), 0
        return taken_back

    def observe(self, report: RelayReport) -> None:
        """Note the result of a batch."""
        has_gone_back = report.published > report.duplicates and report.newest <= self._newest
        if report.broker_error is not None or has_gone_back:
            self._looked = None
        self._newest = max(self._newest, report.newest)
