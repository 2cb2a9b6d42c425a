-- docs/reference/requirements.md#sd-26 and #sd-27, word for word but for IF NOT EXISTS and the column `position`, which orders the events
-- of an aggregate (docs/reference/requirements.md#x27). Nothing else may be added to these two tables: what we need stands beside them. A
-- service may have made them itself; `schema` looks whether they are these.
CREATE TABLE IF NOT EXISTS outbox_events (
  id UUID PRIMARY KEY,
  aggregate_type TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  event_version INT NOT NULL DEFAULT 1,
  payload JSONB NOT NULL,
  occurred_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  correlation_id UUID,
  causation_id UUID,
  published_at TIMESTAMPTZ,
  publish_attempts INT NOT NULL DEFAULT 0,
  publish_error TEXT,
  position BIGINT GENERATED ALWAYS AS IDENTITY,

  CONSTRAINT chk_occurred_not_future CHECK (occurred_at <= NOW() + INTERVAL '1 minute')
);

CREATE INDEX IF NOT EXISTS idx_outbox_unpublished ON outbox_events (occurred_at)
  WHERE published_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_outbox_correlation ON outbox_events (correlation_id);

CREATE TABLE IF NOT EXISTS inbox_messages (
  message_id UUID PRIMARY KEY,
  subject TEXT NOT NULL,
  received_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  processed_at TIMESTAMPTZ,
  attempts INT NOT NULL DEFAULT 0,
  last_error TEXT
);

CREATE INDEX IF NOT EXISTS idx_inbox_unprocessed ON inbox_messages (received_at)
  WHERE processed_at IS NULL;
