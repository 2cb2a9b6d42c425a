"""Sample agents: `router agent run router.sdk.samples.agents.ledger:Ledger`."""
