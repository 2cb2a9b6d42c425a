"""The inbox: handles each received message once.

inbox, rules                             one inbox with its supervision tree; its options
event                                    headers, subject and stream time read as one event
consumer, adapter                        inbox rows; their SQL; results of many messages written in
                                         one commit
handling, http_strategy, transactional_strategy, http_handler    what a handler may answer, and how it is called
process, dead_letters, observer          what an answer does
max_deliver_recovery, stale_row_scan     messages that the server delivers no more
"""
