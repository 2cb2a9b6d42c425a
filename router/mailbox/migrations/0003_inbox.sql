-- An inbox belongs to one durable consumer: a second one would take the first one's messages for duplicates of its own.
CREATE TABLE inbox_durable (
  is_only BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (is_only),
  stream TEXT NOT NULL,
  durable TEXT NOT NULL,
  claimed_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
