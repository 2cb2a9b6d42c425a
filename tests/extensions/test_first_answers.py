"""First answers: the same request, and only that, gets the same; each tenant has its share of the
memory.
"""

import pytest

from router.contracts.provider import SUCCESS, ProviderResponse
from router.contracts.provider_request import ProviderRequest
from router.core.errors import Conflict
from router.extensions.model.invocation_answers import KILOBYTE, FirstAnswers

ANSWER = ProviderResponse(request_id="r-1", status=SUCCESS, body="hello")


class Memory:
    def __init__(self, kept_bytes: int = 1024 * KILOBYTE) -> None:
        self.now = 0.0
        self.kept: FirstAnswers[ProviderResponse] = FirstAnswers(kept_bytes, 60.0, lambda: self.now)


def asked(name: str = "r-1", tenant: str = "acme", **fields: object) -> ProviderRequest:
    given: dict[str, object] = {
        "provider_id": "echo",
        "tenant_id": tenant,
        "request_id": name,
        "trace_id": "t-1",
        "body": "hello",
    }
    return ProviderRequest(**{**given, **fields})  # type: ignore[arg-type]


def test_the_same_request_gets_its_answer_until_it_is_forgotten() -> None:
    memory, request = Memory(), asked()
    assert memory.kept.find(request, request.digest()) is None
    memory.kept.keep(request, request.digest(), ANSWER, 100)
    assert memory.kept.find(asked(trace_id="t-2"), asked(trace_id="t-2").digest()) is ANSWER
    memory.now = 59.9
    assert memory.kept.find(request, request.digest()) is ANSWER
    memory.now = 60.1
    assert memory.kept.find(request, request.digest()) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"body": "other"},
        {"body": b"\xff"},
        {"provider_id": "other"},
        {"parameters": {"max_tokens": 1}},
        {"metadata": {"user": "u"}},
    ],
)
def test_other_content_under_an_id_is_a_conflict(fields: dict[str, object]) -> None:
    memory = Memory()
    memory.kept.keep(asked(), asked().digest(), ANSWER, 100)
    with pytest.raises(Conflict):
        memory.kept.find(asked(**fields), asked(**fields).digest())


def test_order_of_keys_and_trace_fields_make_no_other_content() -> None:
    one = asked(metadata={"a": 1, "b": 2}, parameters={"x": 1, "y": {"p": 1, "q": 2}})
    other = asked(
        metadata={"b": 2, "traceparent": "00-1", "a": 1}, parameters={"y": {"q": 2, "p": 1}, "x": 1}
    )
    assert one.digest() == other.digest()


def test_the_same_id_of_another_tenant_is_another_request() -> None:
    memory = Memory()
    memory.kept.keep(asked(), asked().digest(), ANSWER, 100)
    assert (
        memory.kept.find(
            asked(tenant="globex", body="other"), asked(tenant="globex", body="other").digest()
        )
        is None
    )


def test_an_answer_above_256_kib_is_not_kept() -> None:
    memory = Memory()
    memory.kept.keep(asked(), asked().digest(), ANSWER, 256 * 1024 + 1)
    assert len(memory.kept) == 0
    memory.kept.keep(asked(), asked().digest(), ANSWER, 256 * 1024)
    assert len(memory.kept) == 1


def test_a_tenant_that_fills_the_memory_takes_no_answer_of_others() -> None:
    memory = Memory()
    quiet = asked(tenant="quiet")
    memory.kept.keep(quiet, quiet.digest(), ANSWER, 100)
    for number in range(5_000):
        flood = asked(f"r-{number}", "hog")
        memory.kept.keep(
            flood, flood.digest(), ANSWER, 100 * KILOBYTE if number % 100 == 0 else 100
        )
    assert len(memory.kept) <= 1024
    assert memory.kept.find(quiet, quiet.digest()) is ANSWER
