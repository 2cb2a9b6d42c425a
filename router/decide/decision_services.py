"""`beamline.router.v1.get_decision`: the decision of a request, whichever instance made it.

One instance of the queue group receives the request. It searches its own cache, then asks all other
instances (`find_decision`) and takes the first answer, then searches the stored assignments. The
tenant is part of every search: a request of another tenant is not found, whatever its ids are. A
request without a tenant is answered if the settings name one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from router.contracts.answer import decision_fields
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.assignment_record import read_record
from router.contracts.decision import Decision
from router.core import ids
from router.core.errors import Poison
from router.decide.model import IdempotencyCache
from router.operate.admin.request_fields import RequestFields
from router.operate.admin.service import INTERNAL_PREFIX, Answer, Service
from router.operate.admin.service_error import DECISION_NOT_FOUND, INVALID_REQUEST, ServiceError

SERVICE_PREFIX = "beamline.router.v1."
FIND_DECISION = INTERNAL_PREFIX + "find_decision"
ASKS = "{tenant_id?, request_id or message_id}"
HINT = "send tenant_id, or set admin.single_tenant if all clients belong to one tenant"
GIVES = "{ok, decision{…}, context{request_id, trace_id?}, trace?} or decision_not_found"


class DecisionQuery(Struct, frozen=True, omit_defaults=True):
    """Which request: its `request_id` as answers show it, or its message id; both must agree when
    both are given.
    """

    tenant_id: str
    request_id: str | None = None
    message_id: str | None = None


class Records(Protocol):
    """The bucket of known assignments. Raises BrokerUnavailable."""

    async def find(self, key: str) -> bytes | None: ...


class OtherInstances(Protocol):
    async def ask_first(self, subject: str, asked: Mapping[str, object]) -> Answer | None: ...


class DecisionServices:
    """The public service, and the internal one that every instance answers. What is found is
    `{decision, context}`.
    """

    def __init__(
        self,
        remembered: IdempotencyCache,
        records: Records,
        others: OtherInstances,
        single_tenant: str | None = None,
    ) -> None:
        self._remembered = remembered
        self._records = records
        self._others = others
        # of a request that names none: a gateway of one tenant knows only the message id
        self._single_tenant = single_tenant

    def list_services(self) -> tuple[Service, ...]:
        says = "What was decided for a request"
        return (
            Service("get_decision", says, ASKS, GIVES, self.get, SERVICE_PREFIX),
            Service(
                "find_decision",
                f"{says}, as far as this instance remembers",
                ASKS,
                GIVES,
                self.find,
                INTERNAL_PREFIX,
                True,
            ),
        )

    async def get(self, asked: RequestFields) -> Answer:
        query = _read_query(asked, self._single_tenant)
        found = await self.find_remembered(query) or await self._others.ask_first(
            FIND_DECISION, _fields(query)
        )
        if found is None and (found := await self.find_stored(query)) is None:
            raise _unknown()
        return found

    async def find(self, asked: RequestFields) -> Answer:
        found = await self.find_remembered(_read_query(asked, None))
        if found is None:
            raise _unknown()
        return found

    async def find_remembered(self, query: DecisionQuery) -> Answer | None:
        known = await self._remembered.find(
            query.tenant_id, request_id=query.request_id, message_id=query.message_id
        )
        return (
            _answer(known.decision, known.answer_id, known.trace_id) if known is not None else None
        )

    async def find_stored(self, query: DecisionQuery) -> Answer | None:
        """Find an assignment by the id of its request; a request with an `idempotency_key` cannot
        be found by its other ids.
        """
        for request_key in (query.request_id, query.message_id):
            found = (
                await self._find_assignment(query, request_key) if request_key is not None else None
            )
            if found is not None:
                return _answer(found.decision, found.request_id, found.trace_id)
        return None

    async def _find_assignment(self, query: DecisionQuery, request_key: str) -> Assignment | None:
        record = await self._records.find(ids.key(assignment_id_of(query.tenant_id, request_key)))
        try:
            known = read_record(record).read_assignment() if record is not None else None
        except Poison:
            return None
        if known is None or known.tenant_id != query.tenant_id:
            return None
        return known if query.request_id in (None, known.request_id) else None


def _read_query(asked: RequestFields, single_tenant: str | None) -> DecisionQuery:
    tenant_id = asked.optional_tenant_id() or single_tenant
    if tenant_id is None:
        raise ServiceError(
            INVALID_REQUEST,
            "Missing required field: tenant_id",
            {"field": "tenant_id", "hint": HINT},
        )
    query = DecisionQuery(tenant_id, asked.opaque("request_id"), asked.opaque("message_id"))
    if query.request_id is None and query.message_id is None:
        raise ServiceError(
            INVALID_REQUEST,
            "Missing required field: request_id or message_id",
            {"field": "request_id"},
        )
    return query


def _fields(query: DecisionQuery) -> Mapping[str, object]:
    pairs = (
        ("tenant_id", query.tenant_id),
        ("request_id", query.request_id),
        ("message_id", query.message_id),
    )
    return {name: value for name, value in pairs if value is not None}


def _unknown() -> ServiceError:
    return ServiceError(DECISION_NOT_FOUND, "No decision of this request is remembered")


def _answer(decision: Decision, answer_id: str, trace_id: str | None) -> Answer:
    context = {"request_id": answer_id}
    if trace_id is not None:
        context["trace_id"] = trace_id
    return {"decision": decision_fields(decision), "context": context}
