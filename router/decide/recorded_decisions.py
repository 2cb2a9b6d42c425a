"""`explain_decision` and `try_policy`: every instance answers, because each records its own
decisions.

An instance without a record answers too, so that the client can distinguish "not found" from no
answer. The tenant is part of every search: a request of another tenant is not found, whatever its
ids are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import orjson
from msgspec import to_builtins

from router.config import Settings
from router.decide.model import DecisionRecorder
from router.decide.model.explain import explain_decision
from router.operate.admin.request_fields import RequestFields
from router.operate.admin.service import Answer, Service
from router.operate.admin.service_error import (
    DECISION_NOT_FOUND,
    INVALID_REQUEST,
    ServiceError,
    invalid_field,
)
from router.policies.check import check_policy_in_thread
from router.policies.model import (
    Comparison,
    Policy,
    PolicyError,
    PolicyFinder,
    compare,
    parse_record,
)
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.store import PolicyNotFound, PolicyStore

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
        newest = sorted(compared, key=lambda one: -one.at_ms)[:against]
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
