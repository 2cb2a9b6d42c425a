"""`router mailbox`, `outbox` and `inbox`."""
