"""The registry of extensions over NATS: list, put, delete, and the health of each extension (docs/operators.md#admin-services)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.operations.admin.fleet_view import merge, merge_health, node_ids
from router.operations.admin.instances import HEALTH, Instances
from router.operations.admin.policies import AUTHOR
from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service

REQUEST_FIELDS = ("replaces", "author")  # fields of the request that are not part of the registry entry


class ExtensionRepository(Protocol):
    """Each raises ServiceError (invalid_request, extension_not_found, conflict) or BrokerUnavailable."""

    async def list(self) -> list[Answer]:
        """`{id, version, author, time, hash, entry}` of each."""

    async def put(self, entry: Mapping[str, object], replaces: int | None, author: str) -> Answer:
        """`{id, version, is_new}`. `replaces` None: replace any version, so that a service can register itself again."""

    async def delete(self, extension_id: str, replaces: int | None) -> int:
        """The deleted version."""


class ExtensionServices:
    """What `router extension` does, for a NATS client."""

    def __init__(self, book: ExtensionRepository, instances: Instances) -> None:
        self._book = book
        self._instances = instances

    def list_services(self) -> tuple[Service, ...]:
        listed = "{ok, extensions[{id, version, author, time, hash, entry}]}"
        figures = "extension_id, status, success_rate, …, circuit_breaker_state, circuit_breaker_opened_at_ms, updated_at"
        health = f"{{health{{id: {{{figures}, nodes{{node_id: {{status, …}}}}}}}}, router_node_ids[]}}"
        put = "a registry entry {id, type, subject, …}; beside it replaces? (0: only if there is none), author?"
        return (
            Service("list_extensions", "Every registered extension", "{}", listed, self.list),
            Service("put_extension", "Register an extension, or register it anew", put, "{ok, id, version, is_new}", self.put),
            Service("delete_extension", "Remove an extension", "{id, replaces?}", "{ok, id, version}", self.delete),
            Service("get_extension_health", "How each extension fared in the last minutes", "{}", health, self.health),
        )

    async def list(self, asked: RequestFields) -> Answer:
        return {"extensions": await self._book.list()}

    async def put(self, asked: RequestFields) -> Answer:
        return await self._book.put(asked.exclude(*REQUEST_FIELDS), asked.replaced_version(), asked.text("author") or AUTHOR)

    async def delete(self, asked: RequestFields) -> Answer:
        extension_id = asked.extension_id()
        return {"id": extension_id, "version": await self._book.delete(extension_id, asked.replaced_version())}

    async def health(self, asked: RequestFields) -> Answer:
        parts = await self._instances.read_all(HEALTH)
        return {"health": merge(parts, "health", merge_health), "router_node_ids": node_ids(parts)}
