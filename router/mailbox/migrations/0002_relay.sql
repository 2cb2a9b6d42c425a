-- Rows that could not be published: written on failure alone, so a healthy relay never touches it.
CREATE TABLE outbox_relay_state (
  outbox_id UUID PRIMARY KEY REFERENCES outbox_events (id) ON DELETE CASCADE,
  aggregate_type TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  failures INT NOT NULL DEFAULT 0,
  next_attempt_at TIMESTAMPTZ NOT NULL,
  parked_at TIMESTAMPTZ
);

CREATE INDEX idx_outbox_relay_aggregate ON outbox_relay_state (aggregate_type, aggregate_id);

-- Where what was published stands: one row for each marking, so that acked data which the broker lost is published again.
CREATE TABLE outbox_receipts (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream TEXT NOT NULL,
  stream_created TEXT NOT NULL,
  last_sequence BIGINT NOT NULL,
  outbox_ids UUID[] NOT NULL,
  sequences BIGINT[] NOT NULL,
  published_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

CREATE INDEX idx_outbox_receipts_sequence ON outbox_receipts (stream, last_sequence);
CREATE INDEX idx_outbox_receipts_published ON outbox_receipts (published_at);
