-- The table holds publish acks, and has their name now.
ALTER TABLE outbox_receipts RENAME TO outbox_publish_acks;
ALTER INDEX outbox_receipts_pkey RENAME TO outbox_publish_acks_pkey;
ALTER INDEX idx_outbox_receipts_sequence RENAME TO idx_outbox_publish_acks_sequence;
ALTER INDEX idx_outbox_receipts_published RENAME TO idx_outbox_publish_acks_published;
