"""The rig of an outbox's order: writers of one aggregate whose steps interleave, two relays at work
meanwhile, and a ledger of the lock.

drawn        begin 2 ── begin 1 ── lock 2 ── lock 1 … ── add 2 ── commit 2 ── add 1 ── commit 1       `schedule`
the ledger   2, 1: in the order in which the lock was had, what was rolled back taken off
             `writers`
the stream   the events of that aggregate, as two relays that share the outbox published them
             `run`

python -m tests.mailbox.order --interleavings 1000 --write bench/results/outbox_order.md      both versions, both levels, 2 and 3 writers
python -m tests.mailbox.order --interleavings 100 --control                                   relays that read by (occurred_at, id)
"""
