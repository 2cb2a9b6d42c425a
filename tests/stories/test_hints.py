"""A misspelled field is ignored, as the specification has it, and the answer says so."""

from nats.aio.client import Client

from router.config import Settings
from tests.support.service import a_router
from tests.support.stories import a_request, ask


async def test_a_misspelled_field_is_told_in_every_answer(nc: Client, settings: Settings) -> None:
    hint = {"polcy_id": "policy_id"}
    async with a_router(settings):
        decided = await ask(nc, settings, a_request(1, polcy_id="gold"))
        (warning,) = decided["warnings"]
        assert (decided["ok"], warning["code"]) == (True, "unknown_field")
        assert warning["details"] == {"field": "polcy_id", "did_you_mean": "policy_id"}

        missing = await ask(
            nc, settings, b'{"tenant_id":"acme","task":{"payload":1},"polcy_id":"gold"}'
        )
        assert missing["error"]["details"] == {"field": "task.type", "did_you_mean": hint}
        absent = await ask(nc, settings, a_request(2, policy_id="none-such", cntext={}))
        assert absent["error"]["details"] == {
            "policy_id": "none-such",
            "did_you_mean": {"cntext": "context"},
        }
