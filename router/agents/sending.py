"""A message to an agent, written by a person: checked as the agent will read it, before it is
published.

ledger.post                     -> cmd.{scope}.ledger.post
cmd.shop.orders.pay, evt.…      as it is
"""

from __future__ import annotations

from typing import Any

from router.agents.envelope import read_envelope
from router.agents.topology import AgentTopology
from router.contracts.exact_json import dump_json
from router.core import ids
from router.core.clock import now_ms
from router.core.errors import Misconfigured
from router.core.message import Effect, Message


def subject_of(text: str, topology: AgentTopology) -> str:
    """The subject. Raises Misconfigured for one that no agent can consume."""
    subject = text if topology.is_bound(text) else f"cmd.{topology.scope}.{text}"
    if not ids.is_literal_subject(subject) or "." not in text:
        raise Misconfigured(
            "SUBJECT",
            f"should be like ledger.post, or begin with cmd. or evt., and {text[:128]!r} is not",
        )
    return subject


def command_of(subject: str, kind: str, payload: Any, key: str) -> Effect:
    """Build the message; its key is its id, so the stream stores it once, however often it is sent.
    Raises Malformed.
    """
    data = dump_json({"idempotency_key": key, "type": kind, "payload": payload})
    read_envelope(Message(subject, data, {}, "", "", 0, now_ms() * 1_000_000, 1, ""))
    return Effect(subject, data, key)
