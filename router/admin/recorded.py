"""`explain_decision` and `try_policy`: asked of every instance, because each one records what it decided itself.

Every instance answers, also the one that knows nothing, so that whoever asks can tell silence from "not here". The tenant
is part of every look: a request of another tenant is not found, whatever its ids are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.admin.asked import Asked
from router.admin.declined import DECISION_NOT_FOUND, INVALID_REQUEST, Declined, invalid
from router.admin.service import Answer, Service

MOST = 1000  # recorded requests in one comparison: the answer must fit into one message


class RecordedBook(Protocol):
    """What this instance recorded."""

    def records(self, tenant_id: str) -> bool: ...

    async def explain(self, tenant_id: str, request_id: str | None, message_id: str | None) -> Answer | None:
        """The newest record of that request. Raises BrokerUnavailable while its policy's version cannot be looked up."""

    async def compare(self, tenant_id: str, policy_id: str, document: Mapping[str, object], against: int) -> Answer:
        """The candidate on the newest records. Raises Declined when it is no policy."""


class RecordedServices:
    """Both of them, for the station. `node_id` says who answers."""

    def __init__(self, book: RecordedBook, node_id: str) -> None:
        self._book = book
        self._node_id = node_id

    def all(self) -> tuple[Service, ...]:
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
                f"{{tenant_id, policy_id, policy, against: 1..{MOST}}}",
                "{ok, router_node_id, is_recorded, compared[{at_ms, tenant_id, request_id, verdict, before, after, doubt?}]}",
                self.compare,
                is_everywhere=True,
            ),
        )

    async def explain(self, asked: Asked) -> Answer:
        tenant_id, request_id, message_id = asked.tenant_id(), asked.opaque("request_id"), asked.opaque("message_id")
        if request_id is None and message_id is None:
            raise Declined(INVALID_REQUEST, "Missing required field: request_id or message_id", {"field": "request_id"})
        found = await self._book.explain(tenant_id, request_id, message_id)
        if found is None:
            raise Declined(DECISION_NOT_FOUND, self._why_not_found(tenant_id), {"router_node_id": self._node_id})
        return {"router_node_id": self._node_id, **found}

    async def compare(self, asked: Asked) -> Answer:
        tenant_id, policy_id = asked.shelf_tenant(), asked.policy_id()
        document, against = asked.an_object("policy"), asked.whole("against")
        if against is None or against > MOST:
            raise invalid("against", f"a whole number, 1..{MOST}")
        return {"router_node_id": self._node_id, **await self._book.compare(tenant_id, policy_id, document, against)}

    def _why_not_found(self, tenant_id: str) -> str:
        if self._book.records(tenant_id):
            return "This instance holds no record of that request"
        return "This instance records no decisions of this tenant: the setting recorder.tenants names those that are"
