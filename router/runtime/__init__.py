"""MeshForge's runtime: agents whose effects happen exactly once, over messages that are delivered at least once.

What an agent's author writes is `adapter`; what he is handed is `envelope`. The protocol
(docs/durability.md#protocol), and where its steps are:

    1 receive    `agent`, `tree`: one lane for each stream, on delivery's own room
    2 dedupe     `batch` asks `store`: applied -> its unsent messages, ack; dead -> its letter, term
    3 persist    `batch`, `batch_item`: one commit for all new messages
    4 apply      `batch`, `outbound`, `state`: the adapter's state, its messages and the status in one commit
    5 publish    delivery, under deterministic ids; `receipts` remembers where they stand
    6 ack        delivery, only now
    start        `resume`: what was received and not applied, what was not sent; then the lanes begin

    database, lock, schema      one SQLite file, one process; what goes wrong with it ends the agent
    store, rows, bulk           its statements, its values, many rows at a time
    thread, work                SQLite's own thread, so that the loop never waits for a disk
    places, ground              streams, filters, durables; made, or refused because they are another's
    letters, noted, rescue      dead letters; messages that the server gave up (advisories, and a sweep)
    hashes, replay, verify, listing    the store read again: the same content, the same hash
"""
