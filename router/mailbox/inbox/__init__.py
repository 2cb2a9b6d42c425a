"""The inbox: what was received is handled once.

joined, rules                         one inbox as a tree; how it is driven
event                                 headers, subject and stream time read as one event
consumer, adapter, ledger, pile       receipts; the rows' SQL; what came of many, written at once
handling, one_by_one, in_process, http_handler    what a handler may answer, and how it is asked
process, letters, net, sweep, watch   what an answer does; what nobody will deliver again
nats_consumer                         the specified port, for loops of one's own
"""
