"""What was decided, where one instance can look by itself."""

from router.contracts.assignment import assignment_id_of
from router.contracts.decision import Decision
from router.contracts.request import RouteRequest
from router.core import ids
from router.operations.admin.decisions import DecisionQuery
from router.routing.decide import IdempotencyCache
from router.routing.decide.assign import record_of
from router.routing.decide.read import read
from router.services.decision_lookup import DecisionLookup
from tests.support.requests import a_body, a_message

DECISION = Decision("openai", "weighted", 50, 1.0, 1.0)


class Book:
    """A bucket with values that the router did not write."""

    def __init__(self, records: dict[str, bytes]) -> None:
        self._records = records

    async def find(self, key: str) -> bytes | None:
        return self._records.get(key)


def key_of(tenant: str, request_key: str) -> str:
    return ids.key(assignment_id_of(tenant, request_key))


def a_record(tenant: str = "acme", **fields: object) -> bytes:
    message = a_message({**a_body(tenant_id=tenant), **fields})
    request = read(message).asked
    assert isinstance(request, RouteRequest)
    return record_of(request, message, DECISION, "caf.exec.assign.v1")


def decided(records: dict[str, bytes]) -> DecisionLookup:
    return DecisionLookup(IdempotencyCache(), Book(records))


async def test_a_pushed_decision_is_found_by_the_identity_of_its_request() -> None:
    book = decided({key_of("acme", "r-1"): a_record(request_id="r-1")})
    found = await book.find_stored(DecisionQuery("acme", "r-1"))
    assert found is not None
    assert found["context"] == {"request_id": "r-1"}
    assert await book.find_remembered(DecisionQuery("acme", "r-1")) is None


async def test_a_record_that_says_another_tenant_or_request_than_its_key_is_not_believed() -> None:
    assert await decided({key_of("acme", "r-1"): a_record("evil", request_id="r-1")}).find_stored(DecisionQuery("acme", "r-1")) is None
    assert await decided({key_of("acme", "r-1"): a_record(request_id="r-2")}).find_stored(DecisionQuery("acme", "r-1")) is None


async def test_bytes_that_are_no_record_are_no_decision() -> None:
    assert await decided({key_of("acme", "r-1"): b"rubbish"}).find_stored(DecisionQuery("acme", "r-1")) is None
