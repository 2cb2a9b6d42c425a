"""The published contract of a router with these settings. No server is asked, and nothing is
started.
"""

from __future__ import annotations

from typing import Any

import orjson

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.operate.alerts import Alerts
from router.operate.catalogue import MessageShape, ShapeLimits, build_shapes
from router.operate.topology.declared_topology import declare_topology
from router.policies.model import PolicyTable
from router.process.observability import Metrics
from router.serve.admin import build_services
from router.serve.app_context import AppContext
from router.serve.contract.asyncapi import ContractFacts, build_document


def build_contract_document(settings: Settings) -> dict[str, Any]:
    """The AsyncAPI document."""
    context = AppContext(
        settings, Metrics(), Alerts(settings.node_id, 1.0), PolicyTable(), JetStream(Connection())
    )
    shapes, services = build_contract_shapes(settings), build_services(context, None)
    return build_document(
        ContractFacts(
            settings=settings, topology=declare_topology(settings), shapes=shapes, services=services
        )
    )


class ContractPages:
    """The contract over HTTP, below /contract/: `asyncapi.json`, `schemas/decide.json` … Made at
    the first request, and kept.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pages: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        """None: there is no such page."""
        if not self._pages:
            shapes = build_contract_shapes(self._settings).values()
            schemas = {
                f"schemas/{shape.name}.json": orjson.dumps(shape.build_schema()) for shape in shapes
            }
            self._pages = {
                "asyncapi.json": orjson.dumps(build_contract_document(self._settings)),
                **schemas,
            }
        return self._pages.get(path)


def build_contract_shapes(settings: Settings) -> dict[str, MessageShape]:
    """The messages, with the bounds of the settings."""
    limits = ShapeLimits(
        max_cost=settings.results.max_cost, assignment_subjects=settings.assignment.subjects
    )
    return dict(build_shapes(limits))
