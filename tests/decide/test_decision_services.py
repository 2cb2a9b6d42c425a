"""`get_decision`: the instance's own memory, then the others', then what is stored; and where one
instance looks by itself.
"""

from collections.abc import Mapping

import pytest

from router.contracts.assignment import assignment_id_of
from router.contracts.decision import Decision, RouteRequest
from router.core import ids
from router.decide.decision_services import FIND_DECISION, DecisionQuery, DecisionServices
from router.decide.model import IdempotencyCache
from router.decide.model.push import assignment_id, build_new_assignment
from router.decide.model.read import read
from router.operate.admin import ServiceError
from router.operate.admin.service import Answer, RequestFields
from tests.support.decide import FakeStoring
from tests.support.requests import a_body, a_message

DECISION = Decision("openai", "weighted", 50, 1.0, 1.0)


class Book:
    """A bucket with values that the router did not write."""

    def __init__(self, records: dict[str, bytes]) -> None:
        self._records = records

    async def find(self, key: str) -> bytes | None:
        return self._records.get(key)


HERE: Answer = {"decision": {"provider_id": "here"}}
THERE: Answer = {"decision": {"provider_id": "there"}}
STORED: Answer = {"decision": {"provider_id": "stored"}}
ASKED = RequestFields({"tenant_id": "acme", "request_id": "r-1"})


class World(DecisionServices):
    """What each place knows, and in which order they were asked."""

    def __init__(
        self, here: Answer | None = None, there: Answer | None = None, kept: Answer | None = None
    ) -> None:
        self._known = {"here": here, "there": there, "stored": kept}
        self.asked: list[tuple[str, object]] = []
        super().__init__(IdempotencyCache(FakeStoring()), Book({}), self)

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
    assert await world.get(ASKED) == HERE
    assert world.asked == [("here", DecisionQuery("acme", "r-1"))]


async def test_the_others_are_asked_with_the_tenant_before_the_store_is() -> None:
    world = World(None, THERE, STORED)
    assert await world.get(ASKED) == THERE
    assert world.asked[-1] == ("there", (FIND_DECISION, {"tenant_id": "acme", "request_id": "r-1"}))


async def test_the_store_is_searched_last_and_an_unknown_decision_is_not_found() -> None:
    assert await World(None, None, STORED).get(ASKED) == STORED
    with pytest.raises(ServiceError) as caught:
        await World().get(ASKED)
    assert caught.value.code == "decision_not_found"


async def test_an_instance_that_is_asked_by_another_looks_at_its_own_memory_alone() -> None:
    world = World(None, THERE, STORED)
    with pytest.raises(ServiceError):
        await world.find(ASKED)
    assert [place for place, _ in world.asked] == ["here"]


@pytest.mark.parametrize(
    "body",
    [{}, {"tenant_id": "acme"}, {"request_id": "r-1"}, {"tenant_id": "acme", "request_id": "a b"}],
)
async def test_a_tenant_and_one_id_are_asked_for(body: dict[str, object]) -> None:
    with pytest.raises(ServiceError) as caught:
        await World(HERE).get(RequestFields(body))
    assert caught.value.code == "invalid_request"


def key_of(tenant: str, request_key: str) -> str:
    return ids.key(assignment_id_of(tenant, request_key))


def a_record(tenant: str = "acme", **fields: object) -> bytes:
    message = a_message({**a_body(tenant_id=tenant), **fields})
    request = read(message).asked
    assert isinstance(request, RouteRequest)
    return build_new_assignment(
        assignment_id(request), request, message, DECISION, "caf.exec.assign.v1"
    ).data


def decided(records: dict[str, bytes]) -> DecisionServices:
    return DecisionServices(IdempotencyCache(FakeStoring()), Book(records), World())


async def test_a_pushed_decision_is_found_by_the_identity_of_its_request() -> None:
    book = decided({key_of("acme", "r-1"): a_record(request_id="r-1")})
    found = await book.find_stored(DecisionQuery("acme", "r-1"))
    assert found is not None
    assert found["context"] == {"request_id": "r-1"}
    assert await book.find_remembered(DecisionQuery("acme", "r-1")) is None


async def test_a_record_that_says_another_tenant_or_request_than_its_key_is_not_believed() -> None:
    assert (
        await decided({key_of("acme", "r-1"): a_record("evil", request_id="r-1")}).find_stored(
            DecisionQuery("acme", "r-1")
        )
        is None
    )
    assert (
        await decided({key_of("acme", "r-1"): a_record(request_id="r-2")}).find_stored(
            DecisionQuery("acme", "r-1")
        )
        is None
    )


async def test_bytes_that_are_no_record_are_no_decision() -> None:
    assert (
        await decided({key_of("acme", "r-1"): b"rubbish"}).find_stored(DecisionQuery("acme", "r-1"))
        is None
    )
