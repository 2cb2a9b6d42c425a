"""An nkey for each role: `python deploy/nats/keys.py DIR [USER ...]` writes DIR/<role>.nk (the
seed, 0600) and DIR/keys.conf (public keys).

The server is given keys.conf, each role its own seed (setting nats.nkey_file). A USER is one more
of a role, like gateway.two: its seed is DIR/gateway.two.nk, its key $GATEWAY_TWO_KEY; its block in
accounts.conf is a copy of the first one's. A seed that is there stays as it is and its key stays in
keys.conf: run it again after adding a user. To change a key, delete its seed, run this, give the
server the new keys.conf (`nats-server --signal reload`).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nkeys

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
    "mirror",
    "system",
)
USER = re.compile(rf"({'|'.join(ROLES)})\.[a-z0-9_]+")


def write_keys(directory: Path, *users: str) -> None:
    """Make what is missing, and keys.conf anew. ValueError: a user's name is not a role's with one
    of its own.
    """
    if wrong := [user for user in users if USER.fullmatch(user) is None]:
        raise ValueError(
            f"{wrong[0]}: a user is a role and a name, like gateway.two; roles are "
            f"{', '.join(ROLES)}"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = (file.stem for file in directory.glob("*.nk") if USER.fullmatch(file.stem))
    names = (*ROLES, *sorted({*users, *there}))
    lines = [
        f"{name.upper().replace('.', '_')}_KEY: {_public_key(directory / f'{name}.nk')}\n"
        for name in names
    ]
    (directory / "keys.conf").write_text("".join(lines))


def _public_key(seed: Path) -> str:
    if not seed.exists():
        _write_seed(seed)
    return nkeys.from_seed(bytearray(seed.read_bytes().strip())).public_key.decode()


def _write_seed(file: Path) -> None:
    """Readable by its owner alone from the first moment on."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        write_keys(Path(sys.argv[1]), *sys.argv[2:])
    except ValueError as exc:
        sys.exit(str(exc))
