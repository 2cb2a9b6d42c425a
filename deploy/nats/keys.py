"""An nkey for each role: `python deploy/nats/keys.py DIR` writes DIR/<role>.nk (the seed, 0600) and DIR/keys.conf (public keys).

The server is given keys.conf, each role its own seed (setting nats.nkey_file). A seed that is there stays as it is: run it again
after adding a role. To change a key, delete its seed, run this, give the server the new keys.conf (`nats-server --signal reload`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nkeys

ROLES = ("gateway", "router", "worker", "author", "operator", "lake", "system")


def write_keys(directory: Path) -> None:
    """Make what is missing, and keys.conf anew."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [f"{role.upper()}_KEY: {_public_key(directory / f'{role}.nk')}\n" for role in ROLES]
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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_keys(Path(sys.argv[1]))
