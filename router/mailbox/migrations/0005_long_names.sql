-- A B-tree takes no entry above 2.7 kB, and a name may be longer: parking such a row failed, and its relay with it. Nothing looks these
-- rows up by their aggregate; the relay reads all that wait into a hash table.
DROP INDEX idx_outbox_relay_aggregate;
