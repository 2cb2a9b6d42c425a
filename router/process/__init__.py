"""What keeps a process running and shows it: supervision, logs, metrics, traces, its HTTP port, its
child processes.

    supervision     a tree of children, each with a rule for its restart
    observability   log events, metrics, readiness, traces, and the port where operators read them
    embedded        a nats-server as a child process
    ipc             frames between a parent and a child process

Every room that runs uses it. It knows no message, no setting and no feature.
"""
