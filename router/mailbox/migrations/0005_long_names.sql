-- A B-tree takes no entry above 2.7 kB, and a name may be longer: parking such a row failed, and its relay with it. So aggregates that wait
-- are looked up by a hash of their names. Without an index all that wait were compared with each row, once a hash table of them was too
-- large for work_mem: with 200 000 of them one look took minutes.
DROP INDEX idx_outbox_relay_aggregate;
CREATE INDEX idx_outbox_relay_aggregate ON outbox_relay_state (hashtext(aggregate_type || '/' || aggregate_id));
