"""The other processes on a faulty cluster: each chain has a ledger from what is sent to its last
effect.

    chain        processes                        what is sent -> what is counted
    mailbox      relay, inbox, two databases      rows of an outbox -> events in the stream ->
                                                  effects of the inbox
    agents       an agent                         commands -> effects in its store -> messages that
                                                  it sends
    bus          a consumer of the bus            events -> effects beside its keys
    lake         an ingest, in a JVM              usage events -> rows of the table bronze

All chains of a run share one cluster, and meet its faults together. `chain` declares one, `run`
plays them, `report` tells what was found.
"""
