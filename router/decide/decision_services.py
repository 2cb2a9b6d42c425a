"""What operators ask about decisions: the decision of a request, whichever instance made it; why it
was made; and what another policy would have decided.

One instance of the queue group receives the request. It searches its own cache, then asks all other
instances (`find_decision`) and takes the first answer, then searches the stored assignments. The
tenant is part of every search: a request of another tenant is not found, whatever its ids are. A
request without a tenant is answered if the settings name one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import orjson
from msgspec import Struct, to_builtins

from router.config import Settings
from router.contracts.answer import decision_fields
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.assignment_record import read_record
from router.contracts.decision import Decision
from router.core import ids
from router.core.errors import Poison
from router.decide.model import DecisionRecorder, IdempotencyCache
from router.decide.model.recorder import explain_decision
from router.operate.admin.service import (
    DECISION_NOT_FOUND,
    INTERNAL_PREFIX,
    INVALID_REQUEST,
    Answer,
    RequestFields,
    Service,
    ServiceError,
    invalid_field,
)
from router.policies.model import (
    Comparison,
    Policy,
    PolicyError,
    PolicyFinder,
    compare,
    parse_record,
)
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.store import PolicyNotFound, PolicyStore, check_policy_in_thread

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
        answer = await self.find_remembered(query) or await self._others.ask_first(
            FIND_DECISION, _fields(query)
        )
        if answer is None and (answer := await self.find_stored(query)) is None:
            raise _unknown()
        return answer

    async def find(self, asked: RequestFields) -> Answer:
        answer = await self.find_remembered(_read_query(asked, None))
        if answer is None:
            raise _unknown()
        return answer

    async def find_remembered(self, query: DecisionQuery) -> Answer | None:
        remembered = await self._remembered.find(
            query.tenant_id, request_id=query.request_id, message_id=query.message_id
        )
        return (
            _answer(remembered.decision, remembered.answer_id, remembered.trace_id)
            if remembered is not None
            else None
        )

    async def find_stored(self, query: DecisionQuery) -> Answer | None:
        """Find an assignment by the id of its request; a request with an `idempotency_key` cannot
        be found by its other ids.
        """
        for request_key in (query.request_id, query.message_id):
            stored = (
                await self._find_assignment(query, request_key) if request_key is not None else None
            )
            if stored is not None:
                return _answer(stored.decision, stored.request_id, stored.trace_id)
        return None

    async def _find_assignment(self, query: DecisionQuery, request_key: str) -> Assignment | None:
        record = await self._records.find(ids.key(assignment_id_of(query.tenant_id, request_key)))
        try:
            assignment = read_record(record).read_assignment() if record is not None else None
        except Poison:
            return None
        if assignment is None or assignment.tenant_id != query.tenant_id:
            return None
        return assignment if query.request_id in (None, assignment.request_id) else None


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


# -- `explain_decision` and `try_policy`: every instance answers, because each records its own
# decisions.
#
# An instance without a record answers too, so that the client can distinguish "not found" from no
# answer. The tenant is part of every search: a request of another tenant is not found, whatever its
# ids are.


MAX_COMPARED = 1000  # recorded requests in one comparison: the answer must fit into one message
CASES_PER_TURN = 20  # cases compared in one turn of the event loop: under a millisecond

# tenant (or `_shared`), policy, version
FindVersion = Callable[[str, str, int], Awaitable[Policy | None]]


def build_recorder(
    settings: Settings,
    figures: Callable[[str], Mapping[str, LearnedFigures]] = lambda _: NO_FIGURES,
) -> DecisionRecorder:
    """The recorder, with a ring buffer for each tenant that the settings name. `figures`: what is
    learned of a tenant's providers.
    """
    recorder = settings.recorder
    return DecisionRecorder(
        frozenset(recorder.tenants), recorder.entries, recorder.entry_max_bytes, figures=figures
    )


def version_finder(policies: PolicyFinder, store: PolicyStore) -> FindVersion:
    """Builds the function that finds a policy version: the one in force, or one from the history of
    the bucket.
    """

    async def find(tenant_id: str, policy_id: str, version: int) -> Policy | None:
        present = policies.find(tenant_id, policy_id)
        if present is not None and (present.tenant_id, present.version) == (tenant_id, version):
            return present
        with suppress(PolicyNotFound, PolicyError):
            record = (await store.get(tenant_id, policy_id, version=version)).record
            return await asyncio.to_thread(parse_record, record, tenant_id, policy_id)
        return None

    return find


class RecordedServices:
    """Both services. `find_version` finds a policy version; `node_id`: that of this instance."""

    def __init__(self, recorder: DecisionRecorder, find_version: FindVersion, node_id: str) -> None:
        self._recorder = recorder
        self._find_version = find_version
        self._node_id = node_id

    def list_services(self) -> tuple[Service, ...]:
        return (
            Service(
                "explain_decision",
                (
                    "How this instance came to a recorded decision, and whether it comes out "
                    "the same again"
                ),
                "{tenant_id, request_id or message_id}",
                (
                    "{ok, router_node_id, at_ms, request, policy, states, decision | error, "
                    "again{…}} or decision_not_found"
                ),
                self.explain,
                is_everywhere=True,
            ),
            Service(
                "try_policy",
                (
                    "What a candidate would have decided for the requests that this instance "
                    "recorded last"
                ),
                f"{{tenant_id, policy_id, policy, against: 1..{MAX_COMPARED}}}",
                "{ok, router_node_id, is_recorded, "
                "compared[{at_ms, tenant_id, request_id, verdict, before, after, "
                "uncertainty?, expected_before?, expected_after?}]}",
                self.compare,
                is_everywhere=True,
            ),
        )

    async def explain(self, asked: RequestFields) -> Answer:
        """Raises BrokerUnavailable if the version of its policy cannot be read."""
        tenant_id, request_id, message_id = (
            asked.tenant_id(),
            asked.opaque("request_id"),
            asked.opaque("message_id"),
        )
        if request_id is None and message_id is None:
            raise ServiceError(
                INVALID_REQUEST,
                "Missing required field: request_id or message_id",
                {"field": "request_id"},
            )
        case = self._recorder.find(tenant_id, request_id=request_id, message_id=message_id)
        if case is None:
            raise ServiceError(
                DECISION_NOT_FOUND,
                self._explain_absence(tenant_id),
                {"router_node_id": self._node_id},
            )
        policy = await self._find_version(
            case.policy_tenant_id, case.policy_id, case.policy_version
        )
        return {"router_node_id": self._node_id, **explain_decision(case, policy)}

    async def compare(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id = asked.policy_tenant(), asked.policy_id()
        document, against = asked.json_object("policy"), asked.integer("against")
        if against is None or against > MAX_COMPARED:
            raise invalid_field("against", f"a whole number, 1..{MAX_COMPARED}")
        candidate = await _candidate(document, tenant_id, policy_id)
        compared: list[Comparison] = []
        for case in self._recorder.list_latest(tenant_id, policy_id, against):
            compared.append(compare(candidate, case))
            if len(compared) % CASES_PER_TURN == 0:
                await asyncio.sleep(0)
        newest = sorted(compared, key=lambda item: -item.at_ms)[:against]
        is_recorded = self._recorder.is_recorded(tenant_id)
        return {
            "router_node_id": self._node_id,
            "is_recorded": is_recorded,
            "compared": to_builtins(newest),
        }

    def _explain_absence(self, tenant_id: str) -> str:
        if self._recorder.is_recorded(tenant_id):
            return "This instance holds no record of that request"
        return (
            "This instance records no decisions of this tenant: the setting recorder.tenants "
            "names those that are"
        )


async def _candidate(document: Mapping[str, object], tenant_id: str, policy_id: str) -> Policy:
    try:
        return (await check_policy_in_thread(orjson.dumps(document), tenant_id, policy_id)).policy
    except PolicyError as exc:
        errors = [{"path": path, "message": message} for path, message in exc.errors]
        raise ServiceError(
            INVALID_REQUEST, "The candidate is no policy", {"field": "policy", "errors": errors}
        ) from exc
