"""Work: what a decision leads to, by a worker or by a provider, and the usage event that each
outcome costs.

    model        decides: results, acknowledgements, heartbeats, metering. Pure
    assignments, assignment_claims, report_marks, metered_events   the ports of `model` over buckets and streams
    invocations  a provider invoked through the router: its server, its attempts, its bill
    workers      listens to heartbeats
    commands, pages   what operators type and see

`sdk.worker` is the worker itself.
"""
