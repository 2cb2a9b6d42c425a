-- How many events are not published (QRY-050), planned in one way whatever the session prefers. Thousands may wait, written a moment
-- ago and again when they failed: no vacuum has seen them, so an entry of the index alone cannot say whether it counts. The index names
-- the pages, and each is read once, whether one row or forty wait there. STABLE: it counts at the snapshot of the query that asks.
-- Settings apply to its own plan alone, which a session makes once and keeps; plain SQL would be planned for every look.
CREATE FUNCTION outbox_unpublished() RETURNS BIGINT
LANGUAGE plpgsql STABLE
SET enable_bitmapscan = on
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_indexonlyscan = off
SET max_parallel_workers_per_gather = 0
SET jit = off
AS $$
BEGIN
  RETURN (SELECT count(*) FROM outbox_events WHERE published_at IS NULL);
END
$$;
