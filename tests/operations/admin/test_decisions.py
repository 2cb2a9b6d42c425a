"""`get_decision`: the instance's own memory, then the others', then what is stored."""

from collections.abc import Mapping

import pytest

from router.operations.admin import ServiceError
from router.operations.admin.decisions import FIND_DECISION, DecisionQuery, DecisionServices
from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer

HERE: Answer = {"decision": {"provider_id": "here"}}
THERE: Answer = {"decision": {"provider_id": "there"}}
STORED: Answer = {"decision": {"provider_id": "stored"}}
ASKED = RequestFields({"tenant_id": "acme", "request_id": "r-1"})


class World:
    """What each place knows, and in which order they were asked."""

    def __init__(self, here: Answer | None = None, there: Answer | None = None, kept: Answer | None = None) -> None:
        self._known = {"here": here, "there": there, "stored": kept}
        self.asked: list[tuple[str, object]] = []
        self.services = DecisionServices(self, self)

    async def find_remembered(self, wanted: DecisionQuery) -> Answer | None:
        return self._look("here", wanted)

    async def ask_first(self, subject: str, asked: Mapping[str, object]) -> Answer | None:
        return self._look("there", (subject, asked))

    async def find_stored(self, wanted: DecisionQuery) -> Answer | None:
        return self._look("stored", wanted)

    def _look(self, place: str, what: object) -> Answer | None:
        self.asked.append((place, what))
        return self._known[place]


async def test_a_decision_in_this_instances_cache_asks_no_other_instance() -> None:
    world = World(HERE, THERE, STORED)
    assert await world.services.get(ASKED) == HERE
    assert world.asked == [("here", DecisionQuery("acme", "r-1"))]


async def test_the_others_are_asked_with_the_tenant_before_the_store_is() -> None:
    world = World(None, THERE, STORED)
    assert await world.services.get(ASKED) == THERE
    assert world.asked[-1] == ("there", (FIND_DECISION, {"tenant_id": "acme", "request_id": "r-1"}))


async def test_the_store_is_searched_last_and_an_unknown_decision_is_not_found() -> None:
    assert await World(None, None, STORED).services.get(ASKED) == STORED
    with pytest.raises(ServiceError) as caught:
        await World().services.get(ASKED)
    assert caught.value.code == "decision_not_found"


async def test_an_instance_that_is_asked_by_another_looks_at_its_own_memory_alone() -> None:
    world = World(None, THERE, STORED)
    with pytest.raises(ServiceError):
        await world.services.find(ASKED)
    assert [place for place, _ in world.asked] == ["here"]


@pytest.mark.parametrize("body", [{}, {"tenant_id": "acme"}, {"request_id": "r-1"}, {"tenant_id": "acme", "request_id": "a b"}])
async def test_a_tenant_and_one_id_are_asked_for(body: dict[str, object]) -> None:
    with pytest.raises(ServiceError) as caught:
        await World(HERE).services.get(RequestFields(body))
    assert caught.value.code == "invalid_request"
