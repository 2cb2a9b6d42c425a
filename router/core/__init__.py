"""The vocabulary: frozen values and pure functions that every room uses. It imports nothing of the
other rooms.

message, outcome                        what comes in; what a handler may answer
deferred, cancellation                  an answer that comes later; whether a task was cancelled
errors, backoff                         errors by what to do next; pauses between attempts
clock, ids                              the time; ids, and whether one may become a subject, a key,
                                        a path or a label
ack_subject                             what the server writes into the subject of an ack
bounded_cache, fair_slots, fair_queue   memory with a limit; slots and a queue that tenants share
masking                                 keys whose values are never logged
signatures                              whether a user's handler can be called with the arguments it
                                        will get
crashpoints                             the places at which tests kill the process
"""
