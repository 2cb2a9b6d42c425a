"""The server knows a message id of all tenants together: whose id was taken is told so at once, and
never left in silence.

The gateway's duty (docs/how-to/deploy.md, "Message ids"): ids that cannot be guessed, or the tenant
before them.
"""

import json

from nats.aio.client import Client
from nats.aio.msg import Msg

from router import Client as RouterClient
from router.config import Settings
from tests.support.service import a_router, settings_for
from tests.support.stories import Inboxes, a_request
from tests.support.waiting import until

COUNT = 20


async def test_a_request_whose_id_was_taken_by_a_sender_without_an_inbox_is_told_so(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Findings M5: the next id is guessed, and its message sent a moment earlier. The stream drops
    the second one without a word.
    """
    settings = settings_for(nats_url, prefix, streams__decide__duplicate_window_ms=500)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings):
        # the client writes both at once: the listener hears them before the first is decided
        for n in range(COUNT):
            taken = json.loads(a_request(f"taken-{n}"))
            taken["message"]["tenant_id"] = "evil"
            await nc.publish(
                settings.decide.subject,
                json.dumps(taken).encode(),
                headers={"Nats-Msg-Id": f"m-{n}"},
            )
            await inboxes.publish(nc, settings, n)
        await until(lambda: len(inboxes) >= COUNT)
    answers = [json.loads(answer) for n in range(COUNT) for answer in inboxes.answers(n)]
    assert [answer["error"]["code"] for answer in answers] == ["invalid_request"] * COUNT
    assert {
        (answer["error"]["details"]["field"], answer["error"]["details"]["cause"])
        for answer in answers
    } == {("Nats-Msg-Id", "message_id_taken")}


async def test_an_id_that_begins_with_its_tenant_is_taken_by_no_other(
    nc: Client, settings: Settings, prefix: str
) -> None:
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings):
        for n in range(COUNT):
            for tenant in ("evil", "acme"):
                body = json.loads(a_request(f"{tenant}-{n}"))
                body["message"]["tenant_id"] = tenant
                await inboxes.publish(
                    nc,
                    settings,
                    f"{tenant}-{n}",
                    json.dumps(body).encode(),
                    Nats_Msg_Id=f"{tenant}:{n}",
                )
        await until(lambda: len(inboxes) >= 2 * COUNT)
    assert all(
        json.loads(answer)["ok"] for n in range(COUNT) for answer in inboxes.answers(f"acme-{n}")
    )


async def test_the_clients_own_ids_cannot_be_guessed(
    nc: Client, settings: Settings, nats_url: str
) -> None:
    seen: list[str] = []

    async def hear(message: Msg) -> None:
        seen.append((message.headers or {})["Nats-Msg-Id"])

    await nc.subscribe(settings.decide.subject, cb=hear)
    await nc.flush()
    async with (
        a_router(settings),
        RouterClient(nats_url, subject=settings.decide.subject) as client,
    ):
        for n in range(8):
            await client.decide(
                tenant_id="acme", message_type="chat", payload="hi", request_id=f"r-{n}"
            )
    await until(lambda: len(seen) == 8)
    # what a UUID says of itself stands there
    columns = [len({one[at] for one in seen}) for at in range(32) if at not in (12, 16)]
    assert len(set(seen)) == 8
    assert min(columns) >= 2
