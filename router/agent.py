"""What the author of an agent imports.

    from router.agent import Agent, Context, Envelope, Outgoing

`router/samples/agents/ledger.py` is a complete one; the code is in `router.runtime`.
"""

from __future__ import annotations

from router.runtime.adapter import AgentAdapter, AgentState, Context, Outgoing
from router.runtime.envelope import Envelope
from router.runtime.topology import AgentTopology
from router.sdk.agent import Agent

__all__ = ["Agent", "AgentAdapter", "AgentState", "AgentTopology", "Context", "Envelope", "Outgoing"]
