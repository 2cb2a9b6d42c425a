"""What operators see and do, and what keeps a process running.

observability   logs, metrics, readiness, traces
supervision     the tree of a process, and the restarts of its children
admin           the operators' services over NATS
deadletters     dead letters: listed, counted, replayed
doctor          what is wrong with a server, and what helps
fleet           several processes of one router under one parent
embedded        a nats-server as our own child process
"""
