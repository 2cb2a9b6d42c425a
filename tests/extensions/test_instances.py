"""The states of one instance, as its services show them."""

from collections.abc import Mapping
from typing import cast

import pytest

from router.extensions.instances import Instances
from router.extensions.model import ExtensionRegistry, HealthTracker
from router.operate.admin import ServiceError
from router.operate.admin.service import RequestFields
from router.policies import breakers

OPENED = {"opened_at_ms": 7, "failure_count": 5, "error_rate": 0.5}


class Breakers:
    def extension_states(self) -> Mapping[str, Mapping[str, object]]:
        return {
            "guard": {
                "extension_id": "guard",
                "state": "closed",
                "opened_at_ms": None,
                "failure_count": 0,
                "error_rate": 0.0,
            }
        }

    def provider_states(self) -> Mapping[str, Mapping[str, object]]:
        return {
            "acme/openai": {"tenant_id": "acme", "provider_id": "openai", "state": "open", **OPENED}
        }


class Registry:
    def get_all(self) -> Mapping[str, object]:
        return {"guard": None}


class Alone:
    """No instance answers in time."""

    async def ask_all(
        self, subject: str, asked: Mapping[str, object]
    ) -> list[Mapping[str, object]]:
        return []


def an_instance() -> Instances:
    registry, states = cast(ExtensionRegistry, Registry()), cast(breakers.Breakers, Breakers())
    return Instances(registry, HealthTracker(), states, "node-1", Alone())


async def test_a_breaker_that_is_closed_has_no_opening_and_none_is_null() -> None:
    answer = await an_instance().read_breakers(RequestFields({}))
    guard = {
        "extension_id": "guard",
        "state": "closed",
        "failure_count": 0,
        "error_rate": 0.0,
        "nodes": {},
    }
    openai = {
        "tenant_id": "acme",
        "provider_id": "openai",
        "state": "open",
        "opened_at_ms": 7,
        "failure_count": 5,
        "error_rate": 0.5,
    }
    of_the_node = {
        name: openai[name] for name in ("state", "opened_at_ms", "failure_count", "error_rate")
    }
    assert answer["states"] == {"guard": guard}
    assert answer["providers"] == {"acme/openai": {**openai, "nodes": {"node-1": of_the_node}}}
    assert (answer["router_node_id"], answer["router_node_ids"]) == ("node-1", ["node-1"])


@pytest.mark.parametrize("about", [None, "everything"])
async def test_an_instance_tells_of_health_or_of_breakers(about: str | None) -> None:
    with pytest.raises(ServiceError):
        await an_instance().read_own(RequestFields({"about": about} if about else {}))
