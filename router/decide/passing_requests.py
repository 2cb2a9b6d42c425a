"""Joins `delivery.replies.passing`, which answers requests from their passing copy while the backlog is
deep, with the decide consumer. And counts the answers that do not come from the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from router.config import Settings
from router.contracts.alert import CRITICAL, WARNING, Alert
from router.contracts.decision import (
    CANNOT_BE_STORED,
    INTERNAL,
    INVALID_REQUEST,
    OVERLOADED,
    UNAUTHORIZED,
)
from router.contracts.extract import extract_ids
from router.contracts.headers import TENANT_ID
from router.contracts.malformed import TENANT_FORBIDDEN, VALIDATION_CODES
from router.core.clock import Clock
from router.core.message import Message
from router.core.outcome import Dead, Outcome
from router.decide.model.origin import (
    RequestOrigin,
    build_overload_answer,
    glance_origin,
    read_origin,
)
from router.decide.model.read import RequestLimits
from router.decide.model.tenant_places import FindPlace, TenantPlaces
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.settlement import BUCKET_REFUSES, STREAM_REFUSES, TOO_LARGE
from router.delivery.replies.passing import ANSWERED, OUTCOMES, PassingRequests
from router.delivery.replies.passing import OVERLOADED as REFUSED
from router.delivery.replies.replied_requests import RepliedRequests
from router.delivery.replies.reply_sender import ReplySender
from router.operate.alerts import Alerts
from router.policies.model import PolicyTable
from router.process.observability import LogRateLimit, Metrics, events, logs

# -- Counts answers to decide requests that do not come from the handler: refusals, overload,
# failures.


NEVER_STORED_CODES = frozenset({TOO_LARGE, STREAM_REFUSES, BUCKET_REFUSES})


def count_answer(metrics: Metrics, tenant_id: str, outcome: str, count: int = 1) -> None:
    """Count answers without a decision or policy; a tenant without a label of its own is `other`."""
    metrics.decisions[metrics.tenant[tenant_id], "", "", "", outcome] += count


def count_failed(metrics: Metrics, message: Message, outcome: Outcome) -> None:
    """Count the answer to a message that became a dead letter."""
    count_answer(metrics, _tenant_of(message, outcome), _code_of(outcome))


def _code_of(outcome: Outcome) -> str:
    if not isinstance(outcome, Dead):
        return INTERNAL
    if outcome.fault.code == TENANT_FORBIDDEN:
        return UNAUTHORIZED
    if outcome.fault.code in NEVER_STORED_CODES:
        return CANNOT_BE_STORED
    return INVALID_REQUEST if outcome.fault.code in VALIDATION_CODES else INTERNAL


def _tenant_of(message: Message, outcome: Outcome) -> str:
    """The tenant that the refusal names; after any other failure it is read from the message again."""
    if isinstance(outcome, Dead) and outcome.reply is not None:
        return outcome.reply.tenant_id or ""
    return extract_ids(message).get(TENANT_ID, "")


# -- Joins `delivery.replies.passing`, which answers requests from their passing copy while the backlog
# is deep, with the decide consumer.


log = logs.logger(__name__)


class PassingMetrics:
    """`delivery.replies.passing.PassingObserver`, as metrics, log lines and alerts."""

    def __init__(self, metrics: Metrics, alerts: Alerts, places: TenantPlaces) -> None:
        self._metrics = metrics
        self._alerts = alerts
        self._places = places
        self._lines = LogRateLimit(every_s=60.0)
        self._metrics.overloaded.set(0)
        places.is_calm = True
        for outcome in OUTCOMES:
            self._metrics.live_requests[outcome,] += 0

    def on_passing_copy(self, outcome: str, seconds: float) -> None:
        self._metrics.live_requests[outcome,] += 1
        if outcome == ANSWERED:
            self._metrics.request_seconds.observe(seconds)

    def on_refused(self, tenant: str, count: int) -> None:
        self._metrics.live_requests[REFUSED,] += count
        count_answer(self._metrics, tenant, OVERLOADED, count)
        if self._lines.allow(OVERLOADED):
            log.warning(events.OVERLOAD_REFUSES)
            text = (
                "More decide requests come than can be answered in time: requests above the "
                "share of their tenant are refused"
            )
            self._alerts.raise_alert(
                Alert(
                    severity=WARNING, component="router.delivery", cause="overloaded", message=text
                )
            )

    def on_overload(self, wait_s: float | None) -> None:
        self._metrics.overloaded.set(0.0 if wait_s is None else 1.0)
        self._places.is_calm = wait_s is None
        if wait_s is None:
            log.info(events.OVERLOAD_ENDED)
        else:
            log.info(events.OVERLOAD_BEGAN, backlog_s=round(wait_s, 3))


class OriginReader:
    """`delivery.replies.refusals.AskerReader`. `served`: the tenants that are; empty: all."""

    def __init__(
        self,
        limits: RequestLimits,
        served: frozenset[str],
        policies: PolicyTable,
        find_place: FindPlace,
    ) -> None:
        self._limits = limits
        self._served = served
        self._policies = policies
        # Functions themselves, not methods that call them: they refuse a flood.
        self.glance: Callable[[bytes], RequestOrigin | None] = glance_origin
        if served:
            self.glance = partial(glance_origin, served=served)
        self.find_place = find_place
        self.refuse: Callable[[RequestOrigin, int], bytes] = build_overload_answer

    def describe(self, data: bytes, headers: Mapping[str, str]) -> RequestOrigin | None:
        return read_origin(data, headers, self._limits, self._served)

    def is_high(self, origin: RequestOrigin) -> bool:
        return self._policies.has_high and self._policies.is_high(
            origin.tenant_id, origin.policy_id
        )


class UnstoredReport:
    """Logs and alerts that no stream stores what is heard."""

    def __init__(self, stream: str, alerts: Alerts) -> None:
        self._stream = stream
        self._alerts = alerts

    def __call__(self, cause: str | None) -> None:
        if cause is None:
            log.info(events.REQUESTS_STORED_AGAIN, stream=self._stream)
            return
        log.error(events.REQUESTS_NOT_STORED, stream=self._stream, cause=cause)
        text = "Requests are heard, and no stream stores them"
        facts = {"stream": self._stream}
        self._alerts.raise_alert(
            Alert(
                severity=CRITICAL,
                component="router.delivery",
                cause="requests_not_stored",
                message=text,
                metadata=facts,
            )
        )


def build_passing_requests(
    settings: Settings,
    *,
    metrics: Metrics,
    alerts: Alerts,
    marks: RepliedRequests | None,
    replies: ReplySender,
    consumer: Callable[[], Consumer | None],
    limits: RequestLimits,
    policies: PolicyTable,
    places: TenantPlaces,
    clock: Clock,
) -> PassingRequests[RequestOrigin] | None:
    """None where the settings switch it off, or the listener receives no passing copies (`marks` is
    None).
    """
    admission, served = settings.admission, frozenset(settings.tenants_allowed)
    if marks is None or admission.fair_after_ms is None:
        return None
    return PassingRequests(
        replies,
        consumer,
        marks,
        OriginReader(limits, served, policies, places.find),
        requests=settings.decide,
        admission=admission,
        observer=PassingMetrics(metrics, alerts, places),
        clock=clock,
    )
