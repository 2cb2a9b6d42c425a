"""Require TLS where the settings ask for it, and find logins that would be sent without it.

A server says in its first line (INFO) whether it requires TLS, and nats-py trusts that: a program
in the server's place could get the login in the clear. Here the client decides: with an address
`tls://`, or a file for TLS, it sends nothing to a server without TLS.

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
    """One encrypted address counts for all of a cluster, because each member gets the same login."""
    return bool(options.get("tls")) or any(scheme in ENCRYPTED for scheme in schemes)


def require(info: dict[str, Any], scheme: str) -> None:
    """Make nats-py begin TLS with this server. Raises TlsNotOffered where the server cannot."""
    if scheme == "wss":  # encrypted since before the first line
        return
    if scheme == "ws" or not (info.get("tls_required") or info.get("tls_available")):
        raise TlsNotOffered
    info["tls_required"] = True


def find_unprotected(servers: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """The addresses of other hosts to which a login would be sent in the clear."""
    addresses = list(servers)
    if is_wanted(map(_scheme, addresses), options):
        return []
    has_login = any(options.get(name) for name in LOGINS)
    return [
        address
        for address in addresses
        if (has_login or "@" in address) and not _is_this_host(address)
    ]


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
