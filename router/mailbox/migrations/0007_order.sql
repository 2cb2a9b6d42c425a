-- The relay reads what is not published by position (docs/reference/requirements.md#x27). An entry leaves with the mark of its row.
CREATE INDEX idx_outbox_position ON outbox_events (position) WHERE published_at IS NULL;
