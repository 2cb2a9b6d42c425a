"""Policies: from `router policy put` to the decision, and what instances learn of providers.

model      decides: documents, plan, engine, strategies, canaries, measurements, rate limits. Pure
store      the bucket, and the writes of operators; `sync` brings directories
followed   keeps the policies of this process equal to the bucket
canaries, breakers, rate_leases, shared_measurements   join `model` with buckets, metrics and alerts
commands, page, mend                        what operators type, see and change
"""
