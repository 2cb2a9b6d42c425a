"""A tenant's place in the turns: its own once it is known, else the one that all who are not known
share. So a flood under a thousand made-up tenants is one flood.

    a policy of its own, or named in the settings ──> known
    answered in three seconds, not during overload ──> known: it has earned its place
    all others ──> NOT_KNOWN

A sender that makes up ids gains nothing by them: they take their turn together, and push no tenant
out. A name that was answered once makes room for the next; a place that is earned goes
to another tenant only when all are taken and it was not used for a day. What is answered while the
router is overloaded earns nothing, and no more than EARNED_AT_ONCE places are earned in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import RecordKind
from router.core.clock import Clock, wall

# no tenant's name, as `origin.NOT_SERVED`
NOT_KNOWN = "_not_known"
SECONDS_TO_EARN = 3
EARNED_AT_ONCE = 8
MAX_EARNED = 4_096
MAX_CANDIDATES = 4_096
# tenants that were answered in one second; more of them earn nothing in it
MAX_ANSWERED = 16_384
SPAN_S = 6 * 3600  # how exactly is known when a place was used last
UNUSED_SPANS = 4

FindPlace = Callable[[str], str]
NONE: Set[str] = frozenset()


def keep_own_place(tenant_id: str) -> str:
    """Every tenant is known."""
    return tenant_id


class PlacesRecord(Struct, frozen=True):
    """Tenant -> the span in which it used its place last, since the epoch."""

    tenants: Annotated[
        dict[Annotated[str, Meta(max_length=128)], Annotated[int, Meta(ge=0)]],
        Meta(max_length=MAX_EARNED),
    ] = {}


read_places_record = RecordKind(PlacesRecord, "the tenants that have earned a place").read


class TenantPlaces:
    """Of one process. `look` is called once a second."""

    def __init__(
        self,
        has_policies: Callable[[str], bool],
        named: Set[str] = NONE,
        *,
        clock: Clock = wall,
    ) -> None:
        self._has_policies = has_policies
        self._named = named
        self._clock = clock
        self._earned: dict[str, int] = {}
        self._candidates: dict[str, int] = {}  # in how many seconds they were answered
        # since the last look; the handler's meter adds to it
        self.answered: set[str] = set()
        self.is_calm = self._was_calm = True  # no passing copies are answered
        self.is_changed = False  # here, since the record was built

    def find(self, tenant_id: str) -> str:
        """The place of a tenant."""
        if tenant_id in self._earned or self._has_policies(tenant_id) or tenant_id in self._named:
            return tenant_id
        return NOT_KNOWN

    def look(self) -> None:
        """Count who was answered since the last look."""
        span, left = self._find_span(), EARNED_AT_ONCE
        # what was answered before the first calm look may be of the overload
        is_calm, self._was_calm = self.is_calm and self._was_calm, self.is_calm
        for tenant_id in self.answered:
            if tenant_id in self._earned:
                self._use(tenant_id, span)
            elif is_calm and left and self._is_earned_now(tenant_id):
                # where none is free, none is looked for again: to find the oldest takes all of them
                left = left - 1 if self._earn(tenant_id, span) else 0
        self.answered.clear()

    def build_record(self) -> PlacesRecord:
        self.is_changed = False
        return PlacesRecord(dict(self._earned))

    def merge(self, record: PlacesRecord) -> None:
        """What another instance knows, or this one did before it started."""
        span = self._find_span()
        for tenant_id, used in record.tenants.items():
            if tenant_id in self._earned:
                self._earned[tenant_id] = max(self._earned[tenant_id], min(used, span))
            elif len(self._earned) < MAX_EARNED:
                self._earned[tenant_id] = min(used, span)

    def is_to_be_stored(self, record: PlacesRecord) -> bool:
        """Whether this process has something to add to the record. A difference alone is none: two
        full lists would replace each other for ever.
        """
        return self.is_changed or (not record.tenants and len(self._earned) > 0)

    def list_earned(self) -> Mapping[str, int]:
        return self._earned

    def _find_span(self) -> int:
        return int(self._clock() // SPAN_S)

    def _use(self, tenant_id: str, span: int) -> None:
        if self._earned[tenant_id] < span:
            self._earned[tenant_id] = span
            self.is_changed = True

    def _is_earned_now(self, tenant_id: str) -> bool:
        if self._has_policies(tenant_id) or tenant_id in self._named:
            return False
        count = self._candidates.pop(tenant_id, 0) + 1
        if count >= SECONDS_TO_EARN:
            return True
        if len(self._candidates) >= MAX_CANDIDATES:
            self._drop_candidates()
        self._candidates[tenant_id] = count
        return False

    def _drop_candidates(self) -> None:
        """Those that were answered once; where all were answered twice, all."""
        kept = {name: count for name, count in self._candidates.items() if count > 1}
        self._candidates = kept if len(kept) < MAX_CANDIDATES else {}

    def _earn(self, tenant_id: str, span: int) -> bool:
        if len(self._earned) >= MAX_EARNED and not self._free_place(span):
            return False
        self._earned[tenant_id] = span
        self.is_changed = True
        return True

    def _free_place(self, span: int) -> bool:
        """Take the place that was not used for the longest time, if that is a day."""
        oldest = min(self._earned, key=self._earned.__getitem__)
        if span - self._earned[oldest] < UNUSED_SPANS:
            return False
        del self._earned[oldest]
        return True
