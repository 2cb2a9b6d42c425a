"""What each role may do on a server as deploy/nats configures it: every action tried by every role.

Each thing is really done by a NATS client with the role's key. Allowed means that it happened: the
answer came, the message was heard. Refused means that the server said so. Anything else is neither,
and fails its test.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from nats.aio.client import Client

from router.sdk.samples.extensions.pii_guard import pii_guard
from tests.support.client_actions import CLIENT_ACTIONS, ClientAction
from tests.support.deployed import DEPLOY, ROLES, WITNESS, Deployed
from tests.support.extension_author import serve_extension
from tests.support.service import a_router

ALLOWED, REFUSED = "allowed", "refused"
WAIT_S = 20.0

# (what an action does, role) -> allowed, refused, or what went wrong
Verdicts = dict[tuple[str, str], str]

HEAD = """# What each role may do

Every line was done by a NATS client with the role's key, on a server with `accounts.conf`, while a router and an extension
were at work. *yes*: it happened (the answer came, the message was heard). Empty: the server refused it. `python -m
tests.support.permissions` tries it all again and writes this page; a test does the same and compares.

"""


def render_page(verdicts: Verdicts) -> str:
    """Render Markdown: a row for each action, yes or an empty field for each role."""
    head = f"{HEAD}| | {' | '.join(ROLES)} |\n|---|{'|'.join([':-:'] * len(ROLES))}|\n"
    rows = (
        f"| {action.says} | {' | '.join(_mark(verdicts[action.says, role]) for role in ROLES)} |\n"
        for action in CLIENT_ACTIONS
    )
    return head + "".join(rows)


def list_expected() -> Verdicts:
    """What each action says of each role."""
    return {
        (action.says, role): ALLOWED if role in action.roles else REFUSED
        for action in CLIENT_ACTIONS
        for role in ROLES
    }


def _mark(verdict: str) -> str:
    return {ALLOWED: "yes", REFUSED: " "}[verdict]


async def measure(deployed: Deployed, actions: Iterable[ClientAction] = CLIENT_ACTIONS) -> Verdicts:
    """Let every role try every action, while a router and an extension are at work."""
    router, author = (
        deployed.settings("router", http__port=0, acks__enabled=True),
        deployed.settings("author"),
    )
    async with (
        await deployed.connect(WITNESS) as witness,
        a_router(router),
        serve_extension(author.nats, pii_guard, reply_prefixes=author.reply.prefixes),
    ):
        return {
            (action.says, role): await _try(deployed, action, role, witness)
            for action in actions
            for role in ROLES
        }


async def _try(deployed: Deployed, action: ClientAction, role: str, witness: Client) -> str:
    async with _connect_as(deployed, role, action.subject) as (client, violation):
        doing = asyncio.create_task(_DO[action.how](action, client, witness))
        await asyncio.wait({doing, violation}, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        if violation.done():
            doing.cancel()
            return REFUSED
        if not doing.done():
            doing.cancel()
            return "neither happened nor was refused"
        return doing.result()


@asynccontextmanager
async def _connect_as(
    deployed: Deployed, role: str, subject: str
) -> AsyncIterator[tuple[Client, "asyncio.Future[None]"]]:
    violation: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_error(exc: Exception) -> None:
        if (
            "permissions violation" in str(exc)
            and f'"{subject.lower()}"' in str(exc).lower()
            and not violation.done()
        ):
            violation.set_result(None)

    async with await deployed.connect(role, error_cb=on_error) as client:
        yield client, violation


async def _ask(action: ClientAction, client: Client, _: Client) -> str:
    answer = await client.request(action.subject, _data(action), timeout=WAIT_S)
    if (answer.headers or {}).get("Status") == "503":
        return "no service answers"
    said = json.loads(answer.data) if answer.data else {}
    is_an_error = (
        isinstance(said, dict) and said.get("error") and not action.subject.startswith("beamline.")
    )
    return f"refused by its server: {said['error']}" if is_an_error else ALLOWED


async def _tell(action: ClientAction, client: Client, witness: Client) -> str:
    heard = asyncio.Event()

    async def on_message(_: object) -> None:
        heard.set()

    ear = await witness.subscribe(action.subject, cb=on_message)
    await witness.flush()
    await client.publish(action.subject, _data(action))
    await heard.wait()
    await ear.unsubscribe()
    return ALLOWED


async def _listen(action: ClientAction, client: Client, witness: Client) -> str:
    heard = asyncio.Event()

    async def on_message(_: object) -> None:
        heard.set()

    await client.subscribe(action.subject, cb=on_message)
    await client.flush()
    await witness.publish(action.told or action.subject, b"{}")
    await heard.wait()
    return ALLOWED


async def _bind(action: ClientAction, client: Client, witness: Client) -> str:
    """A consumer is made in any case where the role may make one; what counts is whom it delivers
    to.
    """
    body = json.loads(_data(action))
    ear = await witness.subscribe(body["config"]["deliver_subject"])
    await witness.flush()
    answer = json.loads((await client.request(action.subject, _data(action), timeout=WAIT_S)).data)
    await ear.unsubscribe()
    return ALLOWED if answer.get("push_bound") else REFUSED


_DO = {"bind": _bind, "ask": _ask, "tell": _tell, "listen": _listen}


def _data(action: ClientAction) -> bytes:
    return b"" if action.body is None else json.dumps(action.body).encode()


def main() -> None:
    """Measure, and write the page."""
    with Deployed() as deployed:
        asyncio.run(deployed.make_topology())
        (DEPLOY.parent / "docs" / "reference" / "permissions.md").write_text(
            render_page(asyncio.run(measure(deployed)))
        )


if __name__ == "__main__":
    main()
