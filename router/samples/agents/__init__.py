"""Sample agents: `router agent run router.samples.agents.ledger:Ledger`."""
