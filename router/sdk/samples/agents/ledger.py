"""A sample agent: accounts that commands credit and debit, each command once.

router agent run router.sdk.samples.agents.ledger:Ledger --store ledger.db nats pub
cmd.default.demo.ledger.post '{"type": "post", "payload": {"account": "acme", "amount": 250}}'

state      balance:{account}   the account's balance, in cents
messages   evt.default.demo.ledger.posted   {account, amount, balance}
"""

from __future__ import annotations

from collections.abc import Sequence

from router.core.errors import Poison
from router.sdk.agent import Context, Envelope, Outgoing

POSTED = "evt.default.demo.ledger.posted"
MAX_BALANCE = 2**63 - 1  # cents: a larger number needs more than 64 bits
MAX_NAME = 128


class Ledger:
    """An `AgentAdapter`: no base class, a name and two methods."""

    name = "ledger"

    def receive(self, envelope: Envelope) -> None:
        """Check that the posting names an account and an amount of cents. Raises Poison: another
        attempt would not help.
        """
        payload = envelope.payload
        if (
            not isinstance(payload, dict)
            or not isinstance(payload.get("account"), str)
            or type(payload.get("amount")) is not int
        ):
            raise Poison("a posting needs an account (text) and an amount (whole cents)")
        if not 0 < len(payload["account"]) <= MAX_NAME:
            raise Poison(f"an account's name has 1 to {MAX_NAME} characters")

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        account, amount = envelope.payload["account"], envelope.payload["amount"]
        balance = ctx.state.get(f"balance:{account}", 0) + amount
        if not -MAX_BALANCE <= balance <= MAX_BALANCE:
            # only this command fails: the account stays as it is
            raise Poison("the balance would need more than 64 bits")
        ctx.state.put(f"balance:{account}", balance)
        return [
            Outgoing(POSTED, "posted", {"account": account, "amount": amount, "balance": balance})
        ]
