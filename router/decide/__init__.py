"""Decide requests: five forms read as one, answered from memory or decided by policy, pushed.

    model           decides: from bytes to an outcome. No broker in it
    live_requests   requests answered from their passing copy while the backlog is deep
    ingress_server  messages that become decide requests
    decision_services, request_steps   why it was decided so, and what followed
    partitions      who takes the requests of a partition
    commands, page  what users and operators type and see

`serve.decide_branch` joins all this with the consumer of the requests.
"""
