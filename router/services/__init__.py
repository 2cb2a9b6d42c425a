"""Services of one domain each, which may import deciding and moving rooms. `app` makes them and connects them.

A policy, an extension or the state of a breaker lives in a bucket (moving), and rules read it (deciding): its store and its live copy
are here.

policy_*, live_policies                    write, check, seed and synchronise policies; the copy that requests are decided by
extension_*, live_extensions               the same for extensions, and how this process calls them
breakers, shared_breakers                  the breakers of this process; their openings on the other instances
known_assignments, finished_assignments    the bucket of assignments; the removal of those that are done
provider_server, ingress_*                 requests that are no decide requests, answered
invocation_*, attempt_store, first_responses, assignment_claims, unfinished_invocations    what invocations cost, billed once
partition_leases, partition_monitor        who takes a partition of the decide subject, and whether any router does
live_requests                              decide requests answered from their live copies
workers, alerts, violations                who works, and what operators hear of it
consumer_metrics, handler_metrics          what rooms report, as metrics, log lines and alerts
topology_monitor, drift                    whether the server is still as declared
admin_stores, instances, pipeline_services, decision_services, recorded_decisions, request_steps    what operators read and write
"""
