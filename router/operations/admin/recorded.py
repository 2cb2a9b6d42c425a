"""`explain_decision` and `try_policy`: every instance answers, because each records its own decisions.

An instance without a record answers too, so that the client can distinguish "not found" from no answer. The tenant is part of
every search: a request of another tenant is not found, whatever its ids are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service
from router.operations.admin.service_error import DECISION_NOT_FOUND, INVALID_REQUEST, ServiceError, invalid_field

MAX_COMPARED = 1000  # recorded requests in one comparison: the answer must fit into one message


class RecordingRepository(Protocol):
    """The decisions that this instance recorded."""

    def is_recording(self, tenant_id: str) -> bool: ...

    async def explain(self, tenant_id: str, request_id: str | None, message_id: str | None) -> Answer | None:
        """The newest record of that request. Raises BrokerUnavailable if the version of its policy cannot be read."""

    async def compare(self, tenant_id: str, policy_id: str, document: Mapping[str, object], against: int) -> Answer:
        """Evaluate the candidate for the newest records. Raises ServiceError if it is not a policy."""


class RecordedServices:
    """Both services. `node_id`: that of this instance."""

    def __init__(self, book: RecordingRepository, node_id: str) -> None:
        self._book = book
        self._node_id = node_id

    def list_services(self) -> tuple[Service, ...]:
        return (
            Service(
                "explain_decision",
                "How this instance came to a recorded decision, and whether it comes out the same again",
                "{tenant_id, request_id or message_id}",
                "{ok, router_node_id, at_ms, request, policy, states, decision | error, again{…}} or decision_not_found",
                self.explain,
                is_everywhere=True,
            ),
            Service(
                "try_policy",
                "What a candidate would have decided for the requests that this instance recorded last",
                f"{{tenant_id, policy_id, policy, against: 1..{MAX_COMPARED}}}",
                "{ok, router_node_id, is_recorded, compared[{at_ms, tenant_id, request_id, verdict, before, after, doubt?}]}",
                self.compare,
                is_everywhere=True,
            ),
        )

    async def explain(self, asked: RequestFields) -> Answer:
        tenant_id, request_id, message_id = asked.tenant_id(), asked.opaque("request_id"), asked.opaque("message_id")
        if request_id is None and message_id is None:
            raise ServiceError(INVALID_REQUEST, "Missing required field: request_id or message_id", {"field": "request_id"})
        found = await self._book.explain(tenant_id, request_id, message_id)
        if found is None:
            raise ServiceError(DECISION_NOT_FOUND, self._explain_absence(tenant_id), {"router_node_id": self._node_id})
        return {"router_node_id": self._node_id, **found}

    async def compare(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id = asked.policy_tenant(), asked.policy_id()
        document, against = asked.json_object("policy"), asked.integer("against")
        if against is None or against > MAX_COMPARED:
            raise invalid_field("against", f"a whole number, 1..{MAX_COMPARED}")
        return {"router_node_id": self._node_id, **await self._book.compare(tenant_id, policy_id, document, against)}

    def _explain_absence(self, tenant_id: str) -> str:
        if self._book.is_recording(tenant_id):
            return "This instance holds no record of that request"
        return "This instance records no decisions of this tenant: the setting recorder.tenants names those that are"
