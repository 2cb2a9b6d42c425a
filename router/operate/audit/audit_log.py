"""Who writes, and where the events of it are stored: the audit log of a command, a console, or a
request to a router.
"""

from __future__ import annotations

from urllib.parse import unquote

from router.config import Settings
from router.delivery.settings import NatsConfig
from router.delivery.wire.api import JetStream
from router.operate.audit import AuditLog, AuditWriter
from router.operate.topology.declared_topology import declare_audit_stream


def open_audit_log(settings: Settings, jetstream: JetStream, by: str, via: str) -> AuditLog:
    """`by`: user@host, a console's user, or the author of a request to a router; `via`: cli | console | admin."""
    writer = AuditWriter(by, via, settings.node_id, describe_login(settings.nats))
    return AuditLog(jetstream, declare_audit_stream(settings), writer)


def describe_login(config: NatsConfig) -> str | None:
    """The name of the login on the broker, never a secret: a user, or the public half of an nkey.
    None: it has none that is known here.
    """
    if config.nkey_file is not None:
        return _read_public_key(config.nkey_file.read_bytes())
    if config.creds_file is not None:
        return f"credentials {config.creds_file.name}"
    if config.user is not None:
        return config.user
    for address in config.url:
        user, colon, _ = address.rpartition("@")[0].rpartition("//")[2].partition(":")
        if colon:  # without one it is a token
            return unquote(user) or None
    return None


def _read_public_key(seed: bytes) -> str:
    import nkeys

    pair = nkeys.from_seed(seed.strip())  # type: ignore[no-untyped-call]
    try:
        return str(pair.public_key.decode())
    finally:
        pair.wipe()
