"""MeshForge's runtime: agents whose effects happen exactly once, over messages that are delivered
at least once.

The author of an agent implements `adapter`, and gets an `envelope`. The protocol
(docs/explanation/durability.md#protocol), and where its steps are:

    1 receive    `agent`: one consumer for each stream, by `router.delivery`
    2 dedupe     `batch` looks the key up in `store`: applied -> its unsent messages, ack; dead ->
                 its dead letter, term
    3 persist    `batch`: one commit for all new messages
    4 apply      `batch`, `outgoing`, `state`: the adapter's state, its messages and the status in
                 one commit
    5 publish    delivery, under deterministic ids; `outgoing` records where they are stored
    6 ack        delivery, only now
    start        `store_worker`: what was received and not applied, what was not sent; then the
                 consumers start

    database, schema            one SQLite file, one process; a failure of it ends the agent
    store                       its values and statements, many rows at a time
    store_worker                SQLite's own thread, so that the event loop never waits for a disk
    topology                    streams, filters, durables; created, or refused because they belong
                                to another store
    agent, observer             what is joined, and its dead letters; what is counted
    given_up_messages           those that the server gave up: by its advisories, and where these
                                were lost
    replay, inspection          the store read again: the same content, the same hash; looked over
"""
