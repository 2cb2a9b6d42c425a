"""The branch of the supervision tree that answers decide requests: of the whole subject, or of one
partition.

    the whole subject    listener, consumer
    its own partition    listener, consumer, lease         the lease tells standbys that its
                                                           requests are taken
    one it stands by for listener, standby                 the consumer runs inside `standby`, while
                                                           that has the lease

A standby's listener hears all the time, so that it knows the inboxes of requests that were stored
before it took over.
"""

from __future__ import annotations

from functools import cached_property

from router.core.message import Message
from router.decide.partitions.leases import (
    OwnerLease,
    StandbyLease,
    build_lease_bucket,
    report_handed_back,
    report_taken_over,
)
from router.decide.passing_requests import UnstoredReport, build_passing_requests
from router.delivery.replies.listen import ListenedSubject, Listener, UnstoredRequests
from router.delivery.replies.overload import ReadAhead
from router.delivery.replies.reply_sender import ReplySender
from router.delivery.wire.api import JetStream
from router.operate.topology.monitor import TopologyMonitor
from router.process.observability import ReadinessCheck
from router.process.supervision import Child
from router.serve.app_context import AppContext
from router.serve.consumer_child import ConsumerChild, DrainDeadline
from router.serve.decide_subscription import build_decide_rules, build_reply_sender


class DecideBranch:
    """`context`: with the settings of the partition. Building it starts nothing."""

    def __init__(
        self,
        context: AppContext,
        monitor: TopologyMonitor,
        child: ConsumerChild,
        drain_deadline: DrainDeadline,
    ) -> None:
        self._context = context
        self._monitor = monitor
        self._child = child
        self._drain_deadline = drain_deadline

    @cached_property
    def _reply_sender(self) -> ReplySender:
        """Created once: a restarted child must still know which inbox waits for which answer."""
        reply_sender = build_reply_sender(self._context, self._list_in_flight)
        self._context.violations.set_requesters(self._child.stream, reply_sender.find_requester)
        return reply_sender

    def _list_in_flight(self) -> list[Message]:
        processor = self._child.consumer.processor if self._child.consumer is not None else None
        return [held.message for held in processor.in_flight] if processor is not None else []

    @property
    def _has_listener(self) -> bool:
        reply = self._context.settings.reply
        return reply.listener and reply.confirm == "decision"

    @property
    def _stop_s(self) -> float:
        return self._context.settings.drain.hard_deadline_ms / 1000 + 2

    def list_children(self) -> tuple[Child, ...]:
        """Of the whole subject, or of this router's own partition."""
        children = [
            *self._list_listener("listener"),
            Child("consumer", self._consume, shutdown_s=self._stop_s),
        ]
        if self._context.settings.decide.partition is not None:
            children.append(Child("lease", self._run_lease))
            self._register_states()
        return tuple(children)

    def list_standby_children(self) -> tuple[Child, ...]:
        """Of a partition that this router stands by for."""
        partition = self._context.settings.decide.partition
        self._context.checks[self._child.label] = self._check_standby
        self._register_standby_states()
        return (
            *self._list_listener(f"listener-p{partition}"),
            Child("standby", self._standby.run, shutdown_s=self._stop_s),
        )

    # -- children ----------------------------------------------------------------------------------

    def _list_listener(self, check: str) -> tuple[Child, ...]:
        return (Child("listener", lambda: self._listen(check)),) if self._has_listener else ()

    async def _listen(self, check: str) -> None:
        context, settings = self._context, self._context.settings
        context.checks[check] = self._check_listener
        passing = build_passing_requests(
            settings,
            metrics=context.metrics,
            alerts=context.alerts,
            marks=context.replied_requests,
            replies=self._reply_sender,
            consumer=lambda: self._child.consumer,
            limits=build_decide_rules(settings).limits,
            policies=context.policies,
            places=context.places,
            clock=context.budgets.clock,
        )
        decide = settings.decide
        ahead = ReadAhead(
            JetStream(context.connections.workers, settings.nats.js_domain), self._child.stream
        )
        await Listener(
            context.jetstream,
            ListenedSubject(
                stream=self._child.stream, subject=decide.taken_subject, queue=decide.deliver_group
            ),
            self._reply_sender,
            unstored=self._unstored,
            passing=passing,
            ahead=ahead,
            infos=context.infos,
        ).run()

    @cached_property
    def _unstored(self) -> UnstoredRequests:
        context, stream = self._context, self._child.stream
        return UnstoredRequests(
            stream,
            context.settings.streams.decide.duplicate_window_ms / 1000,
            find_stored_at=self._find_stored_at,
            on_change=UnstoredReport(stream, context.alerts),
            clock=context.budgets.clock,
        )

    def _find_stored_at(self) -> float:
        processor = self._child.consumer.processor if self._child.consumer is not None else None
        return processor.newest_stored_at if processor is not None else 0.0

    def _check_listener(self) -> ReadinessCheck:
        """Before the listener hears every inbox, the answer to a request may go to the reply
        subject alone.
        """
        if self._unstored.cause is not None:
            return ReadinessCheck(False, self._unstored.cause)
        is_listening = self._reply_sender.is_listening
        return ReadinessCheck(
            is_listening,
            "hears every request" if is_listening else "does not hear every request yet",
        )

    async def _consume(self) -> None:
        # `_answers` is created here at the latest: `router tree` draws the tree without an event
        # loop.
        await self._child.run(
            self._context, self._monitor, self._drain_deadline, self._reply_sender.send
        )

    # -- partitions --------------------------------------------------------------------------------

    async def _run_lease(self) -> None:
        settings = self._context.settings
        bucket = build_lease_bucket(settings, self._context.connection)
        await OwnerLease(bucket, settings, self._is_taking).run()

    def _is_taking(self) -> bool:
        """A standby hands back once this router hears and pulls."""
        return self._child.is_taking and (self._reply_sender.is_listening or not self._has_listener)

    @cached_property
    def _standby(self) -> StandbyLease:
        """Created once: a restarted child knows its own lease."""
        settings = self._context.settings
        return StandbyLease(
            build_lease_bucket(settings, self._context.connection),
            settings,
            self._consume,
            on_taken_over=lambda: report_taken_over(self._context.alerts, settings),
            on_handed_back=self._on_handed_back,
        )

    def _on_handed_back(self) -> None:
        self._drain_deadline.reset()  # this drain was no shutdown
        report_handed_back(self._context.alerts, self._context.settings)

    def _check_standby(self) -> ReadinessCheck:
        if self._standby.has_lease:
            return self._child.check
        return ReadinessCheck(
            True, f"stands by for {self._standby.holder}" if self._standby.holder else "stands by"
        )

    def _register_states(self) -> None:
        """Whether this router takes the partition's requests, or stands by."""
        routers, partition = (
            self._context.metrics.partition_routers,
            self._context.settings.decide.partition or "",
        )
        routers.set_function(lambda: int(self._is_taking()), partition, "takes")

    def _register_standby_states(self) -> None:
        routers, partition = (
            self._context.metrics.partition_routers,
            self._context.settings.decide.partition or "",
        )
        routers.set_function(lambda: int(self._standby.has_lease), partition, "takes")
        routers.set_function(lambda: int(not self._standby.has_lease), partition, "stands_by")
