"""The measurements of one tenant's providers: this instance's own, what other instances wrote, and
the figures made of both.

What an outcome or an assignment changes is seen by the next reader (`changed`): most policies read
no figures, and pay for none. The rest (percentiles, the last minutes, what has faded, what others
count) is made anew once in REFRESH_S (`refresh`), so that it costs nothing for each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from router.policies.model.measurements.measured_provider import (
    MIN_SAMPLES,
    MINUTE_S,
    OVERDUE_REQUESTS,
    MeasuredProvider,
)
from router.policies.model.measurements.values import (
    MAX_FINISHED,
    ErrorCounts,
    FiguresRecord,
    LearnedFigures,
    MinuteRecord,
    ProviderFiguresRecord,
    TenantFigures,
    add_up,
    find_percentile,
)

REFRESH_S = 0.5
# keys: of a tenant at most, and of a provider that may be added beyond that
MAX_IN_FLIGHT, FEW_IN_FLIGHT = 20_000, 100
MIN_FINISHED = 8  # keys of each provider in a record, however many providers there are


class OtherInstance(Struct):
    """The newest record of another instance, and when it came, on the steady clock."""

    record: FiguresRecord
    at: float


class MeasuredTenant:
    """`now`: seconds on the steady clock, everywhere."""

    def __init__(self) -> None:
        self.providers: dict[str, MeasuredProvider] = {}
        self.figures = TenantFigures()
        self.errors: dict[str, ErrorCounts] = {}  # made with the figures
        self.others: dict[str, OtherInstance] = {}  # by life
        self.assigned = 0  # by this instance
        self.shared_at = -inf  # when this instance wrote its record
        # samples and in flight of other instances, by provider
        self._elsewhere: dict[str, tuple[int, int]] = {}
        self._until = -inf
        # Providers that an outcome or an assignment has changed, and when: the next reader sees it.
        # Once a message, so without a call.
        self.changed: dict[str, float] = {}

    def read(self, now: float) -> TenantFigures:
        if now >= self._until:
            self.refresh(now)
        elif self.changed:
            self._show_changes(now)
        if self.figures.failing:
            self._offer_probes(now)
        return self.figures

    def has_room(self, provider: MeasuredProvider) -> bool:
        """Whether one more assignment of the provider is counted as in flight. All are added up
        only where the provider has many.
        """
        return (
            provider.in_flight < FEW_IN_FLIGHT
            or sum(measured.in_flight for measured in self.providers.values()) < MAX_IN_FLIGHT
        )

    def forget(self, name: str) -> None:
        """Drop all that is known of a provider."""
        del self.providers[name]
        self.figures.drop(name)
        for known in (self.errors, self.changed, self._elsewhere):
            known.pop(name, None)
        self.expire()

    def expire(self) -> None:
        """The next reader makes all figures anew."""
        self._until = -inf

    def _offer_probes(self, now: float) -> None:
        """Which share of the requests may probe a provider that fails changes with time, and with
        the requests that passed.
        """
        for name in self.figures.failing:
            share = self._find_probe_share(self.providers[name], now)
            if share != self.figures[name].probe_share:
                self.figures[name] = replace(self.figures[name], probe_share=share)

    def _find_probe_share(self, provider: MeasuredProvider, now: float) -> float:
        passed = self.assigned - provider.tried_after
        return provider.find_probe_share(
            now, is_overdue=passed >= OVERDUE_REQUESTS * max(1, len(self.figures.failing))
        )

    def _show_changes(self, now: float) -> None:
        changed, self.changed = self.changed, {}
        if not self.figures.keys() >= changed.keys():  # of a provider that no reader has seen
            self.refresh(now)
            return
        for name, at in changed.items():
            self._show(name, self.figures[name], at)

    def _show(self, name: str, before: LearnedFigures, now: float) -> None:
        provider, (samples, in_flight) = self.providers[name], self._elsewhere[name]
        samples, in_flight, moving = (
            samples + provider.samples,
            in_flight + provider.in_flight,
            provider.moving,
        )
        learned = LearnedFigures(
            samples,
            in_flight,
            moving.latency_ms,
            moving.success_rate,
            moving.rate(in_flight, now) if samples >= MIN_SAMPLES else None,
            before.cost,
            before.p50_latency_ms,
            before.p95_latency_ms,
            before.recent_success_rate,
            before.chosen,
            before.silent_s,
            moving.is_failing,
            before.probe_share,
        )
        if moving.is_failing is before.is_failing:
            self.figures[name] = learned
        else:
            self.figures.put(name, learned)

    def refresh(self, now: float) -> None:
        """Make all figures anew."""
        self._until = now + REFRESH_S
        self.changed.clear()
        self.figures.choices.clear()
        for name, provider in self.providers.items():
            provider.pass_time(now)
            self.figures.put(name, self._make_figures(name, provider, now))

    def _make_figures(self, name: str, provider: MeasuredProvider, now: float) -> LearnedFigures:
        moving, minutes = (
            provider.moving,
            [provider.minute.build_record(), provider.minute_before.build_record()],
        )
        samples, in_flight = 0, 0
        for other in self.others.values():
            theirs = other.record.providers.get(name)
            if theirs is not None:
                samples += theirs.samples
                # it may have died
                in_flight += theirs.in_flight if now - other.at < MINUTE_S else 0
                minutes += _list_recent(theirs, now - other.at)
        self._elsewhere[name] = samples, in_flight
        samples, in_flight = samples + provider.samples, in_flight + provider.in_flight
        successes, failures = (
            sum(minute.successes for minute in minutes),
            sum(minute.failures for minute in minutes),
        )
        self.errors[name] = _count_errors(minutes)
        counted = successes + failures - sum(minute.forgiven for minute in minutes)
        latencies, has_enough = (
            add_up(*(minute.latencies for minute in minutes)),
            counted >= MIN_SAMPLES,
        )
        return LearnedFigures(
            samples=samples,
            in_flight=in_flight,
            latency_ms=moving.latency_ms,
            success_rate=moving.success_rate,
            score=moving.rate(in_flight, now) if samples >= MIN_SAMPLES else None,
            cost=moving.cost if samples >= MIN_SAMPLES else None,
            p50_latency_ms=find_percentile(latencies, 0.5) if has_enough else None,
            p95_latency_ms=find_percentile(latencies, 0.95) if has_enough else None,
            recent_success_rate=successes / counted if has_enough else None,
            chosen=sum(minute.chosen for minute in minutes),
            silent_s=now - moving.at if moving.at > -inf else None,
            is_failing=moving.is_failing,
            probe_share=self._find_probe_share(provider, now),
        )

    def apply(self, record: FiguresRecord, now: float, age_s: float) -> bool:
        """Take another instance's record, which is `age_s` old; `providers` has each provider that
        it names.

        Returns whether it ended assignments of this instance.
        """
        ended = False
        for name, theirs in record.providers.items():
            provider = self.providers[name]
            provider.adopt(theirs, now - age_s)
            for key in theirs.finished:
                ended |= provider.remove_in_flight(key)
        self.others[record.life] = OtherInstance(record, now - age_s)
        self.expire()
        return ended

    def keep_others(self, lives: Iterable[str]) -> None:
        """Drop the records of other instances that are no longer in the bucket."""
        kept = frozenset(lives)
        self.others = {life: other for life, other in self.others.items() if life in kept}

    def build_record(self, tenant_id: str, node_id: str, life: str, now: float) -> FiguresRecord:
        most = max(MIN_FINISHED, MAX_FINISHED // max(1, len(self.providers)))
        providers = {
            name: provider.build_record(now, most) for name, provider in self.providers.items()
        }
        return FiguresRecord(tenant_id=tenant_id, node=node_id, life=life, providers=providers)


def _count_errors(minutes: Sequence[MinuteRecord]) -> ErrorCounts:
    return ErrorCounts(
        provider=sum(minute.failures for minute in minutes),
        request=sum(minute.request_errors for minute in minutes),
        rate_limit=sum(minute.rate_limits for minute in minutes),
        cancelled=sum(minute.cancellations for minute in minutes),
    )


def _list_recent(theirs: ProviderFiguresRecord, age_s: float) -> tuple[MinuteRecord, ...]:
    """The minutes of a record that are not over for more than a minute."""
    if age_s < MINUTE_S:
        return theirs.minutes
    return theirs.minutes[:1] if age_s < 2 * MINUTE_S else ()
