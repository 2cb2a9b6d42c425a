"""The registry of extensions over NATS: list, put, delete, and how each extension fares (docs/operators.md#admin-services)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.admin.asked import Asked
from router.admin.fleet_view import merge, merge_health, node_ids
from router.admin.instances import HEALTH, Instances
from router.admin.policies import AUTHOR
from router.admin.service import Answer, Service

BESIDE = ("replaces", "author")  # of a request that is a registry entry: what is ours and not the entry's


class ExtensionBook(Protocol):
    """Each raises Declined (invalid_request, extension_not_found, conflict) or BrokerUnavailable."""

    async def list(self) -> list[Answer]:
        """`{id, version, author, time, hash, entry}` of each."""

    async def put(self, entry: Mapping[str, object], replaces: int | None, author: str) -> Answer:
        """`{id, version, is_new}`. `replaces` None: whatever stands there, so that a service may register itself anew."""

    async def delete(self, extension_id: str, replaces: int | None) -> int:
        """The version that is gone."""


class ExtensionServices:
    """What `router extension` does, for who has a NATS client and nothing else."""

    def __init__(self, book: ExtensionBook, instances: Instances) -> None:
        self._book = book
        self._instances = instances

    def all(self) -> tuple[Service, ...]:
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

    async def list(self, asked: Asked) -> Answer:
        return {"extensions": await self._book.list()}

    async def put(self, asked: Asked) -> Answer:
        return await self._book.put(asked.without(*BESIDE), asked.replaces(), asked.text("author") or AUTHOR)

    async def delete(self, asked: Asked) -> Answer:
        extension_id = asked.extension_id()
        return {"id": extension_id, "version": await self._book.delete(extension_id, asked.replaces())}

    async def health(self, asked: Asked) -> Answer:
        parts = await self._instances.ask(HEALTH)
        return {"health": merge(parts, "health", merge_health), "router_node_ids": node_ids(parts)}
