"""TLS is insisted on where it was asked for, and a login that travels without it is warned of.

A server says by itself, in its first line (INFO), whether it wants TLS, and nats-py believes it: a program that answers in the server's
place would be sent the login in the clear. Here the client decides: an address with `tls://`, or a file for TLS, and no byte is
sent to a server that offers none.

    tls:// or files for TLS ── the server requires TLS ──> handshake
                            ├─ it offers TLS ────────────> handshake, as if it required it
                            └─ it does neither ──────────> TlsNotOffered: the connection is closed, nothing was sent
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

import nats.errors

ENCRYPTED = ("tls", "wss")
LOGINS = ("user", "password", "token", "user_credentials", "nkeys_seed", "nkeys_seed_str")


class TlsNotOffered(nats.errors.Error):
    """The server offers no TLS, and the settings ask for it."""

    def __str__(self) -> str:
        return "it offers no TLS, and the settings ask for it: nothing was sent to it"


def is_wanted(schemes: Iterable[str], options: Mapping[str, Any]) -> bool:
    """One encrypted address speaks for all of a cluster: each member is sent the same login."""
    return bool(options.get("tls")) or any(scheme in ENCRYPTED for scheme in schemes)


def require(info: dict[str, Any], scheme: str) -> None:
    """Make nats-py begin TLS with this server. Raises TlsNotOffered where the server cannot."""
    if scheme == "wss":  # encrypted since before the first line
        return
    if scheme == "ws" or not (info.get("tls_required") or info.get("tls_available")):
        raise TlsNotOffered
    info["tls_required"] = True


def find_unprotected(servers: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """The addresses beyond this host that would be sent a login in the clear, as they were given."""
    addresses = list(servers)
    if is_wanted(map(_scheme, addresses), options):
        return []
    has_login = any(options.get(name) for name in LOGINS)
    return [address for address in addresses if (has_login or "@" in address) and not _is_this_host(address)]


def _scheme(address: str) -> str:
    scheme, separator, _ = address.partition("://")
    return scheme if separator else ""


def _is_this_host(address: str) -> bool:
    host = address.rpartition("@")[2].rpartition("//")[2].partition("/")[0]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
