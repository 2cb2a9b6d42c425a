"""A server as deploy/nats configures it, a key for each role, and settings as deploy/router.toml
gives them.
"""

import runpy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from nats.aio.client import Client

from router.config import Settings, load
from router.delivery.wire.connection import Connection
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.startable import Startable

DEPLOY = Path(__file__).parents[2] / "deploy"
TOML = DEPLOY / "router.toml"
ROLES = (
    "gateway",
    "http_gateway",
    "router",
    "worker",
    "author",
    "provider",
    "operator",
    "console",
    "lake",
)
WITNESS = "witness"  # may do everything: it looks whether what a role did has happened


OF_MANY = (
    "gateway",
    "worker",
    "author",
    "provider",
)  # roles with many users: the shipped one is called "one"


def write_keys(directory: Path, *users: str) -> None:
    """By the script that is shipped."""
    runpy.run_path(str(DEPLOY / "nats" / "keys.py"))["write_keys"](directory, *users)


def inbox_of(role: str) -> str:
    """The inbox prefix of a role, or of one more user of it (`gateway.two`)."""
    return f"_INBOX_{role}.one" if role in OF_MANY else f"_INBOX_{role}"


def _with_user(accounts: str, user: str) -> str:
    """As docs/how-to/deploy.md says: a copy of the block of the role's first user, with its own key
    and prefix.
    """
    role, _, name = user.partition(".")
    at = accounts.index(f"      {{ nkey: ${role.upper()}_KEY")
    block = accounts[at : accounts.index("\n\n", at)]
    copy = block.replace(f"${role.upper()}_KEY", f"${role.upper()}_{name.upper()}_KEY").replace(
        f"_INBOX_{role}.one", f"_INBOX_{user}"
    )
    return accounts.replace(block, f"{block}\n\n{copy}")


class Deployed(Startable):
    """`start` it, `remove` it. `is_partitioned`: with partitions.conf; `users`: more than one of a
    role; `change`: accounts.conf.
    """

    def __init__(
        self,
        *,
        is_partitioned: bool = False,
        users: tuple[str, ...] = (),
        change: Callable[[str], str] = lambda accounts: accounts,
    ) -> None:
        self.keys = Path(tempfile.mkdtemp(prefix="router-test-keys-"))
        self._users = users
        self._change = change
        write_keys(self.keys, *users)
        (self.keys / "witness.nk").write_bytes((self.keys / "system.nk").read_bytes())
        self.broker = Broker(self._accounts(is_partitioned))

    def _accounts(self, is_partitioned: bool) -> str:
        """accounts.conf as it stands, but that the system account's user is a witness among the
        roles.
        """
        text = self._change((DEPLOY / "nats" / "accounts.conf").read_text())
        for user in self._users:
            text = _with_user(text, user)
        text = text.replace("include 'keys.conf'", (self.keys / "keys.conf").read_text())
        if is_partitioned:
            text = text.replace(
                "# include 'partitions.conf'", (DEPLOY / "nats" / "partitions.conf").read_text()
            )
        return text.replace("users: [ { nkey: $SYSTEM_KEY } ]", "").replace(
            "    users: [\n", "    users: [ { nkey: $SYSTEM_KEY }\n", 1
        )

    def start(self) -> Self:
        self.broker.start()
        return self

    async def make_topology(self, **more: str) -> None:
        """By the operator's own command, before anything else runs: no other role may do it.
        `more`: variables.
        """
        operator = {**self.environ("operator"), "ROUTER_ACKS__ENABLED": "true", **more}
        ended = await call_command_async(
            "topology", "apply", "--worker", "caf-worker", environ=operator
        )
        assert ended.status == 0, ended.err
        mirrored = await call_command_async("topology", "mirror", environ=self.environ("mirror"))
        assert mirrored.status == 0, mirrored.err

    def remove(self) -> None:
        self.broker.remove()
        shutil.rmtree(self.keys, ignore_errors=True)

    def names(self, role: str, **more: object) -> dict[str, object]:
        """What this role's process is told beside the file."""
        return {
            "nats.url": self.broker.url,
            "nats.nkey_file": str(self.keys / f"{role}.nk"),
            "nats.inbox_prefix": inbox_of(role),
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def settings(self, role: str, **more: object) -> Settings:
        return load(TOML, self.names(role, **more), {}).settings

    def environ(self, role: str) -> dict[str, str]:
        """The same for a command."""
        given = {
            f"ROUTER_{name.upper().replace('.', '__')}": str(value)
            for name, value in self.names(role).items()
        }
        return {"ROUTER_CONFIG_FILE": str(TOML), **given}

    async def connect(self, role: str, **options: Any) -> Client:
        """A NATS client with this role's key; ours, for its flush says truly that a subscription is
        there.
        """
        client = Connection()
        given = {
            "nkeys_seed": str(self.keys / f"{role}.nk"),
            "inbox_prefix": inbox_of(role),
            "allow_reconnect": False,
            "connect_timeout": 60,
        }
        await client.connect(self.broker.url, **{**given, **options})
        return client

    def violations(self) -> list[str]:
        """What the server refused so far, as its log tells it."""
        return [line for line in self.broker.log.splitlines() if "Violation" in line]
