"""`router demo`: the product in a few seconds, on a temporary broker that leaves nothing behind.

requests     the requests, and the answers that they must get
round_trip   one request, followed to its usage event; each message recorded with its time
chapters     the command and its three chapters: what is done, what is printed, what is checked; an
             unreadable result is repaired
environment  a broker in a temporary directory, a router, a worker, a client
printing     tables for people, JSON lines for programs
"""
