"""What the stores raise, as answers."""

import json

import pytest

from router.core.errors import BrokerUnavailable, Conflict, Poison
from router.extensions.store import ExtensionNotFound
from router.operate.admin import ServiceError
from router.operate.admin.service import RequestFields
from router.operate.audit import OperatorWrite
from router.policies.model import PolicyError
from router.policies.store import PolicyNotFound
from router.serve.admin import PolicyServices, translate_errors
from tests.support.policy_buckets import a_policy_bucket, a_policy_of


class KeptTrail:
    """`authors`: to which the author of each event is added."""

    def __init__(self, by: str, authors: list[str], lost: str = "") -> None:
        self.lost = lost
        self._by, self._authors = by, authors

    async def record(self, write: OperatorWrite) -> None:
        self._authors.append(self._by)


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (
            PolicyError([("providers[0].weight", "is too large"), ("version", "is missing")]),
            "invalid_request",
        ),
        (PolicyNotFound("gone"), "policy_not_found"),
        (ExtensionNotFound("gone"), "extension_not_found"),
        (Conflict("another write came first"), "conflict"),
        (Poison("the document is too large"), "invalid_request"),
    ],
)
def test_each_failure_has_its_code_and_its_own_words(raised: Exception, code: str) -> None:
    with pytest.raises(ServiceError) as caught, translate_errors():
        raise raised
    assert (caught.value.code, str(caught.value)) == (code, str(raised))


def test_every_mistake_of_a_document_is_told_with_its_path() -> None:
    with pytest.raises(ServiceError) as caught, translate_errors():
        raise PolicyError([("providers[0].weight", "is too large"), ("version", "is missing")])
    assert caught.value.details == {
        "field": "providers[0].weight",
        "errors": [
            {"path": "providers[0].weight", "message": "is too large"},
            {"path": "version", "message": "is missing"},
        ],
    }


@pytest.mark.parametrize(("version", "details"), [(3, {"version": 3}), (None, None)])
def test_who_was_too_late_is_told_the_present_version_if_there_is_one(
    version: int | None, details: object
) -> None:
    with pytest.raises(ServiceError) as caught, translate_errors():
        raise Conflict("another write came first", version=version)
    assert caught.value.details == details


def test_a_broker_that_is_away_is_not_the_callers_mistake() -> None:
    with pytest.raises(BrokerUnavailable), translate_errors():
        raise BrokerUnavailable("silent")


async def test_a_request_that_names_no_author_writes_as_the_admin_service(
    nats_url: str, prefix: str
) -> None:
    async with a_policy_bucket(nats_url, prefix) as policies:
        body = {"tenant_id": "_shared", "policy_id": "p", "policy": json.loads(a_policy_of("x"))}
        authors: list[str] = []
        services = PolicyServices(policies, lambda by: KeptTrail(by, authors))
        assert await services.put(RequestFields(body)) == {
            "tenant_id": "_shared",
            "policy_id": "p",
            "version": 1,
        }
        assert (await policies.get("_shared", "p")).record.author == "admin service"
        assert authors == ["admin service"]


async def test_a_write_whose_event_is_lost_stands_and_the_answer_says_so(
    nats_url: str, prefix: str
) -> None:
    async with a_policy_bucket(nats_url, prefix) as policies:
        body = {"tenant_id": "_shared", "policy_id": "p", "policy": json.loads(a_policy_of("x"))}
        services = PolicyServices(policies, lambda by: KeptTrail(by, [], "broker_unavailable"))
        assert (await services.put(RequestFields(body)))["audit_lost"] == "broker_unavailable"
        assert (await policies.get("_shared", "p")).record.version == 1
