"""`beamline.router.v1.get_decision`: what was decided for a request, whichever instance decided it.

One instance of the queue group is asked. It looks where it can see by itself (its memory, the stored assignments), and
then asks all the others (`find_decision`); the first that knows it wins. The tenant is part of every look: a request of
another tenant is not found, whatever its ids are. A request that names no tenant is answered where the settings name one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from router.admin.asked import Asked
from router.admin.declined import DECISION_NOT_FOUND, INVALID_REQUEST, Declined
from router.admin.service import INTERNAL_PREFIX, Answer, Service

VERSION = "beamline.router.v1."
FIND = INTERNAL_PREFIX + "find_decision"
ASKS = "{tenant_id?, request_id or message_id}"
HINT = "send tenant_id, or set admin.single_tenant where all who may ask belong to one tenant"
GIVES = "{ok, decision{…}, context{request_id, trace_id?}, trace?} or decision_not_found"


class Wanted(Struct, frozen=True, omit_defaults=True):
    """Which request: its `request_id` as answers show it, or its message id; both must agree when both are given."""

    tenant_id: str
    request_id: str | None = None
    message_id: str | None = None


class DecisionBook(Protocol):
    """What was decided, as far as one instance sees it: `{decision, context, trace?}`, or None."""

    async def remembered(self, wanted: Wanted) -> Answer | None: ...

    async def stored(self, wanted: Wanted) -> Answer | None:
        """Where every instance can look. Raises BrokerUnavailable."""


class Others(Protocol):
    async def first(self, subject: str, asked: Mapping[str, object]) -> Answer | None: ...


class DecisionServices:
    """The public service, and the internal one that every instance answers by itself."""

    def __init__(self, book: DecisionBook, others: Others, single_tenant: str | None = None) -> None:
        self._book = book
        self._others = others
        self._single_tenant = single_tenant  # of a request that names none: a gateway of one tenant knows the message id alone

    def all(self) -> tuple[Service, ...]:
        says = "What was decided for a request"
        return (
            Service("get_decision", says, ASKS, GIVES, self.get, VERSION),
            Service("find_decision", f"{says}, as far as this instance remembers", ASKS, GIVES, self.find, INTERNAL_PREFIX, True),
        )

    async def get(self, asked: Asked) -> Answer:
        wanted = _wanted(asked, self._single_tenant)
        found = await self._book.remembered(wanted) or await self._others.first(FIND, _fields(wanted))
        if found is None and (found := await self._book.stored(wanted)) is None:
            raise _unknown()
        return found

    async def find(self, asked: Asked) -> Answer:
        found = await self._book.remembered(_wanted(asked, None))
        if found is None:
            raise _unknown()
        return found


def _wanted(asked: Asked, single_tenant: str | None) -> Wanted:
    tenant_id = asked.maybe_tenant_id() or single_tenant
    if tenant_id is None:
        raise Declined(INVALID_REQUEST, "Missing required field: tenant_id", {"field": "tenant_id", "hint": HINT})
    wanted = Wanted(tenant_id, asked.opaque("request_id"), asked.opaque("message_id"))
    if wanted.request_id is None and wanted.message_id is None:
        raise Declined(INVALID_REQUEST, "Missing required field: request_id or message_id", {"field": "request_id"})
    return wanted


def _fields(wanted: Wanted) -> Mapping[str, object]:
    pairs = (("tenant_id", wanted.tenant_id), ("request_id", wanted.request_id), ("message_id", wanted.message_id))
    return {name: value for name, value in pairs if value is not None}


def _unknown() -> Declined:
    return Declined(DECISION_NOT_FOUND, "No decision of this request is remembered")
