"""MeshForge's runtime: agents whose effects happen exactly once, over messages that are delivered
at least once.

The author of an agent implements `adapter`, and gets an `envelope`. The protocol
(docs/explanation/durability.md#protocol), and where its steps are:

    1 receive    `agent`, `tree`: one consumer for each stream, by `router.delivery`
    2 dedupe     `batch` looks the key up in `store`: applied -> its unsent messages, ack; dead ->
                 its dead letter, term
    3 persist    `batch`: one commit for all new messages
    4 apply      `batch`, `outgoing`, `state`: the adapter's state, its messages and the status in
                 one commit
    5 publish    delivery, under deterministic ids; `publish_acks` records where they are stored
    6 ack        delivery, only now
    start        `store_worker`: what was received and not applied, what was not sent; then the
                 consumers start

    database, schema            one SQLite file, one process; a failure of it ends the agent
    store, rows                 its statements, its values, many rows at a time
    thread, store_worker        SQLite's own thread, so that the event loop never waits for a disk
    topology, preparation       streams, filters, durables; created, or refused because they belong
                                to another store
    tree, observer                          what is joined, and its dead letters; what is counted
    max_deliver_recovery, stranded_sweep    messages that the server gave up: by its advisories, and
                                            where these were lost
    hashes, replay, verify, listing    the store read again: the same content, the same hash
"""
