"""Agents to begin with: `router agent run router.samples.agents.ledger:Ledger`."""
