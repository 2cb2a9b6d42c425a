"""A dry run is what its request says, and no more."""

import pytest

from router.extensions.pipeline_services import PipelineServices, Trial
from router.operate.admin import ServiceError
from router.operate.admin.service import Answer, RequestFields


class Trials(PipelineServices):
    """Shows the trial in place of its result."""

    def __init__(self) -> None:
        pass

    async def run(self, trial: Trial) -> Answer:
        return {"trial": trial}


async def test_a_dry_run_calls_no_extension_unless_it_is_asked_to() -> None:
    services = Trials()
    names = {"tenant_id": "acme", "policy_id": "p", "payload": "hi"}
    quiet = await services.dry_run(RequestFields(names))
    loud = await services.dry_run(RequestFields({**names, "invoke": True}))
    trials = [answer["result"]["trial"] for answer in (quiet, loud)]  # type: ignore[index]
    assert [trial.is_invoking for trial in trials] == [False, True]


async def test_a_dry_run_needs_a_payload_and_a_context_that_is_an_object() -> None:
    for body in ({}, {"payload": "hi", "context": []}):
        with pytest.raises(ServiceError):
            await Trials().dry_run(RequestFields({"tenant_id": "acme", "policy_id": "p", **body}))
