"""Finds a past decision for operators: in the idempotency cache of this process, or in the stored assignments."""

from __future__ import annotations

from typing import Protocol

from router.contracts.answer import decision_fields
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.assignment_record import read_record
from router.contracts.decision import Decision
from router.core import ids
from router.core.errors import Poison
from router.operations.admin.decisions import DecisionQuery
from router.operations.admin.service import Answer
from router.routing.decide import IdempotencyCache


class Records(Protocol):
    """The bucket of known assignments. Raises BrokerUnavailable."""

    async def find(self, key: str) -> bytes | None: ...


class DecisionLookup:
    """`operations.admin.decisions.DecisionRepository`."""

    def __init__(self, replays: IdempotencyCache, book: Records) -> None:
        self._replays = replays
        self._book = book

    async def find_remembered(self, wanted: DecisionQuery) -> Answer | None:
        known = await self._replays.find(wanted.tenant_id, request_id=wanted.request_id, message_id=wanted.message_id)
        return _answer(known.decision, known.answer_id, known.trace_id) if known is not None else None

    async def find_stored(self, wanted: DecisionQuery) -> Answer | None:
        """Find an assignment by the id of its request; a request with an `idempotency_key` cannot be found by its other ids."""
        for request_key in (wanted.request_id, wanted.message_id):
            found = await self._find_assignment(wanted, request_key) if request_key is not None else None
            if found is not None:
                return _answer(found.decision, found.request_id, found.trace_id)
        return None

    async def _find_assignment(self, wanted: DecisionQuery, request_key: str) -> Assignment | None:
        record = await self._book.find(ids.key(assignment_id_of(wanted.tenant_id, request_key)))
        try:
            known = read_record(record).read_assignment() if record is not None else None
        except Poison:
            return None
        if known is None or known.tenant_id != wanted.tenant_id:
            return None
        return known if wanted.request_id in (None, known.request_id) else None


def _answer(decision: Decision, answer_id: str, trace_id: str | None) -> Answer:
    context = {"request_id": answer_id}
    if trace_id is not None:
        context["trace_id"] = trace_id
    return {"decision": decision_fields(decision), "context": context}
