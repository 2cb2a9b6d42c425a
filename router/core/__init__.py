"""The vocabulary: frozen values and pure functions that every room uses. It imports nothing of the
other rooms.

message, outcome                        what comes in, where it stands; what a handler may answer
deferred, cancellation                  an answer that comes later; whether a task was cancelled
errors                                  errors by what to do next
clock, ids                              the time, pauses between attempts; ids, and whether one may
                                        become a subject, a key, a path or a label
bounded_cache, fair_slots, fair_queue   memory with a limit; slots and a queue that tenants share
masking                                 keys whose values are never logged
user_functions                          whether a user's handler can be called with the arguments it
                                        will get; what it may not end
crashpoints                             the places at which tests kill the process
"""
