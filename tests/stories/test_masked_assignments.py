"""What a decision says of personal data holds for the assignment that a worker receives."""

from nats.aio.client import Client

from tests.support.extension_author import serve_extension
from tests.support.extension_pipeline import PipelinePlace, a_pipeline
from tests.support.router_streams import read_assignments
from tests.support.stories import a_request, ask

CARD, MAIL = "4111 1111 1111 1111", "a@b.example"
PAYLOAD = {"text": f"{MAIL} pays with {CARD}", MAIL: [CARD]}
MESSAGE = {
    "tenant_id": "acme",
    "message_type": "chat",
    "payload": PAYLOAD,
    "metadata": {"from": MAIL},
}
ENTRIES = {
    "mask_payload": {"kind": "pre", "timeout_ms": 20_000},
    "mask_pii": {"kind": "post", "timeout_ms": 20_000},
}
AFTER = {"post": [{"id": "mask_pii", "mode": "required"}]}
POLICIES = {
    "after": AFTER,
    "before": {**AFTER, "pre": [{"id": "mask_payload", "mode": "required"}]},
}


async def test_a_post_processor_finds_personal_data_and_does_not_say_that_it_masked_it(
    nc: Client, at: PipelinePlace
) -> None:
    from router.sdk.samples.extensions.mask_pii import mask_pii

    async with (
        serve_extension(at.nats_url, mask_pii),
        a_pipeline(at, ENTRIES, POLICIES) as (_, settings),
    ):
        answer = await ask(
            nc, settings, a_request(1, message=MESSAGE, policy_id="after", push_assignment=True)
        )
        (assigned,) = await read_assignments(nc, settings)
    assert assigned["job"]["payload"] == PAYLOAD
    assert "pii_masked" not in answer["decision"]["metadata"]
    assert answer["decision"]["metadata"]["pii_found"] == "credit_card,email"


async def test_a_pre_processor_masks_what_the_worker_receives(
    nc: Client, at: PipelinePlace
) -> None:
    from router.sdk.samples.extensions.mask_payload import mask_payload
    from router.sdk.samples.extensions.mask_pii import mask_pii

    async with (
        serve_extension(at.nats_url, mask_payload, mask_pii),
        a_pipeline(at, ENTRIES, POLICIES) as (_, settings),
    ):
        answer = await ask(
            nc, settings, a_request(1, message=MESSAGE, policy_id="before", push_assignment=True)
        )
        (assigned,) = await read_assignments(nc, settings)
    assert assigned["job"]["payload"] == {
        "text": "[email] pays with [credit_card]",
        "[email]": ["[credit_card]"],
    }
    assert assigned["metadata"] == {"from": "[email]"}
    assert answer["decision"]["metadata"]["pii_found"] == "none"
