"""The prefix of a requester's inbox: which role asked, never the tokens by which its answers are addressed.

    _INBOX.x7Gk….1                    _INBOX                 every client's, where no role has a prefix of its own
    _INBOX_gateway.one.x7Gk….1        _INBOX_gateway.one     the gateway `one` (deploy/nats/accounts.conf)

An address is chosen by a client, so nothing of it is taken but a name of letters and digits between a configured prefix and the
22 random characters that NATS' clients put behind it.
"""

from __future__ import annotations

import re

from router.operate.admin.reply_addresses import SHARED_INBOX_PREFIX

_ROLE = re.compile(r"([a-z0-9][a-z0-9_-]{0,31})\.[A-Za-z0-9]{22}(?:\.|$)")


class InboxPrefixes:
    """`prefixes`: where the router answers to (reply.prefixes)."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = sorted(prefixes, key=len, reverse=True)

    def find(self, inbox: str | None) -> str | None:
        """None: there is no inbox, or it lies outside the prefixes."""
        if not inbox:
            return None
        prefix = next((one for one in self._prefixes if inbox.startswith(one)), None)
        if prefix is None or not prefix.endswith("."):
            return prefix
        role = _ROLE.match(inbox, len(prefix)) if prefix != f"{SHARED_INBOX_PREFIX}." else None
        return prefix[:-1] if role is None else prefix + role[1]
