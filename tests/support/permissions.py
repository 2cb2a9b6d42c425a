"""What each role may do on a server as deploy/nats configures it: every action tried by every role.

Each thing is really done by a NATS client with the role's key. Allowed means that it happened: the answer came, the
message was heard. Refused means that the server said so. Anything else is neither, and fails its test.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from nats.aio.client import Client

from router.sdk.samples.extensions.pii_guard import pii_guard
from tests.support.client_actions import DEEDS, ClientAction
from tests.support.deployed import DEPLOY, ROLES, WITNESS, Deployed
from tests.support.extension_author import serve_extension
from tests.support.service import a_router

ALLOWED, REFUSED = "allowed", "refused"
WAIT_S = 5.0

Came = dict[tuple[str, str], str]  # (what a deed says, role) -> allowed, refused, or what went wrong

HEAD = """# What each role may do

Every line was done by a NATS client with the role's key, on a server with `accounts.conf`, while a router and an extension
were at work. *yes*: it happened (the answer came, the message was heard). Empty: the server refused it. `python -m
tests.support.permissions` tries it all again and writes this page; a test does the same and compares.

"""


def page(came: Came) -> str:
    """As Markdown, a row for each deed: yes, or an empty field for what was refused."""
    head = f"{HEAD}| | {' | '.join(ROLES)} |\n|---|{'|'.join([':-:'] * len(ROLES))}|\n"
    rows = (f"| {deed.says} | {' | '.join(_mark(came[deed.says, role]) for role in ROLES)} |\n" for deed in DEEDS)
    return head + "".join(rows)


def expected() -> Came:
    """As the deeds say who may."""
    return {(deed.says, role): ALLOWED if role in deed.roles else REFUSED for deed in DEEDS for role in ROLES}


def _mark(came: str) -> str:
    return {ALLOWED: "yes", REFUSED: " "}[came]


async def measured(deployed: Deployed, deeds: Iterable[ClientAction] = DEEDS) -> Came:
    """Every deed tried by every role, while a router and an extension are at work."""
    router, author = deployed.settings("router", http__port=0, acks__enabled=True), deployed.settings("author")
    witness = await deployed.connect(WITNESS)
    try:
        async with a_router(router), serve_extension(author.nats, pii_guard, reply_prefixes=author.reply.prefixes):
            return {(deed.says, role): await _tried(deployed, deed, role, witness) for deed in deeds for role in ROLES}
    finally:
        await witness.close()


async def _tried(deployed: Deployed, deed: ClientAction, role: str, witness: Client) -> str:
    async with _seated(deployed, role, deed.subject) as (client, violation):
        doing = asyncio.create_task(_DO[deed.how](deed, client, witness))
        await asyncio.wait({doing, violation}, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        if violation.done():
            doing.cancel()
            return REFUSED
        if not doing.done():
            doing.cancel()
            return "nothing came of it"
        return doing.result()


@asynccontextmanager
async def _seated(deployed: Deployed, role: str, subject: str) -> AsyncIterator[tuple[Client, "asyncio.Future[None]"]]:
    violation: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def heard(exc: Exception) -> None:
        if "permissions violation" in str(exc) and f'"{subject.lower()}"' in str(exc).lower() and not violation.done():
            violation.set_result(None)

    client = await deployed.connect(role, error_cb=heard)
    try:
        yield client, violation
    finally:
        await client.close()


async def _ask(deed: ClientAction, client: Client, _: Client) -> str:
    answer = await client.request(deed.subject, _data(deed), timeout=WAIT_S)
    if (answer.headers or {}).get("Status") == "503":
        return "nobody answers"
    said = json.loads(answer.data) if answer.data else {}
    is_an_error = isinstance(said, dict) and said.get("error") and not deed.subject.startswith("beamline.")
    return f"refused by its server: {said['error']}" if is_an_error else ALLOWED


async def _tell(deed: ClientAction, client: Client, witness: Client) -> str:
    heard = asyncio.Event()

    async def hear(_: object) -> None:
        heard.set()

    ear = await witness.subscribe(deed.subject, cb=hear)
    await witness.flush()
    await client.publish(deed.subject, _data(deed))
    await heard.wait()
    await ear.unsubscribe()
    return ALLOWED


async def _listen(deed: ClientAction, client: Client, witness: Client) -> str:
    heard = asyncio.Event()

    async def hear(_: object) -> None:
        heard.set()

    await client.subscribe(deed.subject, cb=hear)
    await client.flush()
    await witness.publish(deed.told or deed.subject, b"{}")
    await heard.wait()
    return ALLOWED


async def _bind(deed: ClientAction, client: Client, witness: Client) -> str:
    """A consumer is made in any case where the role may make one; what counts is whom it delivers to."""
    body = json.loads(_data(deed))
    ear = await witness.subscribe(body["config"]["deliver_subject"])
    await witness.flush()
    answer = json.loads((await client.request(deed.subject, _data(deed), timeout=WAIT_S)).data)
    await ear.unsubscribe()
    return ALLOWED if answer.get("push_bound") else REFUSED


_DO = {"bind": _bind, "ask": _ask, "tell": _tell, "listen": _listen}


def _data(deed: ClientAction) -> bytes:
    return b"" if deed.body is None else json.dumps(deed.body).encode()


def main() -> None:
    """Measure, and write the page."""
    deployed = Deployed().start()
    try:
        asyncio.run(deployed.make_topology())
        (DEPLOY / "nats" / "PERMISSIONS.md").write_text(page(asyncio.run(measured(deployed))))
    finally:
        deployed.remove()


if __name__ == "__main__":
    main()
